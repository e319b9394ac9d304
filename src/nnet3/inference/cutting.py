"""Cuts utterances into chunks of outputs computed at once, with the input of each chunk.

The example cuts 120 frames into chunks of 51 frames, with 40 outputs, one every third frame: first by the rule of
nnet3-compute, then by the rule of nnet3-compute-batch, where the last chunk has full size and overlaps the chunk
before.

>>> from nnet3.options import BatchOptions
>>> options = BatchOptions(frame_subsampling_factor=3, frames_per_chunk=51)
>>> for overlaps in (False, True):
...     print([(c.start, c.num_outputs, c.skip, c.used) for c in cut(options, (15, 10), 40, 17, overlaps=overlaps)])
[(0, 17, 0, 17), (17, 17, 0, 17), (34, 6, 0, 6)]
[(0, 17, 0, 17), (17, 17, 0, 17), (23, 17, 11, 6)]
"""

from __future__ import annotations

from typing import NamedTuple

from nnet3.base.options.utterances import BatchOptions as BatchOptions, UtteranceOptions as UtteranceOptions


class OutputChunk(NamedTuple):
    """Outputs `start` .. `start + num_outputs - 1` of an utterance, with frames of input on either side of them.

    Outputs from `start + skip` on are used, `used` in number: the rest is known already, or lies behind the end.
    """

    start: int
    num_outputs: int
    skip: int
    used: int
    left: int  # frames of input before the first output
    right: int  # after the last one
    ivector_frame: int  # the frame whose online ivector is taken
    most: int = 1  # sequences in a minibatch

    @property
    def shape(self) -> tuple[int, int, int]:
        """Chunks of one shape can be computed together."""
        return self.left, self.num_outputs, self.right

    def num_frames(self, factor: int) -> int:
        """Returns the frames of the chunk's input, with an output for every `factor` frames."""
        return self.left + (self.num_outputs - 1) * factor + 1 + self.right


def cut(
    options: UtteranceOptions, context: tuple[int, int], total: int, per_chunk: int, *, overlaps: bool = False
) -> list[OutputChunk]:
    """Returns the chunks of an utterance of `total` outputs; `context` is that of the network, left and right.

    With `overlaps` all chunks are whole, unless `ensure_exact_final_context` is set for an utterance shorter than one.
    """
    return [_chunk(options, context, total, per_chunk, start, overlaps) for start in range(0, total, per_chunk)]


def _chunk(
    options: UtteranceOptions, context: tuple[int, int], total: int, per_chunk: int, start: int, overlaps: bool
) -> OutputChunk:
    factor, used = options.frame_subsampling_factor, min(per_chunk, total - start)
    is_exact = total <= per_chunk and isinstance(options, BatchOptions) and options.ensure_exact_final_context
    count = per_chunk if overlaps and not is_exact else used
    first = max(0, min(start, total - count)) if overlaps else start
    left, right = options.extra_left_context, options.extra_right_context
    if first == 0 and options.extra_left_context_initial >= 0:
        left = options.extra_left_context_initial
    if first + count >= total and options.extra_right_context_final >= 0:
        right = options.extra_right_context_final
    is_edge = (left, right) != (options.extra_left_context, options.extra_right_context)
    most = 1
    if isinstance(options, BatchOptions) and not (overlaps and is_exact):
        most = options.edge_minibatch_size if is_edge else options.minibatch_size
    # nnet3-compute-batch goes by whole chunks of frames, and takes the middle one of the outputs.
    beyond, middle = (factor - 1, count // 2 * factor) if overlaps else (0, (count - 1) * factor // 2)
    return OutputChunk(
        first, count, start - first, used, context[0] + left, context[1] + right + beyond, first * factor + middle, most
    )
