"""Progress and batches of streams: what they keep."""

from __future__ import annotations

import gc

import pytest
import torch

from nnet3.engine.runtime.link import LinkedComputation
from nnet3.errors import ExecutionError
from tests.inference.stream_networks import make_features, make_streams


def test_a_long_stream_keeps_no_more_than_a_short_one() -> None:
    streams = make_streams("statistics")
    stream, features, sizes = streams.open(), make_features(streams, 35), []
    for _ in range(40):
        stream.accept(features)
        sizes.append(len(stream.state()))
    assert len(set(sizes[2::2])) == len(set(sizes[3::2])) == 1


def test_a_stream_that_is_forgotten_gives_its_place_back() -> None:
    streams = make_streams("tdnn")
    stream = streams.open()
    with pytest.raises(ExecutionError, match=r"all 1 streams are open: finish one first, or give a larger num_streams"):
        streams.open()
    del stream
    gc.collect()
    assert len(streams.open().accept(make_features(streams, 30))) > 0


def test_a_chunk_that_was_interrupted_is_computed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    streams = make_streams("statistics")
    stream, features = streams.open(), make_features(streams, 60)
    rows = [stream.accept(features[:15])]
    state = stream.state()
    with monkeypatch.context() as patch:
        patch.setattr(LinkedComputation, "run_segment", _interrupted)
        with pytest.raises(KeyboardInterrupt):
            stream.accept(features[15:40])
    assert stream.state() != state  # it has the frames
    rows += [stream.accept(features[40:]), stream.finish()]
    assert torch.equal(torch.cat(rows), streams.compute(features))


def _interrupted(linked: LinkedComputation, number: int) -> None:
    raise KeyboardInterrupt
