"""Cutting utterances: by the rules of Kaldi's programs, each row once."""

from __future__ import annotations

import doctest

from hypothesis import given, strategies as st

from nnet3.inference import cutting as cutting_module
from nnet3.inference.cutting import cut
from nnet3.options import BatchOptions

CONTEXT = 15, 10


def _inputs(options: BatchOptions, frames: int, *, overlaps: bool) -> list[tuple[int, ...]]:
    """Of each chunk its first computed output, how many, skipped, used, first and last frame, ivector, sequences."""
    factor = options.frame_subsampling_factor
    chunks = cut(options, CONTEXT, -(-frames // factor), 51 // factor, overlaps=overlaps)
    spans = [(c.start * factor - c.left, c.start * factor - c.left + c.num_frames(factor) - 1) for c in chunks]
    return [
        (c.start, c.num_outputs, c.skip, c.used, *span, c.ivector_frame, c.most)
        for c, span in zip(chunks, spans, strict=True)
    ]


def test_chunks_as_nnet3_compute_cuts_them() -> None:
    options = BatchOptions(
        frame_subsampling_factor=3, frames_per_chunk=51, extra_left_context=10, extra_left_context_initial=0
    )
    assert _inputs(options, 120, overlaps=False) == [
        (0, 17, 0, 17, -15, 58, 24, 32), (17, 17, 0, 17, 26, 109, 75, 128), (34, 6, 0, 6, 77, 127, 109, 128)
    ]  # fmt: skip


def test_chunks_as_nnet3_compute_batch_cuts_them() -> None:
    given = {"frame_subsampling_factor": 3, "frames_per_chunk": 51, "extra_left_context": 10}
    options = BatchOptions(**given, extra_left_context_initial=0)
    assert _inputs(options, 120, overlaps=True) == [
        (0, 17, 0, 17, -15, 60, 24, 32), (17, 17, 0, 17, 26, 111, 75, 128), (23, 17, 11, 6, 44, 129, 93, 128)
    ]  # fmt: skip
    assert _inputs(options, 40, overlaps=True) == [(0, 17, 0, 14, -15, 60, 24, 32)]
    exact = BatchOptions(**given, extra_left_context_initial=0, ensure_exact_final_context=True)
    assert _inputs(exact, 40, overlaps=True) == [(0, 14, 0, 14, -15, 51, 21, 1)]
    assert _inputs(exact, 120, overlaps=True) == _inputs(options, 120, overlaps=True)


@given(st.integers(1, 200), st.integers(1, 40), st.booleans(), st.booleans())
def test_each_output_is_used_once(total: int, per_chunk: int, overlaps: bool, exact: bool) -> None:
    options = BatchOptions(frames_per_chunk=per_chunk, ensure_exact_final_context=exact)
    chunks = cut(options, CONTEXT, total, per_chunk, overlaps=overlaps)
    used = [row for c in chunks for row in range(c.start + c.skip, c.start + c.skip + c.used)]
    assert used == list(range(total))
    assert all(0 <= c.skip <= c.skip + c.used <= c.num_outputs <= per_chunk for c in chunks)
    if overlaps and not (exact and total <= per_chunk):
        assert {c.num_outputs for c in chunks} == {per_chunk}


def test_the_example_of_the_docstring() -> None:
    assert doctest.testmod(cutting_module, raise_on_error=True).attempted > 0
