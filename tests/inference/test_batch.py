"""BatchComputer: what it gives is what one utterance after another gives, whatever shares a minibatch."""

from __future__ import annotations

import random
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import nnet3
from nnet3 import BatchComputer, Nnet
from nnet3.decode import BatchOptions, Scoring, UtteranceComputer, UtteranceOptions
from nnet3.engine.driver import default_cache
from nnet3.errors import ArgumentError, ExecutionError, Nnet3Error
from nnet3.inference import batch as batch_module, grouping, running as running_module
from nnet3.inference.long_utterances import is_the_same_padded
from nnet3.kaldi_io import open_matrix_table
from tests.cli.run_command import CONFIG, IVECTOR_CONFIG
from tests.device import DEVICE
from tests.effort import EFFORT, nightly, third
from tests.patience import PATIENCE
from tests.random_networks import random_network
from tests.seeds import shifted
from tests.shared_data import golden_cases

LSTM = """
    input-node name=input dim=3
    input-node name=ivector dim=2
    component name=tdnn type=TdnnComponent input-dim=5 output-dim=4 time-offsets=-1,0,2
    component name=sum type=NaturalGradientAffineComponent input-dim=8 output-dim=4
    component name=tanh type=TanhComponent dim=4
    component-node name=tdnn component=tdnn input=Append(input, ReplaceIndex(ivector, t, 0))
    component-node name=sum component=sum input=Append(tdnn, IfDefined(Offset(tanh, {lag})))
    component-node name=tanh component=tanh input=sum
    output-node name=output input=tanh
"""
NETWORKS = {
    "feed-forward": IVECTOR_CONFIG,
    "forward": LSTM.format(lag=-2),
    "backward": LSTM.format(lag=2),
    "statistics": """
        input-node name=input dim=3
        input-node name=ivector dim=2
        component name=extract type=StatisticsExtractionComponent input-dim=3 include-variance=false
        component name=pool type=StatisticsPoolingComponent input-dim=4 input-period=1 left-context=4 right-context=5
        component-node name=extract component=extract input=input
        component-node name=pool component=pool input=extract
        output-node name=output input=Append(pool, Offset(input, 1), ReplaceIndex(ivector, t, 0))
    """,
}


def _read(path: Path) -> dict[str, np.ndarray]:
    with open_matrix_table(f"ark:{path}") as table:
        return {key: np.asarray(matrix) for key, matrix in table}


@pytest.mark.parametrize("size", [8, 3])
@pytest.mark.parametrize("folder", golden_cases("decode"), ids=lambda path: path.name)
def test_golden_batches_are_computed_again(folder: Path, size: int) -> None:
    nnet = nnet3.load(folder / "model.raw").to(device=DEVICE)
    batch = BatchComputer(nnet, minibatch_size=size, frames_per_chunk=51, frame_subsampling_factor=3)
    features, ivectors, expected = (_read(folder / f"{name}.ark") for name in ("feats", "ivectors", "batch"))
    computed = dict(batch.compute((key, rows, ivectors[key]) for key, rows in features.items()))
    assert list(computed) == list(features)
    for key, matrix in expected.items():
        assert computed[key].shape == matrix.shape
        assert np.linalg.norm(computed[key].cpu().numpy() - matrix) <= 1e-4 * np.linalg.norm(matrix), key


def _utterances(rng: random.Random, count: int, longest: int) -> list[tuple[str, Tensor, Tensor]]:
    lengths = [rng.randint(1, longest) for _ in range(count)]
    return [(f"utt{n}", torch.randn(t, 3), torch.randn(rng.choice([(2,), (t, 2)]))) for n, t in enumerate(lengths)]


def _one_by_one(nnet: Nnet, options: UtteranceOptions, utterances: list[tuple[str, Tensor, Tensor]]) -> list[Tensor]:
    computer = UtteranceComputer(nnet, options)
    return [
        computer.compute(rows, **{"ivector" if ivector.ndim == 1 else "online_ivectors": ivector})
        for _, rows, ivector in utterances
    ]


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("seed", range(EFFORT))
def test_batches_give_what_single_utterances_give(monkeypatch: pytest.MonkeyPatch, seed: int, name: str) -> None:
    """Whole and in chunks, with any sizes of minibatches and any bounds of memory."""
    rng = random.Random(shifted(seed))
    nnet = Nnet.from_config(NETWORKS[name], seed=seed)
    assert is_the_same_padded(nnet) == (name in ("feed-forward", "forward"))
    common = {"frame_subsampling_factor": rng.choice([1, 3]), "online_ivector_period": 1}
    monkeypatch.setattr(batch_module, "WINDOW_FRAMES", rng.choice([50, 300, 10_000]))
    for name_of_bound in ("MINIBATCH_FRAMES", "CACHED_FRAMES"):
        monkeypatch.setattr(batch_module, name_of_bound, rng.choice([10, 200, 4000]))
    monkeypatch.setattr(running_module, "PIECE_BYTES", rng.choice([5000, 2**30]))
    utterances = _utterances(rng, third(25), rng.choice([15, 80]))
    context = {"extra_left_context": rng.randint(0, 3), "extra_right_context_final": rng.randint(-1, 2)}
    cases: list[dict[str, Any]] = [{}, {"frames_per_chunk": rng.choice([6, 20]), **context}]
    for case in cases:
        options = BatchOptions(
            minibatch_size=rng.choice([1, 5, 128]), partial_minibatch_factor=rng.choice([0.0, 0.5]), **common, **case
        )
        computed = list(BatchComputer(nnet, options, short_last_chunk=True).compute(iter(utterances)))
        expected = _one_by_one(nnet, UtteranceOptions(**common, **case), utterances)
        assert [key for key, _ in computed] == [key for key, _, _ in utterances]
        for (key, rows), alone in zip(computed, expected, strict=True):
            torch.testing.assert_close(rows, alone, rtol=1e-4, atol=1e-5, msg=key)


def test_utterances_of_any_lengths_share_a_minibatch_where_padding_would_be_noticed() -> None:
    nnet, counts = Nnet.from_config(NETWORKS["backward"], seed=1), default_cache().counts
    utterances = [(f"utt{n}", torch.randn(t, 3), torch.randn(2)) for n, t in enumerate((31, 52, 31, 44, 9))]
    restricted, made = counts.restricted, counts.compiled + counts.continued
    computed = dict(BatchComputer(nnet).compute(utterances))
    assert counts.restricted == restricted + 1
    assert counts.compiled + counts.continued <= made + 1
    for (key, rows, _), expected in zip(utterances, _one_by_one(nnet, UtteranceOptions(), utterances), strict=True):
        assert len(computed[key]) == len(rows)
        torch.testing.assert_close(computed[key], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("seed", range(EFFORT))
def test_chunks_of_one_size_differ_from_the_whole_only_by_online_ivectors(seed: int) -> None:
    """The last one overlaps the one before, and a short utterance is followed by its last frame."""
    rng = random.Random(shifted(seed))
    nnet = Nnet.from_config(IVECTOR_CONFIG, seed=seed)
    utterances = [(key, rows, ivector.reshape(-1)[:2]) for key, rows, ivector in _utterances(rng, 12, 60)]
    options = BatchOptions(frames_per_chunk=rng.choice([4, 15]), frame_subsampling_factor=rng.choice([1, 3]))
    whole = UtteranceOptions(frame_subsampling_factor=options.frame_subsampling_factor)
    for (_, rows), alone in zip(
        BatchComputer(nnet, options).compute(utterances), _one_by_one(nnet, whole, utterances), strict=True
    ):
        torch.testing.assert_close(rows, alone, rtol=1e-4, atol=1e-5)


def test_bad_utterances_are_left_out_and_said() -> None:
    good, ivector = torch.ones(5, 3), torch.ones(2)
    bad: list[tuple[str, Any, Any, str]] = [
        ("empty", torch.zeros(0, 3), ivector, "the utterance has no frames"),
        ("nan", torch.tensor([[0.0, 1, 2], [0, np.nan, 0]]), ivector, "the features have a NaN or an infinity, first"),
        ("wide", torch.zeros(4, 5), ivector, r"the features must be (frames, 3), got (4, 5)"),
        ("missing", good, None, "the network has an input 'ivector', but none is given"),
        ("other", good, torch.ones(3), "the ivectors must be (2,), got (3,)"),
        ("online", good, torch.ones(0, 2), "the ivectors must be (rows, 2), got (0, 2)"),
        ("huge", torch.full((5, 3), 3e38), ivector, "not finite"),
    ]
    utterances = [("first", good, ivector), *(each[:3] for each in bad), ("last", good, ivector)]
    nnet = Nnet.from_config(IVECTOR_CONFIG)
    errors: dict[str, Nnet3Error] = {}
    computed = dict(BatchComputer(nnet).compute(utterances, errors.__setitem__))
    assert list(computed) == ["first", "last"]
    torch.testing.assert_close(computed["last"], UtteranceComputer(nnet).compute(good, ivector))
    assert list(errors) == [each[0] for each in bad]
    for key, _, _, message in bad:
        assert message in str(errors[key])
    with pytest.warns(RuntimeWarning) as warned:
        assert list(dict(BatchComputer(nnet).compute(utterances))) == ["first", "last"]
    assert [str(each.message) for each in warned] == [f"utterance '{k}' left out: {e}" for k, e in errors.items()]


def test_an_error_of_the_source_comes_after_what_came_before_it() -> None:
    def source() -> Iterator[tuple[str, Tensor, None]]:
        yield "first", torch.ones(4, 3), None
        raise ValueError("the end")

    computed = BatchComputer(Nnet.from_config(CONFIG)).compute(source())
    with pytest.raises(ValueError, match="the end"):
        list(computed)


def test_what_is_held_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many utterances there are: those read are never far ahead of those given."""
    monkeypatch.setattr(batch_module, "WINDOW_FRAMES", 40)
    read, farthest = 0, 0

    def source() -> Iterator[tuple[str, Tensor, None]]:
        nonlocal read
        for number in range(200):
            read += 1
            yield str(number), torch.ones(4, 3), None

    for given, _ in enumerate(BatchComputer(Nnet.from_config(CONFIG)).compute(source())):
        farthest = max(farthest, read - given)
    assert farthest <= 10 + 1 + grouping.AHEAD + 1 + 10


def test_a_source_that_gives_nothing_for_a_while_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grouping, "_SECONDS_OF_PATIENCE", 0.0)
    given_back = {key: threading.Event() for key in "abc"}

    def source() -> Iterator[tuple[str, Tensor, None]]:
        for key, event in given_back.items():
            yield key, torch.ones(4, 3), None
            assert event.wait(PATIENCE)

    for key, _ in BatchComputer(Nnet.from_config(CONFIG)).compute(source()):
        given_back[key].set()
    assert all(event.is_set() for event in given_back.values())


def test_scores() -> None:
    nnet, features = Nnet.from_config(CONFIG), torch.randn(7, 3)
    ((_, rows),) = BatchComputer(nnet, scoring=Scoring(torch.ones(4), 2.0)).compute([("utt", features, None)])
    torch.testing.assert_close(rows, 2 * (UtteranceComputer(nnet).compute(features) - 1))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"minibatch_size": 0}, "minibatch_size must be >= 1, got 0"),
        ({"frames_per_chunk": 10**9}, "frames_per_chunk must be <= 100000, for shorter .* got 1000000000; 0 stands"),
        ({"partial_minibatch_factor": 1.0}, r"partial_minibatch_factor must be >= 0 and < 1, got 1.0"),
        ({"minibatch": 3}, "there is no option 'minibatch'; the options are "),
        ({"options": BatchOptions(), "minibatch_size": 3}, "in one object or by name, not both: minibatch_size"),
    ],
)
def test_options_that_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ExecutionError, match=message):
        BatchComputer(Nnet.from_config(CONFIG), **arguments)
    with pytest.raises(ArgumentError, match="numbers are given by name"):
        BatchComputer(Nnet.from_config(CONFIG), 128)  # type: ignore[arg-type]


def test_chunks_longer_than_all_utterances_are_whole_utterances_if_the_last_chunk_may_be_short() -> None:
    nnet, utterances = Nnet.from_config(CONFIG), [("a", torch.randn(7, 3), None), ("b", torch.randn(4, 3), None)]
    computed = dict(BatchComputer(nnet, frames_per_chunk=10**9, short_last_chunk=True).compute(utterances))
    for key, features, _ in utterances:
        torch.testing.assert_close(computed[key], UtteranceComputer(nnet).compute(features))


@nightly
@pytest.mark.parametrize("seed", range(2 * EFFORT))
def test_random_networks_do_not_notice_what_shares_their_minibatch(seed: int) -> None:
    """Also those that cannot be computed for some lengths: then these are left out, and the others go on."""
    rng = random.Random(shifted(seed))
    nnet = random_network(seed).nnet()
    while not _has_context(nnet):
        nnet = random_network(rng.randrange(10**6)).nnet()
    options = BatchOptions(frame_subsampling_factor=rng.choice([1, 2]), minibatch_size=rng.choice([3, 128]))
    computer = UtteranceComputer(nnet, options)
    utterances = []
    for number in range(8):
        ivector = torch.randn(nnet.input_dims["ivector"]) if "ivector" in nnet.input_dims else None
        utterances.append((str(number), torch.randn(rng.randint(1, 40), nnet.input_dims["input"]), ivector))
    results = dict(BatchComputer(nnet, options).compute_all(utterances))
    assert list(results) == [key for key, _, _ in utterances]
    for key, rows, ivector in utterances:
        result = results[key]
        if isinstance(result, Nnet3Error):
            with pytest.raises(type(result), match=re.escape(str(result))):
                computer.compute(rows, ivector)
        else:
            torch.testing.assert_close(result, computer.compute(rows, ivector), rtol=1e-4, atol=1e-5, msg=key)


def _has_context(nnet: Nnet) -> bool:
    try:
        return nnet.is_simple and nnet.left_context >= 0
    except Nnet3Error:
        return False
