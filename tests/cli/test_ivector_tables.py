"""ivector-extract-online2: the ivectors of Kaldi inside Vosk, speakers of several utterances, and mistakes."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from nnet3.kaldi_io import matrix_writer, open_matrix_table, vector_writer
from tests.asr.golden_ivectors import ARRAYS, FEATURES, GOLDEN, NEAR
from tests.cli.run_command import Cli

CONF = """--ivector-extractor=final.ie
--diag-ubm=final.dubm  # as prepare_online_decoding.sh has it, with paths
--lda-matrix=final.mat
--global-cmvn-stats=global_cmvn.stats
--splice-config=splice.conf
--cmvn-config={}.conf
--ivector-period=10
"""


@pytest.fixture(autouse=True)
def folder(cli: Cli) -> None:
    for name in ("final.ie", "final.dubm", "final.mat", "global_cmvn.stats", "splice.conf"):
        shutil.copyfile(GOLDEN / name, name)
    for name in ("plain", "speaker"):  # the wheel looks at the energy of frames, Kaldi does not
        Path(f"{name}.conf").write_text("--cmn-min-energy=50\n" + (GOLDEN / f"{name}.conf").read_text())
        Path(f"{name}_ivectors.conf").write_text(CONF.format(name))
    parts = np.split(FEATURES, ARRAYS["speaker_ends"][:-1])
    with matrix_writer("ark,scp:feats.ark,feats.scp") as writer:
        for key, rows in {"whole": FEATURES, "u1": parts[0], "u2": parts[1], "u3": parts[2]}.items():
            writer.write(key, rows)
    Path("spk2utt").write_text("one whole\nother u1 u2 nobody u3\n")


def _ivectors(cli: Cli, *arguments: str) -> dict[str, np.ndarray]:
    cli.good("ivector-extract-online2", *arguments, "ark:spk2utt", "scp:feats.scp", "ark:out")
    return dict(open_matrix_table("ark:out"))


def test_ivectors_are_those_of_kaldi(cli: Cli) -> None:
    found = _ivectors(cli, "--config=plain_ivectors.conf", "--num-threads=8")  # as extract_ivectors_online.sh has it
    assert list(found) == ["whole", "u1", "u2", "u3"]
    np.testing.assert_allclose(found["whole"], ARRAYS["plain"], **NEAR)


def test_a_speaker_goes_on_from_one_utterance_to_the_next(cli: Cli) -> None:
    command = ["--config=speaker_ivectors.conf", "--max-count=4", "--max-remembered-frames=70", "--repeat=true"]
    found = _ivectors(cli, *command)
    expected, place = ARRAYS["speaker"], 0
    for key in ("u1", "u2", "u3"):  # behind the rows of each utterance there is one more, of its last frame
        rows = -(-len(found[key]) // 10)
        np.testing.assert_allclose(found[key][::10], expected[place : place + rows], **NEAR)
        place += rows + 1
    assert place == len(expected)


def test_an_ivector_for_each_frame(cli: Cli) -> None:
    sparse, all_frames = (
        _ivectors(cli, "--config=plain_ivectors.conf", f"--repeat={each}") for each in ("false", "true")
    )
    assert len(sparse["u2"]) == -(-len(all_frames["u2"]) // 10)
    for key in ("whole", "u1"):  # those after them know a speaker of whom more or less was asked for
        rows = sparse[key]
        frames = np.arange(len(all_frames[key]))
        np.testing.assert_array_equal(all_frames[key], rows[frames // 10])
    assert len(all_frames["whole"]) == len(FEATURES)


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        ([], [[-4.55172, 1.13682, -0.99658, -0.01291], [-14.02554, 2.68185, -2.17144, 0.80717]]),
        (["--repeat=true"], [[-12.47618, 3.25011, -2.24209, 1.37413], [-16.85086, 3.02504, -2.36621, 1.44577]]),
        (["--greedy-ivector-extractor=true"], [[-16.85086, 3.02504, -2.36621, 1.44577]] * 2),
    ],
)
def test_what_behind_the_last_ivector_counts_for_the_next_utterance(
    cli: Cli, option: list[str], expected: list[list[float]]
) -> None:
    """The numbers are those of Kaldi's ivector-extract-online2; of the first utterance it used frame 0, or all nine.

    Three columns more, of pitch, change nothing.
    """
    with matrix_writer("ark:short.ark") as writer:
        writer.write("u1", np.concatenate([FEATURES[:9], FEATURES[:9, :3]], axis=1))
        writer.write("u2", FEATURES[9:20])
    Path("none.conf").write_text("")
    Path("spk2utt").write_text("one u1 u2\n")
    command = ["--config=plain_ivectors.conf", "--cmvn-config=none.conf", "--use-most-recent-ivector=false", *option]
    cli.good("ivector-extract-online2", *command, "ark:spk2utt", "ark:short.ark", "ark:out")
    found = dict(open_matrix_table("ark:out"))["u2"]
    np.testing.assert_allclose(found[[0, -1]], expected, rtol=4e-5, atol=4e-5)


def test_frames_count_as_much_as_their_weights(cli: Cli) -> None:
    count = len(FEATURES)
    half = np.where(np.arange(count) < count // 2, 1.0, 0.0).astype(np.float32)
    for name, weights in {"ones": np.ones(count), "half": half, "short": half[:-2], "none": np.zeros(count)}.items():
        with vector_writer(f"ark:{name}.w") as writer:
            writer.write("whole", weights.astype(np.float32))

    def ivectors(*options: str) -> np.ndarray:
        return _ivectors(cli, "--config=plain_ivectors.conf", *options)["whole"]

    plain, by = ivectors(), "--frame-weights-rspecifier=ark:{}.w".format
    np.testing.assert_array_equal(ivectors(by("ones")), plain)
    points = (count // 2 - 1) // 10 + 1  # estimates before the frames that count nothing
    found = ivectors(by("half"))
    np.testing.assert_array_equal(found[:points], plain[:points])
    assert not np.allclose(found[-1], plain[-1], atol=1e-3)
    np.testing.assert_array_equal(ivectors(by("short"), "--length-tolerance=2"), found)
    np.testing.assert_allclose(ivectors(by("none")), 0, atol=1e-5)  # the prior's mean, less its offset
    tables = ("ark:spk2utt", "scp:feats.scp", "ark:none")
    outcome = cli("ivector-extract-online2", "--config=plain_ivectors.conf", by("short"), *tables)
    assert outcome.status == 1
    assert f"it has {count} frames and {count - 2} weights; --length-tolerance is 0" in outcome.err
    assert "utterance 'u1' left out: there are no weights for it" in outcome.err


def test_what_is_left_out_and_what_is_an_error(cli: Cli) -> None:
    with matrix_writer("ark:bad.ark") as writer:
        writer.write("whole", np.full((9, FEATURES.shape[1]), np.nan, np.float32))
        writer.write("u1", np.zeros((9, 3), np.float32))
        writer.write("u2", FEATURES[:9])
    outcome = cli.good(
        "ivector-extract-online2", "--config=plain_ivectors.conf", "ark:spk2utt", "ark:bad.ark", "ark:out"
    )
    assert "utterance 'whole' left out: its features have a NaN" in outcome.err
    assert "utterance 'u1' left out: features must be (frames, " in outcome.err
    assert "utterance 'nobody' left out: there are no features for it" in outcome.err
    assert "Estimated ivectors for 1 files, 4 with errors." in outcome.err
    shutil.copyfile("final.mat", "final.ie")
    for arguments, message in (
        (["--config=plain_ivectors.conf"], "final.ie"),
        (["--config=plain_ivectors.conf", "--lda-matrix=none.mat"], "final.ie"),
        (["--ivector-period=0"], "--ivector-period"),
        (["--diag-ubm=x"], "--ivector-extractor"),
    ):
        outcome = cli("ivector-extract-online2", *arguments, "ark:spk2utt", "scp:feats.scp", "ark:none")
        assert outcome.status in (1, 2)
        assert message in outcome.err
        assert not Path("none").exists()
