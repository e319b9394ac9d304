"""Arguments of losses for outputs of sequences: checks, and the rows of an output."""

from __future__ import annotations

from torch import Tensor

from nnet3.errors import ArgumentError, TrainingError, check_kind


def check_reduction(reduction: str) -> None:
    """Raises ArgumentError for anything but "mean" and "sum"."""
    if reduction not in ("mean", "sum"):
        raise ArgumentError(f"reduction must be 'mean' or 'sum', got {reduction!r}")


def check_outputs(output: Tensor, xent_output: Tensor | None, shape: tuple[int, int], columns: int) -> None:
    """Raises ArgumentError or TrainingError for outputs whose shape or type does not fit a supervision.

    `shape`: sequences and frames of the supervision; `columns`: number of pdfs.
    """
    if not output.is_floating_point():
        raise ArgumentError(f"the output must be floats, got {output.dtype}")
    if output.dim() == 3 and output.shape[:2] != shape:
        raise TrainingError(
            f"an output of three axes must be (batch, frames, pdfs), here ({shape[0]}, {shape[1]}, "
            f"{columns}) as the supervision says, got {tuple(output.shape)}"
        )
    if xent_output is None:
        return
    check_kind(xent_output, Tensor, "xent_output", "a tensor")
    if (xent_output.shape, xent_output.device) != (output.shape, output.device):
        both = " and ".join(f"{tuple(each.shape)} on {each.device}" for each in (output, xent_output))
        raise ArgumentError(f"output and xent_output must have the same shape and device, got {both}")


def checked_deriv_weights(weights: Tensor, num_rows: int) -> Tensor:
    """Returns factors of the gradient's rows, (rows,). Raises ArgumentError unless they are finite and >= 0."""
    if weights.shape != (num_rows,):
        raise ArgumentError(f"deriv_weights must have one number for each of {num_rows} rows, got {weights.shape}")
    wrong = (~(weights.isfinite() & (weights >= 0))).nonzero()
    if len(wrong):
        row = int(wrong[0])
        raise ArgumentError(f"deriv_weights must be finite and >= 0, got {float(weights[row]):g} for row {row}")
    return weights


def rows_of_output(output: Tensor) -> Tensor:
    """Returns (frames * batch, pdfs), all sequences of a frame together."""
    if output.dim() not in (2, 3):
        raise ArgumentError(
            f"an output must be (batch, frames, pdfs) or (frames * batch, pdfs), got {tuple(output.shape)}"
        )
    return output if output.dim() == 2 else output.transpose(0, 1).reshape(-1, output.shape[2])
