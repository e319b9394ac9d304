"""Ragged requests: the program restricted to the lengths does what the program compiled for them does."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

import nnet3
from nnet3.engine.driver import compile_task, ragged_family
from nnet3.engine.driver.proving import PROVE
from nnet3.engine.driver.ragged_family import RaggedFamily
from nnet3.engine.driver.task import rounded_up
from nnet3.engine.families import restriction
from nnet3.engine.families.precomputed import KernelRules
from nnet3.engine.ir.checker import check_computation
from nnet3.engine.ir.commands import Repeat
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.lowering import continuation
from nnet3.engine.runtime import plan_of
from nnet3.errors import ComputationCheckError, RequestError
from nnet3.model.requests import nnet_source
from tests.driver.ragged_requests import LENGTHS, compare, ragged_request
from tests.effort import EFFORT, at_night, draws, nightly
from tests.families.networks import BLSTM, FAILING, POOLING, TDNN, compiled
from tests.random_networks import random_network
from tests.seeds import shifted


def check_random(seed: int, layers: Sequence[str]) -> int:
    """Returns how many of some requests had programs made of longer ones."""
    rng = random.Random(shifted(seed))
    nnet, cache = random_network(seed, layers=layers).nnet(), nnet3.ComputationCache()
    for _ in range(2):
        unit, step = rng.choice([1, nnet.modulus]), rng.choice([1, 1, 3])
        lengths = [1 + unit * rng.randint(0, rng.choice([20, 60]) // unit) for _ in range(rng.randint(2, 6))]
        flags = {name: rng.random() < 0.5 for name in ("train", "by_time", "input_deriv")}
        request = ragged_request(nnet, lengths, step, **flags)
        try:
            compare(nnet, request, cache)
        except RequestError as error:
            with pytest.raises(type(error)):
                compile_task(request.task(nnet))
    return cache.counts.restricted


@nightly
def test_random_networks() -> None:
    many = ("affine", "tdnn", "product", "dim_range", "shared"), ("rnn", "lstm", "statistics")
    assert sum(check_random(seed, many[seed % 2]) for seed in range(3 * EFFORT)) > 0


CACHE = nnet3.ComputationCache()


@settings(max_examples=draws(3))
@given(st.sampled_from([TDNN, BLSTM, POOLING]), LENGTHS, st.booleans(), st.booleans(), st.booleans())
def test_networks_at_random_lengths(
    config: str, lengths: list[int], train: bool, by_time: bool, input_deriv: bool
) -> None:
    """Normalization sees the rows that exist, natural gradient too; all programs are of a few longer ones.

    Not those of sequences that are shorter than the network looks.
    """
    nnet = nnet3.Nnet.from_config(config, seed=1)
    step = 5 if config is POOLING else 1
    restricted = CACHE.counts.restricted
    compare(nnet, ragged_request(nnet, lengths, step, train=train, by_time=by_time, input_deriv=input_deriv), CACHE)
    if min(lengths) >= 5:
        assert CACHE.counts.restricted == restricted + (len(set(lengths)) > 1)


def test_each_sequence_has_the_values_that_it_has_alone() -> None:
    nnet, lengths = nnet3.Nnet.from_config(BLSTM, seed=1), [9, 31, 20]
    nnet.to(dtype=torch.float64)
    request = ragged_request(nnet, lengths, margin=0)
    rows = torch.randn(len(request.inputs[0].indexes), 3, dtype=torch.float64)

    def values(request: nnet3.ComputationRequest, rows: torch.Tensor, program: NnetComputation) -> torch.Tensor:
        computer = nnet3.NnetComputer(program, nnet)
        computer.accept_input("input", rows)
        computer.run()
        return computer.get_output("output")

    cache = nnet3.ComputationCache()
    found = values(request, rows, cache.compile(nnet, request))
    assert cache.counts.restricted == 1
    for n, length in enumerate(lengths):
        own = request.outputs[0].indexes[:, 0] == n
        alone = ragged_request(nnet, [length], margin=0)
        expected = values(alone, rows[own], compiled(nnet, alone))
        torch.testing.assert_close(found[own], expected, rtol=1e-12, atol=1e-12)


def test_one_program_serves_all_lengths() -> None:
    nnet, cache = nnet3.Nnet.from_config(BLSTM), nnet3.ComputationCache()
    cache.compile(nnet, ragged_request(nnet, [30, 17, 3]))
    compiled = cache.counts.compiled, cache.counts.continued
    for lengths in ([5, 29, 12], [48, 48, 3, 47], [7, 8, 9]):
        cache.compile(nnet, ragged_request(nnet, lengths))
    more = cache.counts.compiled - compiled[0], cache.counts.continued - compiled[1]
    assert (cache.counts.restricted, more) == (4, (0, 1))  # one more for four sequences
    assert cache.refusals == []


#: Inner rows are there for outputs 9 frames away, and in the second network are another thing where frames are missing.
WIDE = """
    input-node name=input dim=3
    component name=a type=AffineComponent input-dim=3 output-dim=3
    component-node name=a component=a input=input
    output-node name=output input=Sum(Offset(a, -9), Offset(a, 9))
"""


def faults(config: str, lengths: Sequence[int], step: int, **how: Any) -> tuple[list[str], list[str]]:
    """What is found in the graph of each length that ends earlier, and in that which stands for it."""
    nnet, cache = nnet3.Nnet.from_config(config, seed=1), nnet3.ComputationCache()
    cache.compile(nnet, ragged_request(nnet, lengths, step, **how))
    (family,) = [each for each in cache._ragged.values() if isinstance(each, RaggedFamily)]
    source, found = nnet_source(nnet), list[list[str]]()
    for as_asked in (True, False):
        found.append([])
        for units in range(rounded_up(max(lengths)) * step // family._granularity):
            time = units * family._granularity
            time = time if as_asked else family._ends_alike.alike(source, time)
            at = np.array([time // family._granularity])
            found[-1].append(family._fault(source, family._ending(time), at))
    return found[0], found[1]


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize(
    ("config", "lengths", "step", "margin"),
    [
        (TDNN, [60, 50, 33], 1, 4),
        (BLSTM, [60, 50, 33], 1, 0),
        (BLSTM, [40, 31, 28], 3, 0),
        (POOLING, [20, 17, 9], 5, 30),
        (WIDE, [60, 50, 33], 1, 9),
        (FAILING, [60, 50, 33], 1, 0),
        (FAILING, [60, 50, 33], 1, 4),
    ],
)
def test_what_is_found_for_a_length_is_found_for_those_alike(
    config: str, lengths: list[int], step: int, margin: int, *, train: bool
) -> None:
    found, alike = faults(config, lengths, step, margin=margin, train=train)
    assert found == alike


@pytest.mark.parametrize(
    ("config", "margin", "needed"),
    [
        (WIDE, 9, "_missing"),  # how short sequences may be
        (FAILING, 0, "_zone_of_rules"),  # how far before the end of the longest one others must end
    ],
)
def test_alike_are_fewer_than_all(config: str, margin: int, needed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without one of the conditions some length is taken for another one."""
    monkeypatch.setenv("NNET3_PROVE", "0")  # a proof would find it first
    if needed == "_missing":
        monkeypatch.setattr(continuation, "_missing", lambda *_: -(2**20))
    else:
        monkeypatch.setattr(
            continuation, "_zone_of_rules", lambda line, zone, *_: continuation._Zone(zone.first, 2**40)
        )
    found, alike = faults(config, [60, 50, 33], 1, margin=margin, train=True)
    assert found != alike


@pytest.mark.parametrize("config", [TDNN, BLSTM])
def test_a_program_is_as_right_for_lengths_alike(config: str) -> None:
    """Of one that is right, and of those in which a command lacks the last rows of a matrix, or of a step."""
    nnet, cache = nnet3.Nnet.from_config(config, seed=1), nnet3.ComputationCache()
    cache.compile(nnet, ragged_request(nnet, [90, 70, 50], margin=4))
    (family,) = [each for each in cache._ragged.values() if isinstance(each, RaggedFamily)]
    first, end = family._repeating
    assert 0 < first < end < rounded_up(90)
    program, rules = family._program, KernelRules(nnet_source(nnet))
    slots = program.regions

    def passes(shorter: int) -> bool:
        try:
            check_computation(restriction.restricted(program, [shorter], rules, is_lazy=False))
        except ComputationCheckError:
            return False
        return True

    lengths = {0, first - 1, first + 7, end, end + 1}
    found = set[bool]()
    (counted,) = np.nonzero(slots.last >= slots.first + 40)
    for slot in (-1, *counted[[0, len(counted) // 2, -1]]):
        program.regions = replace(slots, last=slots.last - 40 * (np.arange(len(slots.last)) == slot))
        right = {each: passes(each) for each in lengths | set(map(family._checked_as, lengths))}
        assert all(is_right == right[family._checked_as(each)] for each, is_right in right.items())
        found |= set(right.values())
    assert found == {False, True}


def test_few_lengths_are_looked_up_in_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_up = list[int]()
    real = ragged_family.RaggedFamily._fault

    def fault(self: RaggedFamily, source: Any, request: Any, shorter: np.ndarray) -> str:
        looked_up.extend(shorter.tolist())
        return real(self, source, request, shorter)

    monkeypatch.setattr(ragged_family.RaggedFamily, "_fault", fault)
    nnet, cache = nnet3.Nnet.from_config(TDNN, seed=1), nnet3.ComputationCache()
    for longest in range(60, 30, -5):
        cache.compile(nnet, ragged_request(nnet, [longest, longest - 1, longest - 3, longest - 4], margin=4))
    assert cache.counts.restricted == 6
    assert len(looked_up) <= 12, "of 24"


@pytest.mark.parametrize(("config", "train"), [(TDNN, False), (TDNN, True), (BLSTM, True)])
def test_sets_of_known_lengths_are_planned_by_arithmetic(
    config: str, train: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kernels that want their rows on a grid, or look up something in loops, are no exception.

    Commands are made for those who look at them.
    """
    monkeypatch.setenv(PROVE, "forms")  # proofs look at all commands
    nnet, cache = nnet3.Nnet.from_config(config, seed=1), nnet3.ComputationCache()
    sets = [[17, 30, 9], [9, 30, 9], [17, 30, 30], *at_night([17, 17, 30], [9, 17, 30])]
    for number, lengths in enumerate(sets):
        request = ragged_request(nnet, lengths, margin=6, train=train)
        program = cache.compile(nnet, request)
        made = plan_of(program, "float64", prove=number < 2)
        assert made.are_views_apart == (number > 0)
        assert number < 2 or program.is_lazy, "somebody has looked at the commands"
        compare(nnet, request, cache)
    assert cache.counts.restricted == len(sets)


def test_more_input_than_the_last_output_needs_is_left_out_unless_somebody_looks_at_it() -> None:
    for config, restricted in ((TDNN, 1), (BLSTM, 0)):
        nnet, cache = nnet3.Nnet.from_config(config, seed=1), nnet3.ComputationCache()
        request = ragged_request(nnet, [20, 30, 25], margin=5)
        rows = [row for row in request.inputs[0].indexes.tolist() if row[:2] != [1, 34]]
        inputs = [nnet3.IoSpecification("input", rows, has_deriv=True), *request.inputs[1:]]
        outputs = [nnet3.IoSpecification("output", request.outputs[0].indexes, has_deriv=True)]
        compare(nnet, nnet3.ComputationRequest(inputs, outputs), cache)
        assert cache.counts.restricted == restricted
        assert bool(restricted) == (not cache.refusals)


LAYERS = {
    "lstm": "lstm-layer name=l cell-dim=4 delay=3",
    "lstmp": "fast-lstmp-layer name=l cell-dim=8 recurrent-projection-dim=4 non-recurrent-projection-dim=4 delay=-3",
    "gru": "gru-layer name=l cell-dim=4 delay=-2",
}


@pytest.mark.parametrize("layer", ["lstmp", *at_night("lstm", "gru")])
def test_recurrences_with_a_lag_are_loops(layer: str) -> None:
    """Forward and backward; kernels read rows of other times than they write, in steps of several frames."""
    nnet = nnet3.Nnet.from_xconfig(f"input dim=3 name=input\n{LAYERS[layer]}\noutput-layer name=output dim=2", seed=1)
    cache = nnet3.ComputationCache()
    programs = [
        cache.compile(nnet, ragged_request(nnet, lengths, margin=0, train=True))
        for lengths in ([94, 90, 41], [190, 185, 9], [94, 93, 9])
    ]
    assert [sum(isinstance(command, Repeat) for command in each.commands) for each in programs] == [2] * 3
    assert len({len(program.commands) for program in programs}) == 1
    compare(nnet, ragged_request(nnet, [40, 39, 9], margin=0, train=True), cache)
    assert (cache.counts.restricted, cache.refusals) == (4, [])


HALVES = """
    input-node name=input dim=3
    component name=a type=NaturalGradientAffineComponent input-dim=6 output-dim=4
    component name=r type=RectifiedLinearComponent dim=4
    component name=o type=TdnnComponent input-dim=4 output-dim=2 time-offsets=-3,0,3
    component-node name=a component=a input=Append(Round(input, 2), Offset(input, 1))
    component-node name=r component=r input=a
    component-node name=o component=o input=Sum(r, Round(r, 4))
    output-node name=output input=o
"""


@pytest.mark.parametrize("train", [False, True])
def test_sequences_may_differ_by_less_than_a_period(train: bool) -> None:
    """The rules of this network repeat after four frames; sequences of 20 and 21 end in different ways."""
    nnet, cache = nnet3.Nnet.from_config(HALVES, seed=1), nnet3.ComputationCache()
    for lengths in ([20, 30, 25], [9, 13, 10, 12, 11], [22, 24]):
        compare(nnet, ragged_request(nnet, lengths, train=train, input_deriv=train), cache)
    assert (cache.counts.restricted, cache.refusals) == (3, [])


def test_refusals_say_why_a_program_was_compiled_for_its_lengths() -> None:
    nnet, cache = nnet3.Nnet.from_config(BLSTM, seed=1), nnet3.ComputationCache()
    request, options = ragged_request(nnet, [20, 30, 25], train=True), nnet3.CompileOptions(max_deriv_time=15)
    cache.compile(nnet, request, options)
    last = request.outputs[0].indexes.tolist()[:-1]
    gaps = nnet3.IoSpecification("output", [row for row in last if row[:2] != [1, 7]])
    cache.compile(nnet, nnet3.ComputationRequest(request.inputs, [gaps]))
    assert cache.refusals == [
        "derivatives are limited to a range of times",
        "rows of output differ by more than where sequences end",
    ]
    assert cache.counts.restricted == 0


NORMALIZED_STATE = """
    input-node name=input dim=2
    component name=a type=NaturalGradientAffineComponent input-dim=4 output-dim=2
    component name=h type=TanhComponent dim=2
    component name=s type=NormalizeComponent dim=2
    component-node name=a component=a input=Append(input, IfDefined(Offset(s, -1)))
    component-node name=h component=h input=a
    component-node name=s component=s input=h
    output-node name=output input=h
"""
GATES = """
    input-node name=input dim=2
    component name=f type=NaturalGradientAffineComponent input-dim=4 output-dim=2 param-stddev=0.2 bias-stddev=0.2
    component name=g type=NaturalGradientAffineComponent input-dim=4 output-dim=2 param-stddev=0.2 bias-stddev=0.2
    component name=kept type=ElementwiseProductComponent input-dim=4 output-dim=2
    component name=added type=ElementwiseProductComponent input-dim=4 output-dim=2
    component name=c type=NoOpComponent dim=2
    component-node name=f component=f input=Append(Offset(input, 1), IfDefined(Offset(c, 2)))
    component-node name=g component=g input=Append(input, IfDefined(Offset(c, 2)))
    component-node name=kept component=kept input=Append(f, IfDefined(Offset(c, 2)))
    component-node name=added component=added input=Append(f, g)
    component-node name=c component=c input=Sum(kept, added)
    output-node name=output input=Sum(c, Offset(c, 1))
"""


@pytest.mark.parametrize("config", [NORMALIZED_STATE, GATES])
def test_steps_of_recurrences_tell_the_times_of_buffers(config: str) -> None:
    """The last state is not normalized, though the row that it is made of exists; gates lie in buffers for one step."""
    nnet, cache = nnet3.Nnet.from_config(config, seed=1), nnet3.ComputationCache()
    for lengths in ([20, 30, 25], [9, 13, 12]):
        for train in (False, True):
            compare(nnet, ragged_request(nnet, lengths, margin=6, train=train, input_deriv=train), cache)
    assert (cache.counts.restricted, cache.refusals) == (4, [])


PROJECTED = """
    input dim=3 name=input
    fast-lstmp-layer name=back cell-dim=16 recurrent-projection-dim=8 non-recurrent-projection-dim=8 delay=3
    fast-lstmp-layer name=again cell-dim=16 recurrent-projection-dim=8 non-recurrent-projection-dim=8 delay=3
    output-layer name=output dim=4
"""


def test_products_of_what_a_recurrence_knows_beforehand() -> None:
    """The last steps of a sequence, which a backward recurrence begins with, have such products alone."""
    nnet, cache = nnet3.Nnet.from_xconfig(PROJECTED, seed=1), nnet3.ComputationCache()
    nnet.set_test_mode(True)
    for lengths in ([90, 55, 55, 40], [61, 13, 10, 1]):
        program = compare(nnet, ragged_request(nnet, lengths, 3, margin=6), cache)
        assert any(kernel.name.endswith("+") for kernel in program.kernels)
        assert any(isinstance(command, Repeat) for command in program.commands)
    assert (cache.counts.restricted, cache.refusals) == (2, [])


def test_outputs_that_look_far_to_both_sides() -> None:
    """Short sequences need nothing of the frames between; then these rows are computed for nobody."""
    config = TDNN.replace("-3,0,3", "-9,9").replace("component=o input=n", "component=o input=r")
    for train, input_deriv, restricted in ((False, False, 2), (False, True, 0), (True, False, 0)):
        nnet, cache = nnet3.Nnet.from_config(config, seed=1), nnet3.ComputationCache()
        for lengths in ([30, 4, 2], [7, 1]):
            compare(nnet, ragged_request(nnet, lengths, train=train, input_deriv=input_deriv), cache)
        assert cache.counts.restricted == restricted
        assert bool(cache.refusals) == (restricted == 0)


def test_frames_that_no_output_needs_are_not_repaired() -> None:
    """An LSTM that repairs itself gives derivatives other than zero for those that are zero."""
    nnet, cache = nnet3.Nnet.from_config(BLSTM, seed=1), nnet3.ComputationCache()
    compare(nnet, ragged_request(nnet, [30, 2], input_deriv=True), cache)


IN_PLACE = """
    input-node name=input dim=3
    component name=a type=NaturalGradientAffineComponent input-dim=3 output-dim=4
    component name=b type=NaturalGradientAffineComponent input-dim=3 output-dim=4
    component name=r type=RectifiedLinearComponent dim=4
    component name=o type=TdnnComponent input-dim=4 output-dim=2 time-offsets=-2,0,3
    component-node name=a component=a input=input
    component-node name=r component=r input=a
    component-node name=b component=b input=input
    component-node name=o component=o input=Sum(Offset(r, -3), b)
    output-node name=output input=o
"""


@pytest.mark.parametrize("train", [False, True])
def test_sums_that_lie_where_one_of_their_terms_does(train: bool) -> None:
    """Rows of the matrix that a convolution over time reads stand for other times."""
    nnet, cache = nnet3.Nnet.from_config(IN_PLACE, seed=1), nnet3.ComputationCache()
    for lengths in ([20, 30, 25], [9, 13]):
        compare(nnet, ragged_request(nnet, lengths, train=train), cache)
    assert (cache.counts.restricted, cache.refusals) == (2, [])


ATTENTION = """
    input-node name=input dim=8
    component name=a type=RestrictedAttentionComponent key-dim=2 value-dim=1 num-left-inputs=1 num-right-inputs=1
    component-node name=a component=a input=input
    output-node name=output input=a
"""


def test_kernels_without_an_order_of_their_own_see_no_padding() -> None:
    """Statistics of attention are of the rows that exist."""
    nnet, cache = nnet3.Nnet.from_config(ATTENTION, seed=1), nnet3.ComputationCache()
    for lengths in ([20, 30, 25], [9, 13], [3, 3, 8]):
        request = ragged_request(nnet, lengths, train=True)
        found, expected = (
            statistics_of(nnet, request, program)
            for program in (compare(nnet, request, cache), compiled(nnet, request))
        )
        torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)
    assert (cache.counts.restricted, cache.refusals) == (3, [])


def statistics_of(nnet: nnet3.Nnet, request: nnet3.ComputationRequest, program: NnetComputation) -> list[torch.Tensor]:
    nnet = nnet.copy()
    generator = torch.Generator().manual_seed(3)
    computer = nnet3.NnetComputer(program, nnet, nnet.gradient_copy(), nnet_to_store_stats=nnet)
    computer.accept_input("input", torch.randn(len(request.inputs[0].indexes), 8, generator=generator))
    computer.run()
    component = nnet.components["a"]
    return [torch.as_tensor(getattr(component, name)) for name in component.statistic_names]


FAILOVER = """
    input-node name=input dim=2
    component name=a type=AffineComponent input-dim=2 output-dim=2
    component-node name=a component=a input=Failover(Offset(input, 3), input)
    output-node name=output input=a
"""


def test_what_changes_at_the_end_is_refused() -> None:
    nnet, cache = nnet3.Nnet.from_config(FAILOVER, seed=1), nnet3.ComputationCache()
    compare(nnet, ragged_request(nnet, [20, 30, 25], margin=0, train=True), cache)
    assert cache.counts.restricted == 0
    assert cache.refusals == ["rows of a_input use something else at the end of a sequence"]
