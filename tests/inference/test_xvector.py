"""X-vectors against Kaldi's, and against programs compiled for one chunk alone."""

from __future__ import annotations

import random
import shlex
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

import nnet3
from nnet3 import ComputationRequest, IoSpecification, Nnet, NnetComputer
from nnet3.decode import XvectorComputer
from nnet3.engine.driver import default_cache
from nnet3.errors import ArgumentError, ExecutionError, NetworkError, Nnet3Error, NotComputableError
from nnet3.inference import xvector as xvector_module
from nnet3.kaldi_io import open_matrix_table, open_vector_table
from nnet3.options import EqualXvectorOptions, XvectorOptions
from tests.seeds import shifted
from tests.shared_data import golden_cases, needs_shared

NETWORK = """
    input-node name=input dim=4
    component name=tdnn type=TdnnComponent input-dim=4 output-dim=5 time-offsets=-2,0,1
    component name=relu type=RectifiedLinearComponent dim=5
    component name=extract type=StatisticsExtractionComponent input-dim=5 input-period=1 output-period=PERIOD
    component name=pool type=StatisticsPoolingComponent input-dim=11 input-period=PERIOD left-context=0 \
right-context=10000 output-stddevs=true
    component name=affine type=AffineComponent input-dim=10 output-dim=3
    component-node name=tdnn component=tdnn input=input
    component-node name=relu component=relu input=tdnn
    component-node name=extract component=extract input=relu
    component-node name=pool component=pool input=extract
    component-node name=affine component=affine input=Round(pool, PERIOD)
    output-node name=output input=affine
"""


def _network(period: int = 1) -> Nnet:
    return Nnet.from_config(NETWORK.replace("PERIOD", str(period)), seed=1)


def _alone(nnet: Nnet, rows: Tensor) -> Tensor:
    """The vector of one chunk, by a program for it alone."""
    given = IoSpecification("input", [(0, t, 0) for t in range(len(rows))])
    request = ComputationRequest([given], [IoSpecification("output", [(0, 0, 0)])])
    computer = NnetComputer(nnet3.compile(nnet, request), nnet)
    computer.accept_input("input", rows)
    computer.run()
    return computer.get_output("output")[0]


def _mean_of_chunks_alone(nnet: Nnet, rows: Tensor, options: XvectorOptions | EqualXvectorOptions) -> Tensor:
    if isinstance(options, EqualXvectorOptions):
        chunks = xvector_module.equal_chunks(len(rows), options, nnet.left_context + nnet.right_context)
    else:
        chunks = xvector_module.chunks_in_row(len(rows), options)
    weighted = [chunk.weight * _alone(nnet, rows[chunk.frames()]) for chunk in chunks]
    return torch.stack(weighted).sum(dim=0) / sum(chunk.weight for chunk in chunks)


def _cases() -> Iterator[tuple[Path, str]]:
    for folder in golden_cases("xvector"):
        yield from ((folder, path.stem) for path in sorted(folder.glob("*.cmd")) if "compute" in path.read_text())


def _options(path: Path) -> XvectorOptions | EqualXvectorOptions:
    program, *words = shlex.split(path.read_text())
    given = dict(word.removeprefix("--").split("=", 1) for word in words if word.startswith("--"))
    values = {key.replace("-", "_"): value == "true" if value.isalpha() else int(value) for key, value in given.items()}
    return (EqualXvectorOptions if program.endswith("batched") else XvectorOptions)(**values)  # type: ignore[arg-type]


@needs_shared
def test_vectors_are_those_of_kaldi() -> None:
    """And those that Kaldi refuses are missing."""
    cases = list(_cases())
    assert len(cases) == 14
    for folder, name in cases:
        with open_matrix_table(f"ark:{folder}/feats.ark") as table:
            features = dict(table)
        with open_vector_table(f"ark:{folder}/{name}.ark") as table:
            expected = dict(table)
        computer = XvectorComputer(nnet3.load_nnet(folder / "model.raw"), _options(folder / f"{name}.cmd"))
        results = dict(computer.compute_all(features.items()))
        assert [key for key, each in results.items() if isinstance(each, Tensor)] == list(expected)
        for key, vector in expected.items():
            assert np.linalg.norm(np.asarray(results[key]) - vector) <= 1e-3 * np.linalg.norm(vector), (
                folder.name,
                name,
                key,
            )


@pytest.mark.parametrize("equal", [False, True])
def test_a_vector_is_the_mean_of_those_of_chunks_alone(equal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """In whatever minibatches they meet, however far it reads ahead."""
    rng = random.Random(shifted(0))
    nnet = _network(rng.choice([1, 2]))
    options = EqualXvectorOptions(24, batch_size=3) if equal else XvectorOptions(40, 12)
    utterances = [torch.randn(rng.choice([3, 12, 40, 77, rng.randint(1, 110)]), 4) for _ in range(8)]
    expected = [_mean_of_chunks_alone(nnet, rows, options) for rows in utterances]
    for held in (1, 10_000):
        monkeypatch.setattr(xvector_module, "_MOST_HELD", held)
        results = list(XvectorComputer(nnet, options).compute_all(enumerate(utterances)))
        assert [key for key, _ in results] == list(range(8))
        for (_, result), vector in zip(results, expected, strict=True):
            assert isinstance(result, Tensor)
            torch.testing.assert_close(result, vector, rtol=1e-4, atol=1e-5)


def test_it_reads_ahead_no_further_than_it_must(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many utterances come behind one."""
    monkeypatch.setattr(xvector_module, "_MOST_HELD", 1000)
    taken = 0

    def utterances() -> Iterator[tuple[int, Tensor]]:
        nonlocal taken
        for number in range(200):
            taken += 1
            yield number, torch.randn(77 if number == 0 else 20, 4)

    results = XvectorComputer(_network(), XvectorOptions(min_chunk_size=20)).compute_all(utterances())
    assert isinstance(next(results)[1], Tensor)
    assert taken < 60
    assert [key for key, _ in results] == list(range(1, 200))


def test_one_program_serves_all_lengths() -> None:
    nnet, cache = _network(), default_cache()
    computer = XvectorComputer(nnet, XvectorOptions(min_chunk_size=1))
    for frames in (150, 151, 300):
        computer.compute(torch.randn(frames, 4))
    before = cache.counts.compiled
    for frames in (160, 161, 177, 250, 299):
        rows = torch.randn(frames, 4)
        torch.testing.assert_close(computer.compute(rows), _alone(nnet, rows), rtol=1e-4, atol=1e-5)
    assert cache.counts.compiled == before


def test_bad_utterances_are_refused_and_the_others_go_on() -> None:
    nan = torch.randn(30, 4)
    nan[17, 2] = torch.nan
    utterances = [torch.randn(20, 4), torch.zeros(0, 4), torch.randn(20, 5), nan, torch.randn(2, 4), torch.randn(20, 4)]
    computer = XvectorComputer(_network(), XvectorOptions(min_chunk_size=1))
    results = [result for _, result in computer.compute_all(enumerate(utterances))]
    said = [str(each) if isinstance(each, Nnet3Error) else "" for each in results]
    assert said[:4] == [
        "",
        "the utterance has no frames",
        "the features must be (frames, 4), got (20, 5)",
        "the features have a NaN or an infinity, first in row 17",
    ]
    assert isinstance(results[4], NotComputableError)
    assert said[4].startswith(
        "a chunk of 2 frames is too short for the network, or it is no network of x-vectors: not c"
    )
    assert said[5] == ""


def test_an_utterance_shorter_than_equal_chunks_has_zeros_without_padding() -> None:
    """So nnet3-xvector-compute-batched writes it; one of just a chunk's length has its vector."""
    nnet, rows = _network(1), torch.randn(24, 4)
    computer = XvectorComputer(nnet, EqualXvectorOptions(24, pad_input=False))
    assert torch.equal(computer.compute(rows[:23]), torch.zeros(3))
    torch.testing.assert_close(computer.compute(rows), _alone(nnet, rows))


def test_the_short_way_takes_one_utterance_or_many() -> None:
    nnet = _network()
    utterances = [torch.randn(frames, 4) for frames in (30, 120, 30)]
    alone = [nnet3.xvectors(nnet, rows) for rows in utterances]
    assert alone[0].shape == (3,)
    for many in (utterances, (rows.numpy() for rows in utterances)):
        torch.testing.assert_close(nnet3.xvectors(nnet, many), torch.stack(alone), rtol=1e-4, atol=1e-5)
    same = torch.randn(4, 50, 4)
    assert nnet3.xvectors(nnet, same, min_chunk_size=20).shape == (4, 3)
    assert nnet3.xvectors(nnet, []).shape == (0, 3)
    with pytest.raises(ExecutionError, match="utterance 1: the utterance has no frames"):
        nnet3.xvectors(nnet, [utterances[0], torch.zeros(0, 4)])
    with pytest.raises(ExecutionError, match="fewer than the 100 of the smallest"):
        nnet3.xvectors(nnet, utterances[0], pad_input=False)


def test_the_computer_is_kept_until_the_network_changes() -> None:
    nnet, rows = _network(), torch.randn(30, 4)
    first, again = nnet3.xvectors(nnet, rows), nnet3.xvectors(nnet, rows)
    torch.testing.assert_close(first, again)
    for tensor in nnet.components["affine"].parameters().values():
        tensor *= 2
    torch.testing.assert_close(nnet3.xvectors(nnet, rows), 2 * first)
    assert nnet3.xvectors(nnet, rows, min_chunk_size=10).shape == (3,)


def test_networks_that_have_no_such_vector_are_refused() -> None:
    with pytest.raises(NetworkError, match=r"one input, 'input', and an output 'output'; this one has inputs \['a'\]"):
        nnet3.xvectors(Nnet.from_config("input-node name=a dim=1\noutput-node name=output input=a"), torch.ones(3, 1))
    with pytest.raises(ArgumentError, match="the network"):
        nnet3.xvectors(torch.ones(3, 4), torch.ones(3, 4))  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="the features must be a matrix, or several in a list or an iterator"):
        nnet3.xvectors(_network(), 3)  # type: ignore[arg-type]
    with pytest.raises(ExecutionError, match="chunk_size is 1, but must be more than the network's context of 1 frame"):
        XvectorComputer(_network(), EqualXvectorOptions(chunk_size=1))


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xvector_module, "PIECE_FRAMES", 50)
    with pytest.raises(ExecutionError, match="a chunk of 51 frames is too long, 50 are allowed: give a chunk_size"):
        nnet3.xvectors(_network(), torch.ones(51, 4), min_chunk_size=1)
    monkeypatch.setattr(xvector_module, "MAX_BYTES", 1000)
    with pytest.raises(ExecutionError, match=r"a chunk of 49 frames needs .* GiB of memory.*give a smaller chunk_size"):
        nnet3.xvectors(_network(), torch.ones(49, 4), min_chunk_size=1)


def test_cosine_scores() -> None:
    vectors = torch.tensor([[1.0, 0.0], [0.0, 2.0], [3.0, 3.0], [0.0, 0.0]])
    root = 0.5**0.5
    expected = torch.tensor([[1, 0, root, 0], [0, 1, root, 0], [root, root, 1, 0], [0, 0, 0, 0]])
    torch.testing.assert_close(nnet3.cosine_scores(vectors), expected)
    torch.testing.assert_close(nnet3.cosine_scores(vectors[:1], vectors[1:].numpy()), expected[:1, 1:])
    with pytest.raises(ExecutionError, match=r"two matrices \(vectors, dim\) with one dim, got \(4, 2\) and \(3,\)"):
        nnet3.cosine_scores(vectors, torch.ones(3))
