"""Sequences as wholes: reductions over frames, and values that change the axis; used as `cn.sequence.mean(x)`.

A reduction of D x S is D x N: one column a sequence. Samples without sequences count as sequences of one frame.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from nnet3.cn.node import Node
from nnet3.cn.operation import check_class_indexes
from nnet3.cn.samples import SampleLayout
from nnet3.cn.sequence_operation import SampleRows, SequenceOperation, check_samples
from nnet3.cn.shape import SEQUENCES, Shape
from nnet3.errors import NetworkError, ShapeError

_HOW = ("first", "last", "sum", "mean", "max")


@dataclass(frozen=True)
class SequenceReduction(SequenceOperation):
    """One column for each sequence, made of all the sequence's frames; zeros for a sequence without frames."""

    type: ClassVar[str] = "reduce_sequence"
    how: str

    def check(self) -> None:
        if self.how not in _HOW:
            raise NetworkError(f"{self.type}: expected one of {', '.join(_HOW)}, got {self.how!r}")

    def infer(self, operands: Sequence[Shape]) -> Shape:
        check_samples(self.type, *operands)
        return Shape(operands[0].rows, SEQUENCES)

    def compute(self, operands: Sequence[SampleRows], own: SampleLayout | None) -> Tensor:
        x = operands[0]  # (samples, rows)
        alike = x.samples.num_alike
        if alike and self.how not in ("first", "last"):  # samples are frame by frame
            frames = x.tensor.unflatten(0, (-1, alike))  # (frames, sequences, rows)
            return frames.amax(0) if self.how == "max" else frames.sum(0) if self.how == "sum" else frames.mean(0)
        lengths = x.samples.length_of_sequence
        if self.how in ("first", "last"):
            frame = np.zeros_like(lengths) if self.how == "first" else lengths - 1
            return x.at(x.samples.rows_at(np.arange(len(lengths)), frame))
        zeros = x.tensor.new_zeros(len(lengths), x.tensor.shape[1])
        if self.how == "max":
            sequence = x.sequence[:, None].expand_as(x.tensor)
            return zeros.scatter_reduce(0, sequence, x.tensor, "amax", include_self=False)
        total = zeros.index_add(0, x.sequence, x.tensor)
        return total if self.how == "sum" else total / x.numbers(np.maximum(lengths, 1))[:, None]

    def after(self, operand: SequenceOperation) -> SequenceOperation | None:
        return operand.reduced(self.how)


@dataclass(frozen=True)
class SequenceSoftmax(SequenceOperation):
    """v_rj = e^x_rj / sum of e^x_ri over all frames i of the sequence of j, for each row r."""

    type: ClassVar[str] = "sequence_softmax"

    def compute(self, operands: Sequence[SampleRows], own: SampleLayout | None) -> Tensor:
        (x,) = operands
        padded, there = x.padded()
        return x.unpadded(torch.softmax(padded.masked_fill(~there[:, :, None], -torch.inf), 1))


@dataclass(frozen=True)
class SequenceReversal(SequenceOperation):
    """Frame T - 1 - t of the operand at frame t."""

    type: ClassVar[str] = "reverse_sequence"

    def compute(self, operands: Sequence[SampleRows], own: SampleLayout | None) -> Tensor:
        (x,), layout = operands, operands[0].samples
        sequence = layout.sequence_of_row
        return x.at(layout.rows_at(sequence, np.array(layout.lengths)[sequence] - 1 - layout.frame_of_row))


@dataclass(frozen=True)
class BroadcastSequence(SequenceOperation):
    """The sequence's column at each frame of the second operand, of which only the axis matters."""

    type: ClassVar[str] = "broadcast_as"
    num_operands: ClassVar[int] = 2

    @property
    def looks_at_other_frames(self) -> bool:
        return False

    def infer(self, operands: Sequence[Shape]) -> Shape:
        check_samples(self.type, *operands)
        if operands[0].axis != SEQUENCES:
            raise ShapeError(f"{self.type} needs a first operand with one column for each sequence")
        return Shape(operands[0].rows, operands[1].cols)

    def compute(self, operands: Sequence[SampleRows], own: SampleLayout | None) -> Tensor:
        return operands[0].tensor.index_select(0, operands[1].sequence)


@dataclass(frozen=True)
class SequenceGather(SequenceOperation):
    """Frame i_j of the sequence of X at frame j of the indexes, one row; zeros where X has no frame i_j."""

    type: ClassVar[str] = "gather_frames"
    num_operands: ClassVar[int] = 2
    integers: ClassVar[tuple[int, ...]] = (1,)

    def infer(self, operands: Sequence[Shape]) -> Shape:
        check_samples(self.type, *operands)
        if operands[1].rows != 1:
            raise ShapeError(f"{self.type} needs one row of numbers of frames")
        return Shape(operands[0].rows, operands[1].cols)

    def compute(self, operands: Sequence[SampleRows], own: SampleLayout | None) -> Tensor:
        x, index = operands
        frame = index.tensor.detach()[:, 0].round().long().cpu().numpy()
        return x.at(x.samples.rows_at(index.samples.sequence_of_row, frame))


@dataclass(frozen=True)
class Attention(SequenceOperation):
    """V softmax(scale K^T q) for each column q of the first operand, over the frames of K and V in its sequence."""

    type: ClassVar[str] = "attention"
    num_operands: ClassVar[int] = 3
    looked_at: ClassVar[int] = 1
    steps: ClassVar[bool] = True
    scale: float | None = None

    def infer(self, operands: Sequence[Shape]) -> Shape:
        query, keys, values = operands
        check_samples(self.type, *operands)
        if query.rows != keys.rows or keys.cols != values.cols:
            raise ShapeError(f"{self.type} needs queries and keys of as many rows, keys and values of the same frames")
        return Shape(values.rows, query.cols)

    def compute(self, operands: Sequence[SampleRows], own: SampleLayout | None) -> Tensor:
        (q, _), (k, there), (v, _) = (each.padded() for each in operands)
        return operands[0].unpadded(self.step(q, (k, v), there))

    def step(self, frames: Tensor, contexts: Sequence[Tensor], there: Tensor) -> Tensor:
        # softmax(Q K^T / sqrt(D)) V (Vaswani et al. 2017, equation 1)
        keys, values = contexts
        scale = frames.shape[2] ** -0.5 if self.scale is None else self.scale
        scores = scale * torch.bmm(frames, keys.transpose(1, 2))  # (sequences, query frames, key frames)
        return _means(scores, values, there)


@dataclass(frozen=True)
class AdditiveAttention(SequenceOperation):
    """V softmax(w^T tanh(K + q)) for each column q of the first operand, over the frames of K and V in its sequence."""

    type: ClassVar[str] = "additive_attention"
    num_operands: ClassVar[int] = 4
    weights: ClassVar[tuple[int, ...]] = (3,)
    looked_at: ClassVar[int] = 1
    steps: ClassVar[bool] = True

    def infer(self, operands: Sequence[Shape]) -> Shape:
        query, keys, values, weights = operands
        check_samples(self.type, query, keys, values)
        if query.rows != keys.rows or keys.cols != values.cols or weights != Shape(keys.rows, 1):
            raise ShapeError(
                f"{self.type} needs queries and keys of as many rows, keys and values of the same frames, and a weight "
                "for each row"
            )
        return Shape(values.rows, query.cols)

    def compute(self, operands: Sequence[SampleRows], own: SampleLayout | None) -> Tensor:
        (q, _), (k, there), (v, _) = (each.padded() for each in operands[:3])
        return operands[0].unpadded(self.step(q, (k, v, operands[3].tensor), there))

    def step(self, frames: Tensor, contexts: Sequence[Tensor], there: Tensor) -> Tensor:
        # e_ij = w^T tanh(q_i + k_j), V softmax(e) (Bahdanau et al. 2015, A.1.2, with W s and U h as query and keys)
        keys, values, weights = contexts
        scores = torch.tanh(frames[:, :, None] + keys[:, None]) @ weights[0]  # (sequences, query frames, key frames)
        return _means(scores, values, there)


def _means(scores: Tensor, values: Tensor, there: Tensor) -> Tensor:
    """Means of values, (sequences, query frames, rows), weighted by the softmax of scores of key frames."""
    scores = scores.masked_fill(~there[:, None, :], torch.finfo(scores.dtype).min)
    return torch.bmm(torch.softmax(scores, 2), values)


@dataclass(frozen=True)
class CtcCriterion(SequenceOperation):
    """PyTorch's CTC loss, summed over sequences: Y scores, C x S, whose softmax is judged; c class indexes."""

    type: ClassVar[str] = "ctc"
    num_operands: ClassVar[int] = 2
    integers: ClassVar[tuple[int, ...]] = (1,)
    blank: int = 0

    def infer(self, operands: Sequence[Shape]) -> Shape:
        scores, labels = operands
        check_samples(self.type, *operands)
        if labels.rows != 1 or not 0 <= self.blank < scores.rows:
            raise ShapeError(f"{self.type} needs one row of class indexes, and a blank that is a class")
        return Shape(1, 1)

    def num_classes(self, operands: Sequence[Shape]) -> dict[int, int]:
        return {1: operands[0].rows}

    def compute(self, operands: Sequence[SampleRows], own: SampleLayout | None) -> Tensor:
        scores, labels = operands
        check_class_indexes(self.type, labels.tensor, scores.tensor.shape[1])
        if labels.tensor.device.type == "cpu" and (labels.tensor == self.blank).any():
            raise ShapeError(f"ctc: a label is {self.blank}, the blank, which labels never are: choose another blank")
        padded, _ = scores.padded()
        targets, there = labels.padded()
        _check_frames(scores.samples.lengths, labels.samples.lengths, targets[:, :, 0], there)
        wide = torch.promote_types(padded.dtype, torch.float32)  # PyTorch has it no narrower
        loss = torch.nn.functional.ctc_loss(
            torch.log_softmax(padded, 2, dtype=wide).transpose(0, 1), targets[:, :, 0].long(),
            scores.numbers(np.array(scores.samples.lengths)), labels.numbers(np.array(labels.samples.lengths)),
            blank=self.blank, reduction="sum",
        )  # fmt: skip
        return loss.reshape(1, 1).to(padded.dtype)


def _check_frames(frames: Sequence[int], labels: Sequence[int], targets: Tensor, there: Tensor) -> None:
    """Raises ShapeError for a sequence with fewer frames than its labels need: between two equal labels is a blank.

    `targets`, (sequences, most labels), and `there` are as made by `SampleRows.padded`. Targets on a device are not
    waited for: equal labels are not looked at then.
    """
    repeated = (targets[:, 1:] == targets[:, :-1]) & there[:, 1:]
    blanks = repeated.sum(1).tolist() if targets.device.type == "cpu" else [0] * len(labels)
    for number, (given, wanted, between) in enumerate(zip(frames, labels, blanks, strict=True)):
        if given < wanted + between:
            more = f" and {between} between equal ones" * (between > 0)
            raise ShapeError(
                f"ctc: sequence {number} has {wanted} labels, so that at least {wanted + between} frames were expected "
                f"(one for each{more}), got {given}: no alignment is that short; leave the sequence out"
            )


def first(x: Node, *, name: str = "") -> Node:
    """Returns the first frame of each sequence: D x N."""
    return Node(SequenceReduction("first"), (x,), name)


def last(x: Node, *, name: str = "") -> Node:
    """Returns the last frame of each sequence: D x N."""
    return Node(SequenceReduction("last"), (x,), name)


def sum(x: Node, *, name: str = "") -> Node:
    """Returns the sum of all frames of each sequence: D x N."""
    return Node(SequenceReduction("sum"), (x,), name)


def mean(x: Node, *, name: str = "") -> Node:
    """Returns the mean of all frames of each sequence: D x N."""
    return Node(SequenceReduction("mean"), (x,), name)


def max(x: Node, *, name: str = "") -> Node:
    """Returns the greatest number of every row over all frames of a sequence: D x N."""
    return Node(SequenceReduction("max"), (x,), name)


def softmax(x: Node, *, name: str = "") -> Node:
    """Returns the softmax of each row over all frames of each sequence: positive, with sum 1 over the frames."""
    return Node(SequenceSoftmax(), (x,), name)


def reverse(x: Node, *, name: str = "") -> Node:
    """Returns the frames of each sequence in the opposite order."""
    return Node(SequenceReversal(), (x,), name)


def gather(x: Node, frames: Node, *, name: str = "") -> Node:
    """Returns the frames of X with the numbers in `frames`, one row, on its axis; zeros for -1 and beyond the end."""
    return Node(SequenceGather(), (x, frames), name)


def broadcast_as(x: Node, like: Node, *, name: str = "") -> Node:
    """Returns the column of each sequence, D x N, at every frame of `like`."""
    return Node(BroadcastSequence(), (x, like), name)


def attention(query: Node, keys: Node, values: Node, *, scale: float | None = None, name: str = "") -> Node:
    """Dot-product attention: for each frame of `query` a mean of `values`, weighted by softmax(scale * keys^T query).

    The frames of keys and values belong to the query's sequence, perhaps on another axis. `scale`: by default one over
    the square root of the number of rows of the keys. The query may lie in a loop, like the state of a decoder whose
    next step is given the result of the attention; keys and values lie outside of the loop.
    """
    return Node(Attention(scale), (query, keys, values), name)


def additive_attention(query: Node, keys: Node, values: Node, weights: Node, *, name: str = "") -> Node:
    """Additive attention: for each frame of `query` a mean of `values`, weighted by softmax(w^T tanh(keys + query)).

    `weights`, w: a column with as many rows as keys and queries have; these are products W s and U h of a decoder's
    states and an encoder's. Otherwise as `attention`.
    """
    return Node(AdditiveAttention(), (query, keys, values, weights), name)


def ctc(scores: Node, labels: Node, *, blank: int = 0, name: str = "") -> Node:
    """CTC: minus the log-probability of each sequence of labels, over all alignments, summed: 1 x 1.

    `scores`: C x S, before the softmax; `labels`: class indexes on another axis, none of them the `blank`.
    `torch.nn.functional.ctc_loss`.
    """
    return Node(CtcCriterion(blank), (scores, labels), name)
