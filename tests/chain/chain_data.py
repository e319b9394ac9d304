"""Graphs, supervisions and golden minibatches for the tests of sequence training."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nnet3.base.kaldi_io.fst import Fst
from nnet3.base.kaldi_io.fst_file import load_fst
from nnet3.chain import CHAIN_EXAMPLES, ChainExample, ChainTarget, DenominatorGraph, Supervision
from nnet3.examples import ExampleReader, NnetIo
from nnet3.kaldi_io import compress

Arc = tuple[int, int, int, float]  # source, destination, label, cost


def fst_of(arcs: list[Arc], final: list[float], start: int = 0) -> Fst:
    src, dst, label, cost = zip(*arcs, strict=True)
    return Fst.from_arcs(start, final, src, dst, label, cost)


def small_graph() -> DenominatorGraph:
    """Three states, three pdfs."""
    arcs = [(0, 1, 0, 0.6), (0, 2, 1, 0.4), (1, 1, 0, 0.5), (1, 2, 2, 0.4), (2, 2, 1, 0.3), (2, 1, 0, 0.5)]
    src, dst, pdf, prob = (np.array(column) for column in zip(*arcs, strict=True))
    return DenominatorGraph.from_transitions(3, src, dst, pdf, -np.log(prob), np.array([np.inf, np.inf, -np.log(0.2)]))


def random_graph(seed: int, num_states: int = 7, num_pdfs: int = 5, num_arcs: int = 30) -> DenominatorGraph:
    """Every state goes on to the next one, among others."""
    rng = np.random.default_rng(seed)
    src, dst = rng.integers(num_states, size=(2, num_arcs))
    src[:num_states], dst[:num_states] = np.arange(num_states), np.roll(np.arange(num_states), -1)
    costs = rng.uniform(1.0, 3.0, num_arcs)
    return DenominatorGraph.from_transitions(
        num_pdfs, src, dst, rng.integers(num_pdfs, size=num_arcs), costs, np.full(num_states, 2.0)
    )


def random_acceptor(seed: int, frames: int, labels: int, width: int = 3) -> Fst:
    """Paths of `frames` arcs through up to `width` states a frame, with up to two final states."""
    rng = np.random.default_rng(seed)
    counts = [1, *rng.integers(1, width + 1, frames - 1).tolist(), int(rng.integers(1, 3))]
    first = np.concatenate([[0], np.cumsum(counts)])
    arcs: list[Arc] = []
    for t in range(frames):
        pairs = {(i, int(rng.integers(counts[t + 1]))) for i in range(counts[t])}
        pairs |= {(int(rng.integers(counts[t])), j) for j in range(counts[t + 1])}
        for i, j in sorted(pairs):
            chosen = rng.permutation(labels)[: rng.integers(1, 3)] + 1
            arcs += [
                (int(first[t] + i), int(first[t + 1] + j), int(label), float(rng.uniform(0, 2))) for label in chosen
            ]
    final = [np.inf] * int(first[-2]) + rng.uniform(0, 1, counts[-1]).tolist()
    return fst_of(arcs, final)


def random_cyclic_acceptor(seed: int, labels: int, num_states: int = 4) -> Fst:
    rng = np.random.default_rng(seed)
    arcs = [
        (int(i), int(j), int(rng.integers(labels)) + 1, float(rng.uniform(0, 2)))
        for i in range(num_states)
        for j in {i, (i + 1) % num_states, int(rng.integers(num_states))}
    ]
    return fst_of(arcs, rng.uniform(0, 1, num_states).tolist())


def supervision_of(
    fsts: list[Fst], frames: int, labels: int, *, end_to_end: bool = False, weight: float = 1.0
) -> Supervision:
    return Supervision(weight, len(fsts) if end_to_end else 1, frames, labels, tuple(fsts), end_to_end)


def indexes(sequences: int, frames: int, step: int = 3) -> np.ndarray:
    t, n = np.divmod(np.arange(sequences * frames), sequences)
    return np.stack([n, step * t, np.zeros_like(n)], axis=1).astype(np.int32)


def small_example(packed: bool = False) -> ChainExample:
    """An example with input at -4 .. 13, output at 0, 3, 6, 9."""
    rows = np.stack([np.zeros(18), np.arange(-4, 14), np.zeros(18)], axis=1).astype(np.int32)
    features = np.random.default_rng(0).random((18, 2)).astype(np.float32)
    inputs = (
        NnetIo("input", rows, compress(features) if packed else features),
        NnetIo("ivector", np.zeros((1, 3), np.int32), np.ones((1, 3), np.float32)),
    )
    return ChainExample(
        inputs, (ChainTarget("output", indexes(1, 4), supervision_of([random_acceptor(0, 4, 3)], 4, 3, weight=0.5)),)
    )


#: Of four frames, three pdfs.
SCORES = torch.tensor([[0.5, -1.0, 0.2], [-0.3, 0.8, 1.1], [0.0, 0.4, -0.6], [1.0, -2.0, 0.5]])
WEIGHTS = np.array([0.5, 1.0, 0.0, 2.0], np.float32)
TARGET = ChainTarget("output", indexes(1, 4), supervision_of([random_acceptor(1, 4, 5)], 4, 5, weight=0.5), WEIGHTS)


@dataclass(frozen=True, eq=False)
class GoldenMinibatch:
    """The first minibatches of a golden set: what the network gave, and what Kaldi says of it."""

    target: ChainTarget
    numbers: dict[str, float]
    arrays: dict[str, Tensor]  # `output`, `output-xent`, `deriv`, `posterior`, and for the first one more
    leak: float
    l2: float


def golden_graph(path: Path) -> DenominatorGraph:
    _, example = next(iter(ExampleReader(f"ark:{path}/merged.ark", CHAIN_EXAMPLES)))
    return DenominatorGraph.from_fst(load_fst(str(path / "den.fst")), example.outputs[0].supervision.label_dim)


def golden_minibatches(path: Path) -> Iterator[GoldenMinibatch]:
    said: dict[str, Any] = json.loads((path / "objf.json").read_text())
    arrays = np.load(path / "arrays.npz")
    examples = ExampleReader(f"ark:{path}/merged.ark", CHAIN_EXAMPLES)
    for number, (numbers, (_, example)) in enumerate(zip(said["minibatches"], examples, strict=False)):
        own = {
            key.rsplit("_", 1)[0]: torch.from_numpy(arrays[key]) for key in arrays.files if key.endswith(f"_{number}")
        }
        yield GoldenMinibatch(example.outputs[0], numbers, own, said["leaky"], said["l2"])


def distance(actual: Tensor, wanted: Tensor) -> float:
    """Relative Frobenius error."""
    return float((actual.double() - wanted.double()).norm() / wanted.double().norm())
