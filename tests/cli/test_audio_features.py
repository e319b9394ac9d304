"""compute-mfcc-feats and compute-fbank-feats: features of tables of recordings."""

from __future__ import annotations

import io
import struct
import wave
from pathlib import Path

import numpy as np
import pytest

from nnet3.kaldi_io import open_matrix_table
from nnet3.options import FbankOptions, MfccOptions
from nnet3.speech.features.features import FeatureStream
from tests.cli.run_command import Cli, Shell

native = pytest.importorskip("kaldi_native_fbank")
RATE = 8000
RNG = np.random.default_rng(2)
SAMPLES = {key: RNG.integers(-3000, 3000, seconds).astype(np.int16) for key, seconds in (("a", 4000), ("b", 9000))}


def _wav(samples: np.ndarray, rate: int = RATE) -> bytes:
    contents = io.BytesIO()
    with wave.open(contents, "wb") as file:
        file.setnchannels(1 if samples.ndim == 1 else samples.shape[1])
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(samples.tobytes())
    return contents.getvalue()


@pytest.fixture(autouse=True)
def recordings(cli: Cli) -> None:
    """`wav.scp` of files and a pipe, `wav.ark` with the same one after the other."""
    for key, samples in SAMPLES.items():
        Path(f"{key}.wav").write_bytes(_wav(samples))
    Path("wav.scp").write_text("a a.wav\nb cat b.wav |\n")
    Path("wav.ark").write_bytes(b"".join(f"{key} ".encode() + Path(f"{key}.wav").read_bytes() for key in SAMPLES))


def _straight(samples: np.ndarray) -> np.ndarray:
    """What the package that computes them gives without us."""
    options = native.MfccOptions()
    options.frame_opts.samp_freq, options.frame_opts.dither = RATE, 0.0
    options.num_ceps = 20
    options.mel_opts.num_bins = 30
    computer = native.OnlineMfcc(options)
    computer.accept_waveform(RATE, samples.astype(np.float32))
    computer.input_finished()
    return np.stack([computer.get_frame(number) for number in range(computer.num_frames_ready)])


def test_tables_of_files_pipes_and_archives(cli: Cli) -> None:
    Path("mfcc.conf").write_text("--num-ceps=20\n--num-mel-bins=30\n--sample-frequency=8000 # as the recordings\n")
    more = "--write-utt2dur=ark,t:utt2dur"
    outcome = cli.good("compute-mfcc-feats", "--config=mfcc.conf", more, "scp:wav.scp", "ark,scp:a.ark,a.scp")
    assert "Done 2 out of 2 utterances" in outcome.err
    found = dict(open_matrix_table("scp:a.scp"))
    for key, samples in SAMPLES.items():
        np.testing.assert_array_equal(found[key], _straight(samples))
    assert Path("utt2dur").read_text().split() == ["a", "0.5", "b", "1.125"]
    cli.good("compute-mfcc-feats", "--config=mfcc.conf", "ark:wav.ark", "ark:b.ark")
    cli.good("compute-mfcc-feats", "--config=mfcc.conf", "ark:cat wav.ark |", "ark:c.ark")
    assert Path("a.ark").read_bytes() == Path("b.ark").read_bytes() == Path("c.ark").read_bytes()
    cli.good("compute-fbank-feats", "--sample-frequency=8000", "--subtract-mean=true", "scp:wav.scp", "ark:f.ark")
    for key, rows in open_matrix_table("ark:f.ark"):
        stream = FeatureStream(FbankOptions(sample_frequency=RATE), RATE)
        plain = stream.accept(SAMPLES[key].astype(np.float32), last=True)
        np.testing.assert_allclose(rows, plain - plain.mean(axis=0), atol=1e-5)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["8000"], [[17.213888, 20.997831, 23.625414, 24.861559], [3.702459, 6.998091, 17.131613, 23.157573]]),
        (
            ["22050", "--high-freq=7000"],
            [[19.513924, 23.491804, 25.644014, 25.243383], [5.488555, 15.012314, 24.265486, 26.909525]],
        ),
    ],
)
def test_another_rate_is_that_of_kaldis_programs(cli: Cli, options: list[str], expected: list[list[float]]) -> None:
    """The numbers are those of Kaldi's compute-fbank-feats, whose resampling leaves 99 % of the band."""
    places = np.arange(600)
    Path("r.wav").write_bytes(_wav((3000 * np.sin(places * places * 0.0024)).astype(np.int16), 16000))
    Path("wav.scp").write_text("r r.wav\n")
    command = [f"--sample-frequency={options[0]}", *options[1:], "--num-mel-bins=4"]
    cli.good("compute-fbank-feats", *command, "scp:wav.scp", "ark:out.ark")
    found = dict(open_matrix_table("ark:out.ark"))["r"]
    np.testing.assert_allclose(found, expected, atol=1e-3)  # of bins without much in them, 1e-4 else


@pytest.mark.parametrize(("bins", "status"), [(100, 1), (90, 0)])
def test_bins_without_a_frequency_are_an_error(cli: Cli, bins: int, status: int) -> None:
    """Kaldi's compute-fbank-feats takes 90 bins of frames of 200 samples at 8 kHz, and aborts with 100."""
    outcome = cli("compute-fbank-feats", "--sample-frequency=8000", f"--num-mel-bins={bins}", "scp:wav.scp", "ark:out")
    assert outcome.status == status
    assert ("is too large: bin 1, from 0, has no frequency" in outcome.err) == bool(status)


def test_channels_and_what_is_left_out(cli: Cli) -> None:
    both = np.stack([SAMPLES["a"], SAMPLES["a"][::-1]], axis=1)
    Path("a.wav").write_bytes(_wav(both))
    Path("short.wav").write_bytes(_wav(SAMPLES["a"][:10]))
    Path("wav.scp").write_text("a a.wav\nshort short.wav\nno no.wav\nlong b.wav\n")
    command = ["compute-mfcc-feats", "--sample-frequency=8000", "--use-energy=false"]
    outcome = cli.good(*command, "--min-duration=0.001", "scp:wav.scp", "ark:first.ark")
    assert "a.wav: 2 channels, of which the first is taken" in outcome.err
    assert "short: 0.00125 s are too short for a frame of 25 ms; left out" in outcome.err
    assert "no.wav" in outcome.err
    assert "Done 2 out of 4 utterances" in outcome.err
    outcome = cli.good(*command, "--channel=1", "scp:wav.scp", "ark:second.ark")
    assert "long: there is no channel 1 of 1: --channel counts from 0; left out" in outcome.err
    options = MfccOptions(sample_frequency=RATE, use_energy=False)
    for name, samples in (("first", SAMPLES["a"]), ("second", SAMPLES["a"][::-1])):
        found = dict(open_matrix_table(f"ark:{name}.ark"))["a"]
        expected = FeatureStream(options, RATE).accept(samples.astype(np.float32), last=True)
        np.testing.assert_array_equal(found, expected)
    outcome = cli(*command, "--min-duration=2", "scp:wav.scp", "ark:none.ark")
    assert (outcome.status, "less than --min-duration=2" in outcome.err) == (1, True)
    Path("cut.ark").write_bytes(b"a " + _wav(SAMPLES["a"])[:1000])
    outcome = cli(*command, "ark:cut.ark", "ark:none.ark")
    assert (outcome.status, "a WAV file takes" in outcome.err) == (1, True)
    Path("piped.ark").write_bytes(b"a RIFF" + struct.pack("<I", 0xFFFFFFFF) + _wav(SAMPLES["a"])[8:])
    assert "expected a WAV file that says its size" in cli(*command, "ark:piped.ark", "ark:none.ark").err


@pytest.mark.parametrize(("table", "words"), [("none.scp", "none.scp"), ("bad.scp", "expected 'KEY FILENAME'")])
def test_a_table_that_cannot_be_read_is_one_error(cli: Cli, table: str, words: str) -> None:
    Path("bad.scp").write_text("nothing-but-a-key\n")
    outcome = cli("compute-mfcc-feats", f"scp:{table}", "ark:out")
    assert outcome.status == 1
    assert words in outcome.err
    assert len(outcome.err.splitlines()) == 1
    assert not Path("out").exists()


def test_kaldis_name_has_kaldis_defaults(shell: Shell, cli: Cli) -> None:
    """Noise on the samples, and no change of the rate."""
    done = shell("compute-mfcc-feats --sample-frequency=8000 scp:wav.scp ark:noisy.ark")
    assert done.returncode == 0, done.stderr
    cli.good("compute-mfcc-feats", "--sample-frequency=8000", "scp:wav.scp", "ark:clean.ark")
    noisy, clean = (dict(open_matrix_table(f"ark:{name}.ark"))["a"] for name in ("noisy", "clean"))
    assert 0 < abs(noisy - clean).max() < 1
    done = shell("compute-mfcc-feats --dither=0 scp:wav.scp ark:none.ark")
    assert (done.returncode, "the audio has 8000 Hz" in done.stderr) == (1, True)
    cli.good("compute-mfcc-feats", "--vtln-low=100", "--debug-mel=false", "scp:wav.scp", "ark:wide.ark")


def test_an_archive_that_has_no_recordings_is_left(cli: Cli) -> None:
    """Nothing tells where the next recording would begin: its bytes are no keys."""
    Path("feats.ark").write_bytes(b"a \0BFM " + bytes(range(32, 120)) + b"\n" + bytes(range(32, 120)) + b"\nb c\n")
    outcome = cli("compute-mfcc-feats", "ark:feats.ark", "ark:out.ark")
    assert (outcome.status, outcome.err.count("warning: ")) == (1, 1)
    assert "the entry 'a': feats.ark: " in outcome.err


def test_features_that_are_not_finite_are_left_out(cli: Cli) -> None:
    """A prediction of more coefficients than the mel bins determine."""
    outcome = cli("compute-plp-feats", "--sample-frequency=8000", "--lpc-order=100", "scp:wav.scp", "ark:out")
    assert outcome.status == 1
    assert "warning: a: its features have a NaN or an infinity" in outcome.err
    assert "overflow" not in outcome.err
