"""Verbs of recordings: silence behind them, and what networks get of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nnet3.asr import SpeakerState
from nnet3.base.options.recognizer import OnlineFeatureOptions
from nnet3.kaldi_io import Reader, Writer, open_matrix_table
from nnet3.options import TrailingSilenceOptions
from nnet3.speech.asr.online_front import load_online_features
from nnet3.speech.features.trailing_silence import with_silence
from nnet3.speech.features.wave_table import WaveData, open_wave_table, read_wave, wave_writer, write_wave
from nnet3.training.examples.c_random import CRandom
from tests.asr.small_model import FEATURES, IVECTOR, write_folder
from tests.asr.small_recognizer import RATE, audio
from tests.cli.run_command import Cli
from tests.seeds import RANDOM

CONF = """--lda-matrix=ivector/final.mat
--global-cmvn-stats=ivector/global_cmvn.stats
--diag-ubm=ivector/final.dubm
--ivector-extractor=ivector/final.ie
--splice-config=ivector/splice.conf
"""
SOUNDS = {"one": audio(0.8), "two": audio(0.6), "short": audio(0.01)}


@pytest.fixture(autouse=True)
def recordings(cli: Cli) -> None:
    """Recordings in a table, of two channels each."""
    with wave_writer("ark,scp:waves.ark,waves.scp") as writer:
        for key, sound in SOUNDS.items():
            writer.write(key, WaveData(RATE, np.stack([sound, sound[::-1] // 2], axis=1)))


def test_silence_is_added_to_all_channels(cli: Cli) -> None:
    Path("some.scp").write_text("".join(Path("waves.scp").read_text().splitlines(True)[:2]))
    ran = cli.good("extend-wav-with-silence", "--extra-silence-length=0.2", "scp:some.scp", "ark:longer.ark")
    assert "Successfully extended 2 files." in ran.err
    options = TrailingSilenceOptions(extra_silence_length=0.2)
    with open_wave_table("ark:longer.ark") as table:
        for key, wave in table:
            sound = SOUNDS[key]
            for number, channel in enumerate((sound, sound[::-1] // 2)):
                longer = np.trunc(with_silence(channel.astype(np.float32), RATE, options))
                assert np.array_equal(wave.samples[:, number], longer)


def test_a_file_and_what_is_too_loud(cli: Cli) -> None:
    writer = Writer(True)
    write_wave(writer, WaveData(RATE, np.full((RATE, 1), -(1 << 15), np.int16)))
    writer.write_to("loud.wav")
    ran = cli.good("extend-wav-with-silence", "loud.wav", "longer.wav")
    assert "samples are beyond 16 bits" in ran.err
    assert read_wave(Reader.open("longer.wav")).samples.shape == (6 * RATE, 1)
    assert cli("extend-wav-with-silence", "loud.wav", "ark:longer.ark").status == 255
    assert "too short" in cli("extend-wav-with-silence", "scp:waves.scp", "ark:longer.ark").err


def test_features_of_speakers(cli: Cli, tmp_path: Path) -> None:
    write_folder(Path("model"), RANDOM)
    Path("model/ivector").rename("ivector")
    Path("ivector.conf").write_text(CONF)
    said = OnlineFeatureOptions(mfcc_config="model/conf/mfcc.conf", ivector_extraction_config="ivector.conf")
    options = ["--mfcc-config=model/conf/mfcc.conf", "--ivector-extraction-config=ivector.conf"]
    Path("spk2utt").write_text("a one missing short two\nb two\n")
    ran = cli.good("online2-wav-dump-features", *options, "ark:spk2utt", "scp:waves.scp", "ark:feats.ark")
    assert "Did not find audio for utterance missing" in ran.err
    assert "no frames of data for utterance short" in ran.err
    made, known = load_online_features(said), list[SpeakerState | None]([None])
    total = 0
    with open_matrix_table("ark:feats.ark") as table:
        for (key, rows), of_before in zip(table, (False, True, False), strict=True):
            expected, after = made.rows(RATE, SOUNDS[key].astype(np.float32), 0.05, known[-1] if of_before else None)
            assert np.allclose(rows, expected, atol=1e-4)
            known.append(after)
            total += len(rows)
    assert f"Processed 3 utterances, 2 with errors; {total} frames in total." in ran.err
    assert cli.good("online2-wav-dump-features", *options, "--print-ivector-dim=true").out == f"{IVECTOR}\n"
    assert cli.good("online2-wav-dump-features", options[0], "--print-ivector-dim").out == "0\n"
    cli.good("online2-wav-dump-features", options[0], "ark:spk2utt", "ark:waves.ark", "ark:feats.ark")
    with open_matrix_table("ark:feats.ark") as table:
        assert [rows.shape[1] for _, rows in table] == 3 * [FEATURES]


def test_noise_of_pitch_goes_on_from_utterance_to_utterance_as_in_kaldi(cli: Cli) -> None:
    """Every frame has the next number that Kaldi draws; changes of pitch are times 10."""
    Path("spk2utt").write_text("a one two\nb one\n")
    Path("mfcc.conf").write_text(f"--sample-frequency={RATE}\n--dither=0\n")
    rows = list[np.ndarray]()
    for stddev in (0.02, 0.0):
        conf = f"--sample-frequency={RATE}\n--delta-pitch-noise-stddev={stddev}\n--add-raw-log-pitch=true\n"
        Path("pitch.conf").write_text(conf)
        options = "--mfcc-config=mfcc.conf", "--add-pitch=true", "--online-pitch-config=pitch.conf"
        cli.good("online2-wav-dump-features", *options, "ark:spk2utt", "ark:waves.ark", "ark:feats.ark")
        with open_matrix_table("ark:feats.ark") as table:
            rows.append(np.concatenate([matrix for _, matrix in table]))
    random, difference = CRandom(1), rows[0] - rows[1]
    assert np.allclose(difference[:, -2], [0.2 * random.gauss() for _ in difference], atol=1e-5)
    assert not np.delete(difference, -2, axis=1).any()


def test_the_exit_status(cli: Cli) -> None:
    Path("spk2utt").write_text("a missing\n")
    tables = ("ark:spk2utt", "scp:waves.scp", "ark:feats.ark")
    assert cli("online2-wav-dump-features", *tables).status == 1
    assert cli("online2-wav-dump-features", "--mfcc-config=none", *tables).status == 255
    assert cli("online2-wav-dump-features", *tables[:2]).status == 2
    Path("spk2utt").write_text("a one\n")
    ran = cli("online2-wav-dump-features", *tables)
    assert (ran.status, "allow-upsample=false" in ran.err) == (255, True)
