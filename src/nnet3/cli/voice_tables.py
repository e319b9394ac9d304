"""Tables of features and recordings for speaker recognition: frames with a voice, sliding means, segments."""

from __future__ import annotations

from functools import partial

import numpy as np

from nnet3.base.kaldi_io.table_values import open_matrix_table, random_access_vectors, vector_writer
from nnet3.base.kaldi_io.table_writer import TableWriter
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
    """Writes the frames with a voice, given a table of voice activity. Returns 1 if there are none."""

    def selected(key: str, rows: Rows) -> Rows:
        voiced = by_key.get(key)
        if voiced is None:
            raise Nnet3Error(f"{activity} has no voice activity for it")
        return selected_frames(rows, voiced)

    with random_access_vectors(activity) as by_key:
        return write_changed(source, output, selected, "Done selecting voiced frames:")


def normalise_sliding(source: str, output: str, options: SlidingCmvnOptions, warns: bool) -> int:
    """Writes features less the mean of a window around or before each frame. Returns 1 if there are none."""

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


def _segment(recordings: RecordingsByKey, line: str, least: float, overshoot: float) -> WaveData:
    """Returns the samples of a segment `NAME RECORDING START END [CHANNEL]`. Raises Nnet3Error if there is none."""
    words = line.split()
    if len(words) not in (4, 5):
        raise Nnet3Error(f"expected 'NAME RECORDING START END [CHANNEL]', got '{line[:80]}'")
    try:
        start, end = read_number(words[2]), read_number(words[3])
        channel = int(words[4]) if len(words) == 5 else -1
    except ValueError:
        raise Nnet3Error(f"its times or its channel are no numbers: '{line[:80]}'") from None
    if start < 0 or (end != -1 and end <= 0) or 0 < end <= start or (len(words) == 5 and channel < 0):
        raise Nnet3Error(f"start, end and channel make no segment: '{line[:80]}'")
    found = recordings.get(words[1])
    if found is None:
        raise Nnet3Error(f"there is no recording '{words[1]}'")
    samples, rate = found
    length = np.float32(len(samples) / rate)
    if start > length or end > np.float32(length + np.float32(overshoot)):
        raise Nnet3Error(f"it lies outside of the recording, which has {length:g} s: '{line[:80]}'")
    end = float(length) if end < 0 or end > length else end
    if end - start < np.float32(least):
        raise Nnet3Error(f"its {end - start:g} s are shorter than --min-segment-length={least:g}")
    if channel < 0 and samples.shape[1] > 1:
        raise Nnet3Error(f"the recording '{words[1]}' has {samples.shape[1]} channels: say which as the fifth word")
    if channel >= samples.shape[1]:
        raise Nnet3Error(f"there is no channel {channel} of {samples.shape[1]} in the recording '{words[1]}'")
    first, behind = int(start * rate + 0.5), min(int(end * rate + 0.5), len(samples))
    return WaveData.of(rate, PcmReader().read(samples[first:behind, max(channel, 0)])[:, np.newaxis])
