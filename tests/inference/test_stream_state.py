"""States of streams: what is damaged or of another model is refused. That streams go on is in test_stream."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import nnet3
from nnet3.errors import ExecutionError
from tests.inference.stream_networks import make_features, make_streams, network


def _changed(state: bytes, old: bytes, new: bytes) -> bytes:
    assert old in state
    return state.replace(old, new)


DAMAGE: dict[str, tuple[Callable[[bytes], object], str]] = {
    "text": (lambda state: "state", "the state of a stream is bytes, got str"),
    "nothing": (lambda state: b"", "it is no safetensors file"),
    "short": (lambda state: state[:-3], "it is no safetensors file"),
    "version": (lambda state: _changed(state, b'version\\": 1', b'version\\": 2'), "expected version 1, got 2"),
    "count": (lambda state: _changed(state, b'"number', b'"numbeR'), "its counts are"),
    "chunks": (lambda state: _changed(state, b'frames\\": 3', b'frames\\": 4'), "'frames' should be"),
    "node": (lambda state: _changed(state, b"state/lstm", b"state/mtsl"), "'state/lstm' should be"),
    "nan": (lambda state: state[:-4] + np.float32(np.nan).tobytes(), "numbers that are not finite"),
}


@pytest.mark.parametrize(("damage", "message"), DAMAGE.values(), ids=DAMAGE)
def test_damaged_states_are_refused(damage: Callable[[bytes], object], message: str) -> None:
    streams = make_streams("lstm", num_streams=2)
    stream = streams.open()
    stream.accept(make_features(streams, 30))
    with pytest.raises(ExecutionError, match=message):
        streams.restore(damage(stream.state()))  # type: ignore[arg-type]
    assert len(streams.restore(stream.state()).finish()) > 0


def test_states_of_other_models_and_options_are_refused() -> None:
    streams = make_streams("lstm")
    state = streams.open().state()
    for other in (
        make_streams("tdnn"),
        make_streams("lstm", frames_per_chunk=8),
        nnet3.StreamComputer(network("lstm").copy()),
    ):
        with pytest.raises(ExecutionError, match="it is of another model or other options"):
            other.restore(state)


_ELSEWHERE = """
import sys
from tests.inference.stream_networks import make_features, make_streams
streams = make_streams("statistics", num_streams=2)
rows = streams.restore(sys.stdin.buffer.read()).accept(make_features(streams, 60)[30:])
sys.stdout.buffer.write(rows.numpy().tobytes())
"""


def test_a_stream_goes_on_in_another_process(programs: Path) -> None:
    streams = make_streams("statistics")
    stream, features = streams.open(), make_features(streams, 60)
    stream.accept(features[:30])
    command = [programs / "python", "-c", _ELSEWHERE]
    outcome = subprocess.run(command, input=stream.state(), capture_output=True, check=True)
    assert outcome.stdout == stream.accept(features[30:]).numpy().tobytes()
