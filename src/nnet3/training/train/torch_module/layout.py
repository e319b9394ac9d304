"""Maps the frames of a padded batch to the rows of a computation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from nnet3.model.nnet import Nnet
from nnet3.model.requests import IoSpecification


class BatchShape(NamedTuple):
    """The number of sequences, their frames with padding, and their true lengths if different (else None)."""

    num_sequences: int
    num_frames: int
    lengths: tuple[int, ...] | None = None


class Framing(NamedTuple):
    """The context in frames of input, and the input frames for each frame of output."""

    left_context: int
    right_context: int
    subsampling: int

    def output_lengths(self, lengths: np.ndarray) -> np.ndarray:
        return -(-lengths // self.subsampling)


@dataclass(frozen=True, eq=False)
class BatchLayout:
    """The rows of a computation, sequence by sequence.

    `input_rows` and `output_rows` are the positions of rows in features (batch * frames, dim) and outputs (batch *
    output frames, dim); None: the rows are just these, in order. Frames before the first and after the last of a
    sequence repeat these. Rows in `beyond` are computed, but lie beyond the end of a sequence.
    """

    inputs: np.ndarray  # (rows, 3)
    outputs: np.ndarray  # (rows, 3)
    input_rows: Tensor | None
    output_rows: Tensor | None
    beyond: Tensor | None
    num_sequences: int
    num_output_frames: int  # with padding

    def gather(self, features: Tensor) -> Tensor:
        """Returns the input's rows from features (batch, frames, dim)."""
        flat = features.reshape(-1, features.shape[-1])
        return flat if self.input_rows is None else flat.index_select(0, self.input_rows)

    def gather_back(self, deriv: Tensor, features: Tensor) -> Tensor:
        """Returns the derivative of features from that of the rows."""
        if self.input_rows is None:
            return deriv.view(features.shape)
        flat = deriv.new_zeros(features.shape[0] * features.shape[1], features.shape[2])
        return flat.index_add_(0, self.input_rows, deriv).view(features.shape)

    def scatter(self, rows: Tensor) -> Tensor:
        """Returns outputs (batch, output frames, dim), zero where there is none; if possible in the rows' memory."""
        shape = self.num_sequences, self.num_output_frames, rows.shape[1]
        if self.beyond is not None:
            rows.index_fill_(0, self.beyond, 0.0)
        if self.output_rows is None:
            return rows.resize_(shape)  # not a view: it may be changed in place
        padded = rows.new_zeros(shape)
        padded.view(-1, rows.shape[1])[self.output_rows] = rows
        return padded

    def scatter_back(self, deriv: Tensor) -> Tensor:
        """Returns the derivative of the output's rows."""
        flat = deriv.reshape(-1, deriv.shape[-1])
        if self.beyond is not None:
            flat = flat.index_fill(0, self.beyond, 0.0)
        return flat if self.output_rows is None else flat.index_select(0, self.output_rows)


def batch_layout(shape: BatchShape, framing: Framing, lengths: np.ndarray | None, device: torch.device) -> BatchLayout:
    """Returns the layout of a batch. `lengths` (batch,) tell which frames are repeated, even where `shape` has none."""
    num_sequences, num_frames, _ = shape
    full = np.full(num_sequences, num_frames)
    present = full if shape.lengths is None else np.array(shape.lengths)
    num_outputs, padded_outputs = framing.output_lengths(present), int(framing.output_lengths(full[:1])[0])
    num_inputs = (num_outputs - 1) * framing.subsampling + 1 + framing.left_context + framing.right_context
    n, t = _ragged(num_inputs)
    t -= framing.left_context
    last = (present if lengths is None else lengths) - 1
    input_rows = n * num_frames + np.clip(t, 0, last[n])
    out_n, out_t = _ragged(num_outputs)
    all_outputs = len(out_n) == num_sequences * padded_outputs
    output_rows = None if all_outputs else out_n * padded_outputs + out_t
    beyond = None if lengths is None else np.flatnonzero(out_t >= framing.output_lengths(lengths)[out_n])
    same = np.array_equal(input_rows, np.arange(num_sequences * num_frames))
    return BatchLayout(
        _indexes(n, t),
        _indexes(out_n, out_t * framing.subsampling),
        _on(device, None if same else input_rows),
        _on(device, output_rows),
        _on(device, beyond if beyond is not None and len(beyond) else None),
        num_sequences,
        padded_outputs,
    )


def _on(device: torch.device, rows: np.ndarray | None) -> Tensor | None:
    return None if rows is None else torch.from_numpy(rows).to(device)


def _ragged(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the sequence numbers of all rows, and their positions in the sequences."""
    n = np.repeat(np.arange(len(counts)), counts)
    return n, np.arange(len(n)) - np.repeat(np.cumsum(counts) - counts, counts)


def _indexes(n: np.ndarray, t: np.ndarray) -> np.ndarray:
    return np.stack([n, t, np.zeros_like(n)], axis=1).astype(np.int32)


def specifications(
    nnet: Nnet, layout: BatchLayout, output_names: list[str], *, features: bool, ivectors: bool, outputs: bool
) -> tuple[list[IoSpecification], list[IoSpecification]]:
    """Returns inputs and outputs to compile for; the flags tell whether they have derivatives."""
    inputs = [IoSpecification("input", layout.inputs, has_deriv=features)]
    if "ivector" in nnet.input_names:
        each = _indexes(np.arange(layout.num_sequences), np.zeros(layout.num_sequences, np.int64))
        inputs.append(IoSpecification("ivector", each, has_deriv=ivectors))
    return inputs, [IoSpecification(name, layout.outputs, has_deriv=outputs) for name in output_names]
