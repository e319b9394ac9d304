"""Options of running networks over utterances: what is refused, and what the programs' defaults are."""

from __future__ import annotations

from typing import Any

import pytest

from nnet3.errors import ExecutionError
from nnet3.options import BatchOptions, StreamOptions, UtteranceOptions, declared


@pytest.mark.parametrize(
    ("options", "values", "message"),
    [
        (UtteranceOptions, {"frame_subsampling_factor": 0}, r"frame_subsampling_factor must be within \[1, 1000\]"),
        (UtteranceOptions, {"frames_per_chunk": -1}, "frames_per_chunk must be >= 0, got -1"),
        (BatchOptions, {"minibatch_size": 0}, "minibatch_size must be >= 1, got 0"),
        (BatchOptions, {"partial_minibatch_factor": 1}, "partial_minibatch_factor must be >= 0 and < 1, got 1"),
        (BatchOptions, {"ensure_exact_final_context": 1}, "ensure_exact_final_context must be true or false, got 1"),
        (StreamOptions, {"num_streams": 0}, r"num_streams must be within \[1, 10000\], got 0"),
    ],
)
def test_values_that_cannot_be_meant(options: Any, values: dict[str, float], message: str) -> None:
    with pytest.raises(ExecutionError, match=message):
        options(**values)


def test_programs_take_chunks_by_default_and_python_whole_utterances() -> None:
    (item,) = (item for item in declared(BatchOptions) if item.name == "frames_per_chunk")
    assert (BatchOptions().frames_per_chunk, item.program_default) == (0, 50)
