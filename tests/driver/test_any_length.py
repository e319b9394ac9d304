"""One cache, many lengths: each program does what the one does that is compiled for its request, or each error is."""

from __future__ import annotations

import random
from collections.abc import Callable

import nnet3
from nnet3.engine.ir.computation import NnetComputation
from tests.effort import EFFORT, draws, nightly
from tests.families.networks import TDNN, compiled, same_program_or_results
from tests.random_lengths import RandomLengths
from tests.random_networks import random_network
from tests.seeds import shifted
from tests.shared_data import GOLDEN, needs_shared


def _lengths(seed: int) -> list[int]:
    rng = random.Random(shifted(seed))
    longest = rng.choice([31, 50, 75])
    lengths = [
        longest,
        longest - 1,
        longest - 3,
        rng.randint(18, longest),
        rng.randint(1, 20),
        longest + 1,
        2 * longest + 3,
    ]
    return lengths if rng.random() < 0.7 else rng.sample([*lengths, 4 * longest], len(lengths) + 1)


def _outcome(compile_: Callable[..., NnetComputation], *what: object) -> NnetComputation | str:
    try:
        return compile_(*what)
    except nnet3.Nnet3Error as error:
        return str(error)


def check_any_length(nnet: nnet3.Nnet, seed: int) -> nnet3.ComputationCache:
    cache, requests = nnet3.ComputationCache(), RandomLengths(nnet, seed)
    for frames in _lengths(seed):
        request = requests(frames * random.Random(seed).choice([1, nnet.modulus]))
        if request is None:
            continue
        fresh, cached = (_outcome(how, nnet, request, requests.options) for how in (compiled, cache.compile))
        if isinstance(fresh, str) or isinstance(cached, str):
            assert fresh == cached
            continue
        assert same_program_or_results(nnet, request, fresh, cached), f"{frames} frames"
        assert fresh.kernels == cached.kernels
        assert fresh.fingerprint == cached.fingerprint
        assert fresh.need_model_derivative == cached.need_model_derivative
    return cache


def test_random_networks_at_random_lengths() -> None:
    for seed in range(draws(6)):
        layers = ("affine", "tdnn", "product", "dim_range", "shared") if seed % 3 else ("rnn", "lstm", "statistics")
        check_any_length(random_network(seed, layers=layers).nnet(), seed)


@nightly
def test_random_requests_at_random_lengths() -> None:
    """Some of them have families."""
    nnet = nnet3.Nnet.from_config(TDNN, seed=1)
    counts = [check_any_length(nnet, seed).counts for seed in range(8 * EFFORT)]
    assert sum(each.continued for each in counts) > 0


@needs_shared
def test_golden_networks_at_random_lengths() -> None:
    folders = sorted((GOLDEN / "random").iterdir())
    for seed in range(min(2 * EFFORT, len(folders))):
        config = (folders[-seed] / "config_0.txt").read_text()
        check_any_length(nnet3.Nnet.from_config(config, seed=1), seed)


LAST_STATE = """
    input-node name=input dim=3
    component name=a type=NaturalGradientAffineComponent input-dim=7 output-dim=4
    component name=h type=TanhComponent dim=4
    component-node name=a component=a input=Append(input, IfDefined(Offset(h, -1)))
    component-node name=h component=h input=a
    output-node name=output input=h
"""


def test_the_last_state_of_a_recurrence() -> None:
    """Outputs at the last frame alone move with it; those at a fixed frame do not."""
    nnet, cache = nnet3.Nnet.from_config(LAST_STATE, seed=1), nnet3.ComputationCache()
    for frames in (60, 41, 75, 50):
        for at, train in ((frames - 1, False), (frames - 1, True), (7, False)):
            request = nnet3.ComputationRequest(
                [nnet3.IoSpecification("input", [(0, t, 0) for t in range(frames)])],
                [nnet3.IoSpecification("output", [(0, at, 0)], train)],
                need_model_derivative=train,
            )
            program = cache.compile(nnet, request)
            assert same_program_or_results(nnet, request, program, compiled(nnet, request))
    assert (cache.counts.compiled, cache.refusals) == (0, [])
