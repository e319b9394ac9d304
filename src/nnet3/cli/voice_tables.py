"""Tables of features and recordings for speaker recognition: frames with a voice, sliding means, segments."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from nnet3.base.kaldi_io.table_values import (
    matrix_writer,
    open_matrix_table,
    open_vector_table,
    random_access_matrices,
    random_access_vectors,
    vector_writer,
)
from nnet3.base.kaldi_io.table_writer import TableWriter
from nnet3.base.kaldi_io.tables import RandomAccessTable
from nnet3.base.options.speaker import SlidingCmvnOptions, VadOptions
from nnet3.base.text.values import read_number
from nnet3.cli.feature_tables import write_changed
from nnet3.cli.files import read_text
from nnet3.cli.messages import LeftOut, say
from nnet3.cli.recordings import RecordingsByKey
from nnet3.errors import Nnet3Error
from nnet3.speech.arrays.aliases import Rows
from nnet3.speech.features.audio import PcmReader
from nnet3.speech.features.sliding_cmvn import normalised_by_window
from nnet3.speech.features.wave_table import WaveData, write_wave
from nnet3.speech.speaker.voice_activity import selected_frames, voiced_frames

_FOREVER = 1e9  # seconds: no recording is as long


def write_voice_activity(source: str, output: str, options: VadOptions, omit_unvoiced: bool) -> int:
    """Writes 1 for each frame with a voice, 0 for others. Returns 1, an exit status, if no utterance has a voice."""
    left_out, done, unvoiced, voiced_count, frames = LeftOut(), 0, 0, 0, 0
    with open_matrix_table(source) as table, vector_writer(output) as writer:
        for key, voiced in left_out.each(table, lambda _, rows: voiced_frames(rows, options)):
            if not voiced.any():
                unvoiced += 1
                say(f"warning: utterance '{key}' has no frame with a voice")
            done, frames = done + bool(voiced.any()), frames + len(voiced)
            voiced_count += int(voiced.sum())
            if voiced.any() or not omit_unvoiced:
                writer.write(key, voiced.astype(np.float32))
    say(
        f"Applied energy based voice activity detection; processed {done} utterances successfully; {left_out.failed} "
        f"were left out, and {unvoiced} were completely unvoiced."
    )
    if frames:
        say(f"Proportion of voiced frames was {voiced_count / frames:.6g} over {frames} frames.")
    return int(done == 0)


def select_voiced(source: str, activity: str, output: str) -> int:
    """Writes the frames with a voice, given a table of voice activity. Returns 1, a status, without utterances."""

    def selected(key: str, rows: Rows) -> Rows:
        voiced = by_key.get(key)
        if voiced is None:
            raise Nnet3Error(f"{activity} has no voice activity for it")
        return selected_frames(rows, voiced)

    with random_access_vectors(activity) as by_key:
        return write_changed(source, output, selected, "Done selecting voiced frames:")


def merge_voice_activities(first: str, second: str, output: str, labels: str) -> int:
    """Writes a label for each frame by the labels of two tables: 1 if both are 1, else 0, or as a file says.

    The file has lines of three integers: two labels, and what they become; `#` begins a comment. Returns 1, an exit
    status, if all utterances were left out.
    """
    rows = _integer_rows(labels) if labels else [(a, b, a * b) for a in range(2) for b in range(2)]
    label_of = {(a, b): label for a, b, label in rows}
    by_key = random_access_vectors(second)

    def merged(key: str, vector: Rows) -> Rows:
        other = by_key.get(key)
        if other is None:
            raise Nnet3Error(f"{second} has no labels for it")
        if len(other) != len(vector):
            raise Nnet3Error(f"it has {len(vector)} labels in {first}, and {len(other)} in {second}")
        pairs, place = np.unique(np.stack([vector, other]).astype(np.int64), axis=1, return_inverse=True)
        found = [label_of.get((a, b)) for a, b in pairs.T.tolist()]
        if None in found:
            a, b = pairs[:, found.index(None)]
            raise Nnet3Error(f"there is no label for {a} and {b}")
        return np.array(found, np.float32)[place.reshape(-1)]

    left_out = LeftOut()
    with open_vector_table(first) as table, vector_writer(output) as writer:
        for key, vector in left_out.each(table, merged):
            writer.write(key, vector)
        say(f"Merged voice activity of {writer.count} utterances; {left_out.failed} left out.")
        return int(writer.count == 0)


def _integer_rows(name: str) -> list[tuple[int, ...]]:
    """Returns the lines of a file of three integers each, without comments. Raises Nnet3Error."""
    lines = [line.partition("#")[0].split() for line in read_text(name).splitlines()]
    try:
        rows = [tuple(map(int, words)) for words in lines if words]
    except ValueError:
        rows = [()]
    if any(len(row) != 3 for row in rows):
        raise Nnet3Error(f"{name}: expected three integers a line")
    return rows


class FeatureSegments(NamedTuple):
    """How segments are cut out of features: frames in milliseconds, lengths in seconds.

    `snip_edges`: the last frames, which reach into what follows, are left out.
    """

    min_segment_length: float
    max_overshoot: float
    frame_shift: int
    frame_length: int
    snip_edges: bool


def cut_features(source: str, segments: str, output: str, options: FeatureSegments) -> int:
    """Writes segments of features; lines that make no segment are left out. Returns 1, an exit status, if all are."""
    left_out, lines = LeftOut("segment '{}' left out: {}"), read_text(segments).splitlines()
    with random_access_matrices(source) as by_key, matrix_writer(output) as writer:
        for line in lines:
            name = line.split()[0] if line.split() else ""
            rows = left_out.made(name, _cut, by_key, line, options)
            if rows is not None:
                writer.write(name, rows)
        say(f"Successfully processed {writer.count} lines out of {len(lines)} in the segments file.")
        return int(writer.count == 0)


def _cut(features: RandomAccessTable[Rows], line: str, options: FeatureSegments) -> Rows:
    """Returns the frames of a segment `NAME UTTERANCE START END [CHANNEL]`. Raises Nnet3Error if there are none."""
    utterance, start, end, _ = _times(line)
    if end <= start:
        raise Nnet3Error(f"it ends before it begins: '{line[:80]}'")
    rows = features.get(utterance)
    if rows is None:
        raise Nnet3Error(f"there are no features for '{utterance}'")
    shift, overlap = options.frame_shift, options.frame_length - options.frame_shift
    first, behind = (int(np.floor(seconds * 1000 / shift + 0.5)) for seconds in (start, end))
    behind -= int(np.ceil(overlap / shift)) if options.snip_edges else 0
    over = int(np.floor(options.max_overshoot * 1000 / shift + 0.5))
    if first >= len(rows) or (behind > len(rows) and behind >= len(rows) + over):
        raise Nnet3Error(f"it lies outside of the {len(rows)} frames of '{utterance}': '{line[:80]}'")
    behind = min(behind, len(rows))
    if behind <= first + int(np.floor(options.min_segment_length * 1000 / shift + 0.5)):
        raise Nnet3Error(f"its {behind - first} frames are not more than --min-segment-length")
    return rows[first:behind]


def normalise_sliding(source: str, output: str, options: SlidingCmvnOptions, warns: bool) -> int:
    """Writes features less the mean of a window around or before each frame. Returns 1, a status, without features."""

    def normalised(key: str, rows: Rows) -> Rows:
        changed, floored = normalised_by_window(rows, options)
        if floored and warns:
            say(f"warning: utterance '{key}': {floored} variances are nearly 0 and were floored")
        return changed

    return write_changed(source, output, normalised, "Normalised")


def extract_segments(recordings: str, segments: str, output: str, least: float, overshoot: float) -> None:
    """Writes segments of recordings as a table of WAV files; lines that make no segment are left out with a warning."""
    by_key, left_out = RecordingsByKey(recordings), LeftOut("segment '{}' left out: {}")
    lines = read_text(segments).splitlines()
    with TableWriter(output, write_wave, header=False) as writer:
        for line in lines:
            name = line.split()[0] if line.split() else ""
            wave = left_out.made(name, partial(_segment, by_key, line, least, overshoot))
            if wave is not None:
                writer.write(name, wave)
        say(f"Successfully processed {writer.count} lines out of {len(lines)} in the segments file.")


def _times(line: str) -> tuple[str, float, float, int]:
    """Returns recording, begin and end in seconds, -1 for the end, and channel, -1 for none. Raises Nnet3Error."""
    words = line.split()
    if len(words) not in (4, 5):
        raise Nnet3Error(f"expected 'NAME RECORDING START END [CHANNEL]', got '{line[:80]}'")
    try:
        start, end = read_number(words[2]), read_number(words[3])
        channel = int(words[4]) if len(words) == 5 else -1
    except ValueError:
        raise Nnet3Error(f"its times or its channel are no numbers: '{line[:80]}'") from None
    is_backward = start < 0 or (end != -1 and end <= 0) or 0 < end <= start
    if is_backward or not start + end < _FOREVER or (len(words) == 5 and channel < 0):  # NaN is not less either
        raise Nnet3Error(f"start, end and channel make no segment: '{line[:80]}'")
    return words[1], start, end, channel


def _segment(recordings: RecordingsByKey, line: str, least: float, overshoot: float) -> WaveData:
    """Returns the samples of a segment `NAME RECORDING START END [CHANNEL]`. Raises Nnet3Error if there is none."""
    recording, start, end, channel = _times(line)
    found = recordings.get(recording)
    if found is None:
        raise Nnet3Error(f"there is no recording '{recording}'")
    samples, rate = found
    length = np.float32(len(samples) / rate)
    if start > length or end > np.float32(length + np.float32(overshoot)):
        raise Nnet3Error(f"it lies outside of the recording, which has {length:g} s: '{line[:80]}'")
    end = float(length) if end < 0 or end > length else end
    if end - start < np.float32(least):
        raise Nnet3Error(f"its {end - start:g} s are shorter than --min-segment-length={least:g}")
    if channel < 0 and samples.shape[1] > 1:
        raise Nnet3Error(f"the recording '{recording}' has {samples.shape[1]} channels: say which as the fifth word")
    if channel >= samples.shape[1]:
        raise Nnet3Error(f"there is no channel {channel} of {samples.shape[1]} in the recording '{recording}'")
    first, behind = int(start * rate + 0.5), min(int(end * rate + 0.5), len(samples))
    return WaveData.of(rate, PcmReader().read(samples[first:behind, max(channel, 0)])[:, np.newaxis])
