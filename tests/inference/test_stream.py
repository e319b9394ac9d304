"""StreamComputer: how frames come makes no difference, streams do not see each other, bad input."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import nnet3
from nnet3.decode import Stream
from nnet3.engine.driver import default_cache
from nnet3.errors import ExecutionError, NetworkError, NumericalError
from nnet3.model.nnet.acoustic_model import AcousticModel
from tests.effort import at_night, draws
from tests.inference.slow_stream import SlowStream
from tests.inference.stream_networks import CONFIGS, make_features, make_ivector, make_ivectors, make_streams, network
from tests.seeds import RANDOM
from tests.shared_data import GOLDEN

CLOSE = 1e-5


def _in_parts(stream: Stream, frames: torch.Tensor, parts: list[int], ivector: torch.Tensor | None) -> torch.Tensor:
    rows = [stream.accept(part, ivector) for part in frames.split([*parts, len(frames) - sum(parts)])]
    return torch.cat([*rows, stream.finish()])


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("factor", [1, 3])
def test_rows_do_not_depend_on_how_frames_come(name: str, factor: int) -> None:
    streams = make_streams(name, frame_subsampling_factor=factor, extra_left_context_initial=2)
    ivector = make_ivector(streams)
    for frames in (1, 6, 52):
        features = make_features(streams, frames)
        whole = _in_parts(streams.open(), features, [], ivector)
        assert len(whole) == -(-frames // factor)
        assert torch.equal(streams.compute(features, ivector), whole)
        for parts in ([1] * (frames - 1), [0, frames // 2, 0], [frames - 1]):
            assert torch.equal(_in_parts(streams.open(), features, parts, ivector), whole)


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize(("chunk", "factor", "left"), [(7, 1, 0), (6, 3, 4), (2, 1, 1)])
def test_streams_compute_what_the_rules_say(name: str, chunk: int, factor: int, left: int) -> None:
    streams = make_streams(name, chunk, 1, factor, extra_left_context_initial=left)
    features, ivectors = make_features(streams, 30), make_ivectors(streams, 9)
    online = None if ivectors is None else lambda frame: ivectors[min(frame // 4, 8)].numpy()
    expected = SlowStream(network(name), chunk, factor, left).utterance(features.numpy(), online)
    rows = streams.compute(features, online_ivectors=ivectors, online_ivector_period=4)
    assert np.allclose(rows.numpy(), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["tdnn", "ivector", "lstm"])
@pytest.mark.parametrize("frames", [4, 50])
def test_streams_compute_what_whole_utterances_give(name: str, frames: int) -> None:
    streams = make_streams(name, frame_subsampling_factor=3)
    features, ivector = make_features(streams, frames), make_ivector(streams)
    expected = network(name).compute(features, ivector, frame_subsampling_factor=3)
    assert torch.allclose(streams.compute(features, ivector), expected, rtol=CLOSE, atol=CLOSE)


def test_rows_come_as_soon_as_their_frames_are_there() -> None:
    streams = make_streams("tdnn", frame_subsampling_factor=3)
    stream, features = streams.open(), make_features(streams, 60)
    chunk, right = streams.program.frames_per_chunk, streams.nnet.right_context
    assert (chunk, streams.latency) == (9, 9 + right - 1)
    for frame in range(60):
        rows = stream.accept(features[frame : frame + 1])
        complete = frame + 1 >= chunk + right and (frame + 1 - right) % chunk == 0
        assert len(rows) == (chunk // 3 if complete else 0)


def test_chunks_take_the_newest_ivector() -> None:
    streams = make_streams("ivector", num_streams=2)
    features, ivectors = make_features(streams, 32), [torch.full((2,), float(number)) for number in range(5)]
    one, other = streams.open(), streams.open()
    rows = [one.accept(features[:11], ivectors[1])]
    same = [other.accept(features[:11], ivectors[1])]
    for number, start in enumerate((11, 18, 25), 2):
        rows.append(one.accept(features[start : start + 7], ivectors[number]))
        assert len(other.accept(features[start : start + 3], ivectors[0])) == 0  # no chunk runs with this one
        same.append(other.accept(features[start + 3 : start + 7], ivectors[number]))
    assert torch.equal(torch.cat(rows), torch.cat(same))
    one.close()
    assert not torch.equal(torch.cat(rows), streams.compute(features, ivectors[1])[:28])


def test_a_vector_of_the_caller_may_change_afterwards() -> None:
    streams = make_streams("ivector", num_streams=2)
    features, ivector = make_features(streams, 40), torch.ones(2)
    expected = streams.compute(features, ivector)
    stream, buffer = streams.open(), torch.empty(8, 3)
    rows = []
    for start in range(0, 40, 8):
        buffer.copy_(features[start : start + 8])
        rows.append(stream.accept(buffer, ivector))
        ivector.copy_(torch.ones(2))
        buffer.fill_(9.0)
    assert torch.equal(torch.cat([*rows, stream.finish()]), expected)


@pytest.mark.parametrize("name", ["lstm", "ivector", *at_night("blocks", "convolution")])
def test_sixteen_interleaved_streams_are_sixteen_single_ones(name: str) -> None:
    streams, alone = make_streams(name, num_streams=16), make_streams(name)
    ivector = make_ivector(streams)
    frames = {streams.open(): make_features(streams, 30 + 3 * seed, seed) for seed in range(16)}
    rows: dict[Stream, list[torch.Tensor]] = {stream: [] for stream in frames}
    left = dict(frames)
    while left:
        counts = {stream: int(RANDOM.integers(0, 15)) for stream in left}
        ivectors = None if ivector is None else dict.fromkeys(left, ivector)
        for stream, found in streams.accept({s: left[s][: counts[s]] for s in left}, ivectors).items():
            rows[stream].append(found)
        left = {stream: left[stream][counts[stream] :] for stream in left}
        left = {stream: rest for stream, rest in left.items() if len(rest)}
    for stream, given in frames.items():
        expected = alone.compute(given, ivector)
        assert torch.allclose(torch.cat([*rows[stream], stream.finish()]), expected, rtol=1e-4, atol=CLOSE)


@dataclass
class _Talk:
    """A stream, all its frames and rows so far."""

    stream: Stream
    frames: list[torch.Tensor] = field(default_factory=list)
    rows: list[torch.Tensor] = field(default_factory=list)


@cache
def _kept(name: str, num_streams: int) -> nnet3.StreamComputer:
    return make_streams(name, num_streams=num_streams)


@settings(max_examples=draws(8), stateful_step_count=12, report_multiple_bugs=False)
class Talks(RuleBasedStateMachine):
    """Streams that come, go, run together and move, against one stream for each."""

    @initialize(name=st.sampled_from(["lstm", "blocks", "ivector", "fixed", "statistics"]))
    def begin(self, name: str) -> None:
        self.streams, self.alone = _kept(name, 5), _kept(name, 1)
        self.ivector, self.talks, self.seed = make_ivector(self.streams), list[_Talk](), 0

    @precondition(lambda self: len(self.talks) < 5)
    @rule()
    def open(self) -> None:
        self.talks.append(_Talk(self.streams.open()))

    @rule(counts=st.lists(st.integers(0, 40), min_size=5, max_size=5))
    def accept(self, counts: list[int]) -> None:
        given = {}
        for talk, count in zip(self.talks, counts, strict=False):
            if count % 3:  # a third of them are silent
                self.seed += 1
                talk.frames.append(make_features(self.streams, count, self.seed))
                given[talk.stream] = talk.frames[-1]
        ivectors = None if self.ivector is None else dict.fromkeys(given, self.ivector)
        found = self.streams.accept(given, ivectors)
        for talk in self.talks:
            if talk.stream in found:
                talk.rows.append(found[talk.stream])

    @precondition(lambda self: self.talks)
    @rule(which=st.integers(0, 4))
    def move(self, which: int) -> None:
        talk = self.talks[which % len(self.talks)]
        state = talk.stream.state()
        talk.stream.close()
        talk.stream = self.streams.restore(state)
        assert talk.stream.state() == state

    @precondition(lambda self: self.talks)
    @rule(which=st.integers(0, 4))
    def finish(self, which: int) -> None:
        talk = self.talks.pop(which % len(self.talks))
        if not talk.frames:
            talk.stream.close()
            return
        rows = torch.cat([*talk.rows, talk.stream.finish()])
        expected = self.alone.compute(torch.cat(talk.frames), self.ivector)
        assert torch.allclose(rows, expected, rtol=1e-4, atol=CLOSE)

    def teardown(self) -> None:
        for talk in getattr(self, "talks", ()):
            talk.stream.close()

    @invariant()
    def no_column_is_kept_for_nobody(self) -> None:
        batches = {talk.stream._progress.batch for talk in self.talks} - {None} if hasattr(self, "talks") else set()
        for batch in batches:
            assert batch is not None
            assert batch.width < 2 * max(1, len(batch.members)) or batch.width == 1


TestTalks = Talks.TestCase


def test_prepared_streams_compile_nothing() -> None:
    nnet = nnet3.Nnet.from_config(CONFIGS["tdnn"].replace("output-dim=5", "output-dim=7"))
    streams = nnet3.StreamComputer(nnet, 7, 5, 1)
    streams.prepare()
    before = replace(default_cache().counts)
    opened = [streams.open() for _ in range(5)]
    for number in range(1, 6):
        streams.accept(dict.fromkeys(opened[:number], make_features(streams, 31)))
    assert default_cache().counts == before


def test_rows_of_streams_that_run_together_do_not_share_memory() -> None:
    streams = make_streams("tdnn", num_streams=3)
    rows = streams.accept({streams.open(): make_features(streams, 40) for _ in range(3)})
    assert all(each.untyped_storage().nbytes() == each.nbytes for each in rows.values())


def test_scores_are_those_of_the_model() -> None:
    nnet = network("tdnn")
    transitions = nnet3.load_transition_model(GOLDEN / "mdl" / "1" / "final.mdl")
    model = AcousticModel(transitions, nnet, torch.tensor([0.1, 0.2, 0.3, 0.2, 0.2]))
    streams = nnet3.StreamComputer(model, 7, 1, 1, use_priors=True, acoustic_scale=0.5)
    features = make_features(streams, 20)
    expected = 0.5 * model.compute(features, use_priors=True)
    assert torch.allclose(streams.compute(features), expected, rtol=CLOSE, atol=CLOSE)
    with pytest.raises(NetworkError, match="use_priors was asked for, but a raw network has none"):
        nnet3.StreamComputer(nnet, use_priors=True)


# ---- changes of the model ----

NETWORK = """
input name=input dim=3
{} name=first input=Append(-1,0,1)
relu-layer name=second dim=4
output-layer name=output dim=5 param-stddev=0.3
"""


@pytest.mark.parametrize("merged", [True, False])
def test_parameters_that_change_are_followed_or_refused(merged: bool) -> None:
    """Never half of them: those in merged components are others."""
    first = "fixed-affine-layer affine-transform-file=none" if merged else "relu-layer dim=4"
    nnet = nnet3.Nnet.from_xconfig(NETWORK.format(first), seed=1)
    streams = nnet3.StreamComputer(nnet, 6, 3, 1)
    assert (streams.nnet.components.keys() <= nnet.components.keys()) != merged
    features = make_features(streams, 30)
    before, stream = streams.compute(features), streams.open()
    stream.accept(features[:12])
    state = stream.state()
    with torch.no_grad():
        for component in nnet.components.values():
            for parameter in component.parameters().values():
                parameter *= 1.5
    fresh = nnet3.StreamComputer(nnet, 6, 3, 1)
    assert not torch.allclose(fresh.compute(features), before, atol=1e-3)
    with pytest.raises(ExecutionError, match="the state of the stream cannot be used: it is of another model"):
        fresh.restore(state)
    if not merged:
        assert torch.allclose(streams.compute(features), fresh.compute(features), atol=CLOSE)
        return
    for use in (streams.open, stream.finish, lambda: stream.accept(features[12:]), lambda: streams.restore(state)):
        with pytest.raises(ExecutionError, match="parameters have changed since this computer was made: make another"):
            use()
    stream.close()


def test_a_parameter_that_is_another_tensor_is_a_change() -> None:
    """Even if Python gives it the place of the one that is gone."""
    nnet = nnet3.Nnet.from_xconfig(NETWORK.format("fixed-affine-layer affine-transform-file=none"), seed=1)
    component = next(c for c in nnet.components.values() if c.parameter_names)
    name = component.parameter_names[0]
    values = getattr(component, name).clone()
    for _ in range(5):
        streams = nnet3.StreamComputer(nnet, 6, 3, 1)
        setattr(component, name, None)
        setattr(component, name, torch.clone(values))
        with pytest.raises(ExecutionError, match="parameters have changed since this computer was made: make another"):
            streams.open()


def test_a_network_that_was_moved_or_frozen_elsewhere_goes_on() -> None:
    """Learning rates are nothing that streams look at; a computer for another device has parameters of its own."""
    nnet = nnet3.Nnet.from_xconfig(NETWORK.format("relu-layer dim=4"), seed=1)
    streams, copied = nnet3.StreamComputer(nnet, 6, 2, 1), nnet3.StreamComputer(nnet.copy(), 6, 1, 1)
    features = make_features(streams, 30)
    expected, stream = copied.compute(features), streams.open()
    first = stream.accept(features[:17])
    nnet.set_learning_rate(0.0)
    assert torch.equal(torch.cat([first, stream.accept(features[17:]), stream.finish()]), expected)
    nnet.to(dtype=torch.float64)
    with pytest.raises(ExecutionError, match=r"changed since this computer was made|are torch\.float64 now"):
        streams.compute(features)
    assert torch.equal(copied.compute(features), expected)


# ---- bad input ----


def test_ended_streams_are_refused() -> None:
    streams = make_streams("tdnn")
    stream = streams.open()
    stream.accept(make_features(streams, 30))
    stream.finish()
    for use in (stream.finish, stream.close, stream.state, lambda: stream.accept(make_features(streams, 1))):
        with pytest.raises(ExecutionError, match=r"the stream has ended: open\(\) gives a new one"):
            use()
    with pytest.raises(ExecutionError, match="the stream is of another computer"):
        streams.accept({make_streams("tdnn").open(): make_features(streams, 3)})
    empty = streams.open()
    with pytest.raises(ExecutionError, match="the stream has ended without any frames"):
        empty.finish()
    streams.open()


BAD: dict[str, tuple[Callable[[nnet3.StreamComputer], object], str]] = {
    "columns": (lambda s: torch.zeros(3, 7), r"the features must be \(frames, 3\), got \(3, 7\)"),
    "vector": (lambda s: torch.zeros(3), r"the features must be \(frames, 3\), got \(3,\)"),
    "nan": (lambda s: make_features(s, 4) / torch.tensor([[1.0], [1], [0], [1]]), "NaN or an infinity, first in row 2"),
    "list": (lambda s: [[1.0, 2.0, 3.0]], "the features: expected a tensor or an array, got list"),
}


@pytest.mark.parametrize(("make", "message"), BAD.values(), ids=BAD)
def test_bad_frames_of_one_stream_change_no_stream(
    make: Callable[[nnet3.StreamComputer], object], message: str
) -> None:
    streams = make_streams("statistics", num_streams=2)
    good, bad = streams.open(), streams.open()
    before = good.state(), bad.state()
    with pytest.raises(ExecutionError, match=message):
        streams.accept({good: make_features(streams, 30), bad: make(streams)})  # type: ignore[dict-item]
    assert (good.state(), bad.state()) == before
    assert len(good.accept(make_features(streams, 30))) > 0


def test_ivectors_are_checked() -> None:
    streams = make_streams("ivector")
    stream, features = streams.open(), make_features(streams, 30)
    with pytest.raises(ExecutionError, match="the network has an input 'ivector', but none is given"):
        stream.accept(features)
    with pytest.raises(ExecutionError, match=r"the ivectors must be \(2,\), got \(3,\)"):
        stream.accept(features, torch.zeros(3))
    assert len(stream.accept(features[:2])) == 0  # no chunk yet
    with pytest.raises(ExecutionError, match="none is given"):
        stream.finish()
    assert len(stream.accept(features[2:], torch.zeros(2))) > 0
    other = make_streams("tdnn")
    with pytest.raises(ExecutionError, match="the network has no input 'ivector', but one is given"):
        other.open().accept(make_features(other, 3), torch.zeros(2))


def test_a_stream_whose_outputs_are_not_finite_ends_alone() -> None:
    nnet = nnet3.Nnet.from_config(CONFIGS["tdnn"].replace("RectifiedLinear", "NoOp"))
    streams = nnet3.StreamComputer(nnet, 7, 2, 1)
    good, bad = streams.open(), streams.open()
    features = make_features(streams, 30)
    with pytest.raises(NumericalError, match="the result is not finite"):
        streams.accept({bad: torch.full_like(features, 1e38), good: features})
    expected = nnet3.StreamComputer(nnet, 7, 1, 1).compute(features)
    assert torch.allclose(torch.cat([good.accept(features[:0]), good.finish()]), expected, rtol=CLOSE, atol=CLOSE)
    with pytest.raises(ExecutionError, match="the stream has ended"):
        bad.finish()


@pytest.mark.parametrize("options", [{"num_streams": 0}, {"frames_per_chunk": 0}, {"frame_subsampling_factor": -1}])
def test_options_are_checked(options: dict[str, int]) -> None:
    with pytest.raises(ExecutionError, match=r"must be within \[1, 10"):
        nnet3.StreamComputer(network("tdnn"), **options)


def test_defaults_are_those_of_whole_utterances() -> None:
    """A row for each frame, unless another subsampling factor is given, however the network is run."""
    nnet = network("tdnn")
    features = RANDOM.standard_normal((40, nnet.node_dim("input")))
    ((_, batched),) = nnet3.BatchComputer(nnet).compute([("one", features, None)])
    found = (nnet.compute(features), nnet3.StreamComputer(nnet).compute(features), batched)
    assert [len(rows) for rows in found] == [40, 40, 40]
