"""Audio to scores: the same as whole utterances through the network, with the ivectors that chunks are to get."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from nnet3.asr import (
    AcousticStream,
    FeatureStream,
    FrontModel,
    ModelFolder,
    OnlineIvectors,
    SilenceWeighting,
    accept_pieces,
)
from nnet3.components import Component
from nnet3.errors import ExecutionError
from nnet3.model.nnet import AcousticModel, Nnet
from nnet3.options import OnlineCmvnOptions
from nnet3.speech.asr.acoustic_stream import compute_scores
from tests.asr.slow_ivectors import SlowCmvn
from tests.asr.small_model import FEATURES, IVECTOR, SILENCE, acoustic_model, random_cmvn_stats, write_folder
from tests.effort import draws
from tests.seeds import RANDOM

RATE, PIECE = 8000, 1600


@pytest.fixture(scope="module")
def front(tmp_path_factory: pytest.TempPathFactory) -> FrontModel:
    folder = tmp_path_factory.mktemp("models") / "model"
    write_folder(folder, RANDOM)
    return ModelFolder(folder).load()


def _audio(samples: int) -> np.ndarray:
    """Returns noise that is louder here and there."""
    return (RANDOM.normal(size=samples) * np.exp(3 * np.sin(np.arange(samples) / 700)) * 50).astype(np.float32)


class _Search:
    """A search whose best path changes with every row, as chance has it; it writes down what it is asked."""

    def __init__(self) -> None:
        self.ids, self.tokens, self.asked = np.zeros(0, int), np.zeros(0, int), []

    def advance(self, rows: np.ndarray) -> None:
        random = np.random.default_rng(len(self.ids))
        keep = max(0, len(self.ids) - 2)
        more = len(self.ids) + len(rows) - keep
        self.ids = np.append(self.ids[:keep], random.integers(1, 7, more))
        self.tokens = np.append(self.tokens[:keep], random.integers(0, 9, more))

    def best_path(self, first: int = 0) -> tuple[np.ndarray, np.ndarray]:
        self.asked.append(len(self.ids))
        return self.ids[first:], self.tokens[first:]


def slow_scores(front: FrontModel, audio: np.ndarray, calls: list[int], search: _Search | None) -> np.ndarray:
    """Returns the rows of scores: all features first, then the ivector of each chunk, then row by row.

    The network looks from frame -4 to 5; chunk k = 1, 2, ... of 6 frames needs the frames up to 6 k + 5.
    """
    features, ivectors = (
        FeatureStream(front.features, RATE),
        OnlineIvectors(front.ivectors, weighted=search is not None),
    )
    weighting = SilenceWeighting(front.acoustic_model.transition_model, SILENCE, 3)
    frames, num_rows, done, chunks = np.zeros((0, FEATURES), np.float32), 0, 0, []
    pieces = [min(PIECE, call - first) for call in calls for first in range(0, call, PIECE)]
    for number, piece in enumerate([*pieces, 0]):
        last = number == len(pieces)
        new = features.accept(audio[done : done + piece], last)
        frames, done = np.concatenate([frames, new]), done + piece
        ivectors.accept(new, last)
        if search is not None and ivectors.ready:
            weighting.trace(*search.best_path())
            ivectors.weigh(*weighting.changes(ivectors.ready))
        before = num_rows
        while num_rows * 3 < len(frames) if last else len(frames) >= 6 * (len(chunks) + 1) + 5:
            chunks.append(ivectors.at(ivectors.ready - 1))
            num_rows += 2
        if search is not None and not last:
            search.advance(np.zeros((num_rows - before, 6)))
    if front.cmvn is not None:
        slow = SlowCmvn(frames, *front.cmvn)
        frames = np.array([slow.at(t) for t in range(len(frames))], np.float32)
    return np.array([_row(front, frames, chunks, 3 * row) for row in range(-(-len(frames) // 3))]).reshape(-1, 6)


def _row(front: FrontModel, frames: np.ndarray, chunks: list[np.ndarray], time: int) -> np.ndarray:
    """Returns the scores at one time, by the formula of the network."""
    layers = front.acoustic_model.nnet.components
    hidden = []
    for t in (time - 3, time + 3):
        spliced = [frames[min(max(u, 0), len(frames) - 1)] for u in (t - 1, t, t + 2)]
        ivector = chunks[max(t // 6, 1) - 1]  # that of time t, given with the first chunk that reaches so far
        hidden.append(np.maximum(_affine(layers["affine"], np.concatenate([*spliced, ivector])), 0))
    return _affine(layers["last"], np.concatenate(hidden))


def _affine(component: Component, values: np.ndarray) -> np.ndarray:
    linear, bias = (tensor.double().numpy() for tensor in component.parameters().values())
    return linear @ values + bias


@settings(max_examples=draws(12))
@given(st.lists(st.integers(0, 6000), min_size=1, max_size=3), st.booleans(), st.booleans())
def test_rows_are_those_of_the_ivectors_of_their_chunks(
    front: FrontModel, calls: list[int], weighted: bool, normalized: bool
) -> None:
    if normalized:
        front = replace(front, cmvn=(OnlineCmvnOptions(min_energy=0.0), random_cmvn_stats(RANDOM)))
    audio = _audio(sum(calls))
    search, again = (_Search(), _Search()) if weighted else (None, None)
    stream = AcousticStream(front, front.computer(), RATE, search.best_path if search else None)
    rows, done = [], 0
    for call in calls:
        for new in stream.accept(audio[done : done + call]):
            rows.append(new)
            if search is not None:
                search.advance(new)
        done += call
    rows.append(stream.finish())
    got = np.concatenate(rows)
    assert stream.num_rows == len(got)
    np.testing.assert_allclose(got, slow_scores(front, audio, calls, again), rtol=1e-3, atol=1e-3)
    if search is not None:
        assert search.asked == again.asked


def test_calls_of_whole_pieces_make_no_difference(front: FrontModel) -> None:
    audio = _audio(9 * PIECE + 500)
    results = []
    for piece in (len(audio), PIECE, 3 * PIECE):
        stream, search = AcousticStream(front, front.computer(), RATE), _Search()
        for first in range(0, len(audio), piece):
            for rows in stream.accept(audio[first : first + piece]):
                search.advance(rows)
        results.append(stream.finish())
    assert all(np.allclose(results[0], other, atol=1e-5) for other in results[1:])


def test_a_segment_has_weights_of_its_own(front: FrontModel) -> None:
    audio, first, second = _audio(8 * PIECE), _Search(), _Search()
    stream = AcousticStream(front, front.computer(), RATE, first.best_path)
    for rows in stream.accept(audio[: 4 * PIECE]):
        first.advance(rows)
    begun = stream.num_rows
    stream.begin_segment(second.best_path)
    for rows in stream.accept(audio[4 * PIECE :]):
        second.advance(rows)
    assert max(first.asked) <= begun
    assert second.asked[0] == 0
    assert stream._silence.first_frame == 3 * begun
    assert len(stream.finish()) + len(second.ids) + begun == stream.num_rows


def test_a_segment_without_an_end_stays_small(front: FrontModel) -> None:
    """Frames and rows whose weights are settled are forgotten, and nobody asks for the path to them."""
    search, begins = _Search(), []

    def path(first: int) -> tuple[np.ndarray, np.ndarray]:
        begins.append(len(search.ids) - first)
        return search.best_path(first)

    stream = AcousticStream(front, front.computer(), RATE, path)
    for rows in stream.accept(_audio(50 * PIECE)):
        search.advance(rows)
        kept = [stream._ivectors._rows, stream._ivectors._gaussians, stream._ivectors._log_likelihoods]
        assert max(len(each) - each.start for each in kept) <= 3 * 120
    assert len(search.ids) > 300
    assert max(begins) < 120


def test_a_model_without_ivectors_gives_the_scores_of_the_network(tmp_path: Path) -> None:
    write_folder(tmp_path / "model", RANDOM, with_ivector=False)
    front = ModelFolder(tmp_path / "model").load()
    audio = _audio(7000)
    stream = AcousticStream(front, front.computer(), RATE, _Search().best_path)
    rows = [*stream.accept(audio.astype("<i2").tobytes()), stream.finish()]
    frames = FeatureStream(front.features, RATE).accept(audio.astype("<i2").astype(np.float32), last=True)
    expected = front.acoustic_model.compute(frames, frame_subsampling_factor=3).numpy()
    np.testing.assert_allclose(np.concatenate(rows), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("more", "taken_in"), [(0, 11), (40, 11), (80, 13)])
def test_an_end_that_brings_no_chunk_takes_no_frame_in(front: FrontModel, more: int, taken_in: int) -> None:
    """Kaldi asks for an ivector when it computes a chunk alone: here two chunks have all of 12 frames, 13 need a third.

    The network has no right context; ivectors look one frame ahead.
    """
    nnet = Nnet.from_config(
        f"input-node name=input dim={FEATURES}\ninput-node name=ivector dim={IVECTOR}\n"
        f"component name=affine type=AffineComponent input-dim={FEATURES + IVECTOR} output-dim=6\n"
        "component-node name=affine component=affine input=Append(input, ReplaceIndex(ivector, t, 0))\n"
        "output-node name=output input=affine\n"
    )
    ahead = replace(front, acoustic_model=AcousticModel(front.acoustic_model.transition_model, nnet))
    stream, audio = AcousticStream(ahead, ahead.computer(), RATE), _audio(200 + 11 * 80 + more)
    rows = compute_scores([stream.feed(audio[: len(audio) - more])])[stream]
    assert len(rows) + len(stream.finish(audio[len(audio) - more :])) == -(-(12 + more // 80) // 3)
    known = stream.speaker_known().ivectors
    assert known is not None
    assert known.statistics is not None
    assert front.ivectors is not None
    assert known.statistics.count == pytest.approx(taken_in * front.ivectors.options.posterior_scale)


@pytest.mark.parametrize("samples", [0, 1, 199])
def test_audio_of_less_than_a_frame_has_no_rows(front: FrontModel, samples: int) -> None:
    computer = front.computer()
    for _ in range(2):  # the place of the stream is free again
        stream = AcousticStream(front, computer, RATE)
        assert all(len(rows) == 0 for rows in stream.accept(np.ones(samples, np.int16)))
        assert stream.finish().shape == (0, 6)


def test_streams_that_run_together_do_not_disturb_each_other(front: FrontModel) -> None:
    computer, audios = front.computer(num_streams=3), [_audio(5000 + 1000 * k) for k in range(3)]
    waiting = {}
    for audio in audios:
        stream = AcousticStream(front, computer, RATE)
        waiting[stream] = stream.pieces(audio)
    rows: dict[AcousticStream, list[np.ndarray]] = {stream: [] for stream in waiting}
    while pieces := {stream: piece for stream, left in waiting.items() if (piece := next(left, None)) is not None}:
        for stream, new in accept_pieces(pieces).items():
            rows[stream].append(new)
    for audio, (stream, parts) in zip(audios, rows.items(), strict=True):
        alone = AcousticStream(front, front.computer(), RATE)
        expected = np.concatenate([*alone.accept(audio), alone.finish()])
        np.testing.assert_allclose(np.concatenate([*parts, stream.finish()]), expected, rtol=1e-4, atol=1e-4)
    assert accept_pieces({}) == {}


def test_misuse_is_an_error(front: FrontModel) -> None:
    computer = front.computer()
    stream = AcousticStream(front, computer, RATE, _Search().best_path)
    with pytest.raises(ExecutionError, match="give the best path of each segment"):
        stream.begin_segment()
    with pytest.raises(ExecutionError, match="all 1 streams are open"):
        AcousticStream(front, computer, RATE)
    other = AcousticStream(front, front.computer(), RATE)
    with pytest.raises(ExecutionError, match="these streams are of 2 computers"):
        accept_pieces({stream: _audio(10), other: _audio(10)})
    stream.close()
    with pytest.raises(ExecutionError, match="the stream has ended"):
        list(stream.accept(np.ones(4000, np.int16)))


def test_pitch_lies_behind_the_features(tmp_path: Path) -> None:
    """With the features that are known after each piece of 0.2 s."""
    write_folder(tmp_path / "model", RANDOM, with_ivector=False)
    acoustic_model(with_ivector=False, pitch=3).save(tmp_path / "model/am/final.mdl")
    (tmp_path / "model/conf/pitch.conf").write_text("--sample-frequency=8000\n--normalization-right-context=10\n")
    front = ModelFolder(tmp_path / "model").load()
    assert front.pitch is not None
    audio = _audio(9000)
    stream = AcousticStream(front, front.computer(), RATE)
    rows = np.concatenate([*stream.accept(audio), stream.finish()])
    plain = FeatureStream(front.features, RATE).accept(audio, last=True)
    both = front.pitch.columns(FEATURES, RATE)
    pieces = [audio[first : first + PIECE] for first in range(0, 9000, PIECE)]
    parts = [both.accept(plain[:0], piece) for piece in pieces]
    parts.append(both.accept(plain, audio[:0], last=True))
    inputs = np.concatenate(parts)
    assert inputs.shape == (len(plain), FEATURES + 3)
    expected = front.acoustic_model.compute(inputs, frame_subsampling_factor=3)
    assert rows.shape == (-(-len(plain) // 3), 6)
    assert np.allclose(rows, np.asarray(expected), rtol=1e-4, atol=1e-4)
