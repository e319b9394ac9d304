"""Streams against the looped computation done with dictionaries: random networks, all kinds of layers, any steps."""

from __future__ import annotations

import copy
import random
from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

import nnet3
from nnet3.decode import Stream
from nnet3.errors import ExecutionError, NetworkError, NotComputableError, RequestError
from tests.effort import EFFORT, draws
from tests.inference.slow_stream import SlowStream
from tests.random_networks import random_network
from tests.seeds import RANDOM, shifted

LSTM = "cell-dim=4 recurrent-projection-dim=2 non-recurrent-projection-dim=2"
LAYERS = {
    "tdnnf": """
        relu-batchnorm-layer name=tdnn1 dim=4 input=Append(-1,0,1)
        tdnnf-layer name=tdnnf2 dim=4 bottleneck-dim=2 time-stride=1
        tdnnf-layer name=tdnnf3 dim=4 bottleneck-dim=2 time-stride=3
        output-layer name=output dim=2""",
    "ivector": """
        input name=ivector dim=2
        relu-batchnorm-layer name=tdnn1 dim=4 input=Append(input@-1, input, input@1, ReplaceIndex(ivector, t, 0))
        tdnnf-layer name=tdnnf2 dim=4 bottleneck-dim=2 time-stride=3
        output-layer name=output dim=2""",
    "lstm": f"""
        relu-batchnorm-layer name=tdnn1 dim=4 input=Append(-1,0,1)
        fast-lstmp-layer name=lstm2 {LSTM} delay=-3
        output-layer name=output dim=2 output-delay=5""",
    "gru": f"""
        norm-opgru-layer name=gru1 {LSTM} delay=-1
        pgru-layer name=gru2 {LSTM} delay=-3
        output-layer name=output dim=2""",
    "blstm": f"""
        fast-lstmp-layer name=forward {LSTM} delay=-3 input=input
        fast-lstmp-layer name=backward {LSTM} delay=3 input=Append(input@-2, input, input@2)
        output-layer name=output dim=2 input=Append(forward, backward)""",
    "statistics": """
        relu-renorm-layer name=tdnn1 dim=4 input=Append(-1,0,1)
        stats-layer name=stats config=mean+stddev+count(-12:1:3:6) input=tdnn1
        relu-renorm-layer name=tdnn2 dim=4 input=Append(tdnn1@-3, tdnn1, stats)
        output-layer name=output dim=2""",
    "attention": """
        relu-renorm-layer name=tdnn1 dim=4 input=Append(-1,0,1)
        attention-renorm-layer name=attention2 num-heads=2 value-dim=2 key-dim=2 time-stride=3 num-left-inputs=3 \
            num-right-inputs=2 num-left-inputs-required=1 num-right-inputs-required=1
        output-layer name=output dim=2""",
    "convolution": """
        conv-relu-batchnorm-layer name=conv1 height-in=3 height-out=3 num-filters-out=2 time-offsets=-1,0,1 \
            height-offsets=-1,0,1 required-time-offsets=0
        relu-batchnorm-layer name=tdnn2 dim=4 input=Append(-1,0,1)
        output-layer name=output dim=2""",
}
FOR_A_WHILE = """
    input-node name=input dim=2
    component name=W type=AffineComponent input-dim=2 output-dim=2
    component-node name=a component=W input=input
    component-node name=b component=W input=Failover(Failover(Offset(a, -3), ReplaceIndex(a, t, 5)), input)
    output-node name=output input=Failover(Offset(b, -2), b)
"""
PLACES = 3
SHAPES = ((5, 1), (4, 3), (9, 3), (1, 2))  # frames for each chunk, and for each row

pytestmark = pytest.mark.filterwarnings("ignore:.*has no statistics:RuntimeWarning")


@cache
def _computers(name: str, shape: tuple[int, int]) -> tuple[nnet3.StreamComputer, SlowStream]:
    """The computer of a network in float64, and a slow stream that has not begun."""
    nnet = nnet3.Nnet.from_xconfig(f"input name=input dim=3\n{LAYERS[name]}").to(dtype=torch.float64)
    generator = torch.Generator().manual_seed(0)
    for component in nnet.components.values():
        for tensor in component.parameters().values():
            tensor.copy_(0.7 * torch.randn(tensor.shape, generator=generator, dtype=torch.float64))
    frames_per_chunk, factor = shape
    streams = nnet3.StreamComputer(nnet, frames_per_chunk, PLACES, factor)
    return streams, SlowStream(nnet, frames_per_chunk, factor)


class _Talk:
    """A stream, and a slow one that is given the same."""

    def __init__(self, stream: Stream, slow: SlowStream) -> None:
        self.stream, self.slow = stream, copy.copy(slow)
        self.frames, self.num_rows = np.empty((0, 3)), 0
        self.ivector: np.ndarray | None = None

    def copied(self, stream: Stream) -> _Talk:
        """Another stream that is as far as this one is."""
        other = copy.copy(self)
        other.stream, other.slow = stream, copy.copy(self.slow)
        return other

    def expected(self, end: int) -> np.ndarray:
        """The rows that become available when no chunk looks beyond frame `end`; behind the last one come copies."""
        rows = [np.empty((0, 2))]
        while (times := np.array(self.slow.input_times()))[-1] < end:
            rows.append(self.slow.chunk(self.frames[times.clip(0, len(self.frames) - 1)], self.ivector))
        found = np.concatenate(rows)
        self.num_rows += len(found)
        return found

    def expected_last(self) -> np.ndarray:
        total, before = -(-len(self.frames) // self.slow.factor), self.num_rows
        rows = [np.empty((0, 2))]
        while self.num_rows < total:
            rows.append(self.expected(self.slow.input_times()[-1] + 1))
        return np.concatenate(rows)[: total - before]


def _assert_same(rows: torch.Tensor, expected: np.ndarray) -> None:
    assert rows.shape == expected.shape
    np.testing.assert_allclose(rows.numpy(), expected, rtol=1e-9, atol=1e-10)


@settings(max_examples=draws(6), stateful_step_count=10, report_multiple_bugs=False)
class Talks(RuleBasedStateMachine):
    """Streams that come, go, run together, move and are copied; each gives the rows of its slow stream at once."""

    @initialize(name=st.sampled_from(sorted(LAYERS)), shape=st.sampled_from(SHAPES))
    def begin(self, name: str, shape: tuple[int, int]) -> None:
        self.streams, self.slow = _computers(name, shape)
        self.has_ivector, self.talks, self.ended = name == "ivector", list[_Talk](), list[Stream]()

    @rule()
    def open(self) -> None:
        if len(self.talks) == PLACES:
            with pytest.raises(ExecutionError, match=f"all {PLACES} streams are open"):
                self.streams.open()
        else:
            self.talks.append(_Talk(self.streams.open(), self.slow))

    @rule(counts=st.lists(st.integers(0, 25), min_size=PLACES, max_size=PLACES), newer=st.booleans())
    def accept(self, counts: list[int], newer: bool) -> None:
        """Frames for those whose count is none of 3, 6, ...; the ivectors of all change, or of those without."""
        features, ivectors, talks = {}, {}, []
        for talk, count in zip(self.talks, counts, strict=False):
            if count and count % 3 == 0:
                continue
            talks.append(talk)
            own = RANDOM.standard_normal((count, 3))
            talk.frames = np.concatenate([talk.frames, own])
            features[talk.stream] = torch.from_numpy(own)
            if self.has_ivector and (newer or talk.ivector is None):
                talk.ivector = RANDOM.standard_normal(2)
                ivectors[talk.stream] = torch.from_numpy(talk.ivector)
        found = self.streams.accept(features, ivectors)
        assert list(found) == [talk.stream for talk in talks]
        for talk in talks:
            _assert_same(found[talk.stream], talk.expected(len(talk.frames)))

    @precondition(lambda self: self.talks)
    @rule(which=st.integers(0, PLACES - 1), stays=st.booleans())
    def move(self, which: int, stays: bool) -> None:
        """A stream goes on elsewhere; it may go on here too, if there is a place."""
        talk = self.talks[which % len(self.talks)]
        state = talk.stream.state()
        if not stays:
            talk.stream.close()
            self.ended.append(talk.stream)
            talk.stream = self.streams.restore(state)
        elif len(self.talks) < PLACES:
            self.talks.append(talk.copied(self.streams.restore(state)))
        else:
            with pytest.raises(ExecutionError, match=f"all {PLACES} streams are open"):
                self.streams.restore(state)

    @precondition(lambda self: self.talks)
    @rule(which=st.integers(0, PLACES - 1), value=st.sampled_from([np.nan, np.inf]))
    def accept_bad_frames(self, which: int, value: float) -> None:
        """Nothing is given to any of the streams."""
        features = {talk.stream: torch.from_numpy(RANDOM.standard_normal((4, 3))) for talk in self.talks}
        features[self.talks[which % len(self.talks)].stream][2, 1] = value
        with pytest.raises(ExecutionError, match="NaN or an infinity, first in row 2"):
            self.streams.accept(features)

    @precondition(lambda self: self.talks)
    @rule(which=st.integers(0, PLACES - 1))
    def finish(self, which: int) -> None:
        talk = self.talks.pop(which % len(self.talks))
        self.ended.append(talk.stream)
        if len(talk.frames) == 0:
            with pytest.raises(ExecutionError, match="ended without any frames"):
                talk.stream.finish()
            return
        rows = talk.stream.finish()
        _assert_same(rows, talk.expected_last())

    @precondition(lambda self: self.ended)
    @rule()
    def use_what_has_ended(self) -> None:
        stream = self.ended[-1]
        frames = torch.zeros(3, 3)
        for use in (stream.finish, stream.close, stream.state, lambda: stream.accept(frames)):
            with pytest.raises(ExecutionError, match=r"the stream has ended: open\(\) gives a new one"):
                use()
        with pytest.raises(ExecutionError, match="has ended"):
            self.streams.accept({stream: frames, **{talk.stream: frames for talk in self.talks}})

    def teardown(self) -> None:
        for talk in getattr(self, "talks", ()):
            talk.stream.close()


TestTalks = Talks.TestCase


@pytest.mark.parametrize("name", LAYERS)
def test_an_utterance_by_one_program_for_any_split(name: str) -> None:
    """For every kind of layer; the state machine may not come to all of them."""
    rng = random.Random(shifted(len(name)))
    streams, slow = _computers(name, rng.choice(SHAPES))
    features = RANDOM.standard_normal((rng.randint(1, 40), 3))
    ivector = RANDOM.standard_normal(2) if name == "ivector" else None
    expected = copy.copy(slow).utterance(features, None if ivector is None else lambda frame: ivector)
    stream, rows, left = streams.open(), [], torch.from_numpy(features)
    while len(left):
        count = rng.randint(1, 12)
        rows.append(stream.accept(left[:count], None if ivector is None else torch.from_numpy(ivector)))
        left = left[count:]
    _assert_same(torch.cat([*rows, stream.finish()]), expected)


def _assert_is_the_oracles(nnet: nnet3.Nnet, streams: nnet3.StreamComputer, features: np.ndarray, *sizes: int) -> None:
    """For frames that come in random numbers."""
    stream, rows, left = streams.open(), [], torch.from_numpy(features)
    while len(left):
        count = int(RANDOM.integers(1, 13))
        rows.append(stream.accept(left[:count]))
        left = left[count:]
    found, expected = torch.cat([*rows, stream.finish()]), SlowStream(nnet, *sizes).utterance(features)
    assert found.dtype == torch.float64
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)


def test_a_constant_time_that_is_looked_at_for_a_while() -> None:
    """By the second chunk of three frames alone; before, it is not computable, and then the past is there instead."""
    nnet = nnet3.Nnet.from_config(FOR_A_WHILE).to(dtype=torch.float64)
    _assert_is_the_oracles(nnet, nnet3.StreamComputer(nnet, 3, 1, 1), RANDOM.standard_normal((20, 2)), 3)


def _is_simple(nnet: nnet3.Nnet) -> bool:
    try:
        return nnet.is_simple and nnet.left_context >= 0
    except NetworkError:  # nothing is computable
        return False


@pytest.mark.parametrize("block", range(EFFORT))
def test_random_networks(block: int) -> None:
    """Where the oracle cannot compute an output, neither can a stream; a network may be refused that looks far back."""
    for seed in range(2050 + 10 * block, 2060 + 10 * block):
        nnet, rng = random_network(seed).nnet().to(dtype=torch.float64), random.Random(shifted(seed))
        if not _is_simple(nnet):
            continue
        sizes = rng.randint(1, 9), rng.choice([1, 1, 2, 3]), rng.choice([0, 0, 3])
        features = RANDOM.standard_normal((rng.randint(1, 40), nnet.node_dim("input")))
        try:
            streams = nnet3.StreamComputer(nnet, sizes[0], 1, *sizes[1:])
        except NotComputableError:
            with pytest.raises(AssertionError, match="not computable"):
                SlowStream(nnet, *sizes).utterance(np.repeat(features, 80, axis=0)[:80])
            continue
        except RequestError as error:
            if "do not come to repeat each other" in str(error):
                continue
            raise
        _assert_is_the_oracles(nnet, streams, features, *sizes)
