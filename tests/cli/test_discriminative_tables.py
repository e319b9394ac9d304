"""The verbs discriminative-*: what Kaldi's runs said of mistakes, and which statuses they ended with."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from nnet3.kaldi_io import int_vector_writer, open_int_vector_table
from tests.cli.run_command import Cli
from tests.discriminative.golden_discriminative import GOLDEN, needs_golden
from tests.road_case import run_line

pytestmark = needs_golden
#: Of Kaldi's statuses those of errors and assertions, which are 1 or, of command lines, 2 here.
_ERRORS = (255, 134)
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?")
_RUNS = (GOLDEN / "failures/failures.log").read_text().split("$ ")[1:] if GOLDEN.is_dir() else []


@pytest.fixture(scope="module")
def copy_of_mmi(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("failures")
    for name in ("start.mdl", "feats.ark", "ali.ark", "denlat.ark", "egs.ark", "merged.ark"):
        shutil.copy(GOLDEN / "mmi" / name, folder)
    assert run_line(f"nnet3-am-copy --raw=true {folder}/start.mdl {folder}/start.raw").status == 0
    alignments = dict(open_int_vector_table(f"ark:{folder}/ali.ark"))
    with (
        int_vector_writer(f"ark:{folder}/few_ali.ark") as few,
        int_vector_writer(f"ark:{folder}/short_ali.ark") as short,
    ):
        for number, (key, alignment) in enumerate(alignments.items()):
            short.write(key, alignment[: len(alignment) - (number == 0)])
            if number > 1:
                few.write(key, alignment)
    return folder


@pytest.mark.parametrize("run", _RUNS, ids=lambda run: run.splitlines()[0][:80])
def test_golden_failures(run: str, copy_of_mmi: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(copy_of_mmi)
    for name in ("x.raw", "x.ark", "empty.raw"):
        Path(name).unlink(missing_ok=True)
    line, *said = run.splitlines()
    ran = run_line(line)
    status = next((int(text.split()[2].rstrip(",")) for text in said if text.startswith("exit status")), 0)
    written = said[-1]
    assert ran.status == status if status not in _ERRORS else ran.status in (1, 2)
    if "not written" in written or status in _ERRORS:
        assert not Path("x.raw").exists()
        assert not Path("x.ark").exists()
    elif "written" in written:
        assert Path("x.raw").exists()
    left_out = {word for text in said if "WARNING" in text for word in re.findall(r"utt\d+", text)}
    assert {
        word for text in ran.err.splitlines() if "left out" in text for word in re.findall(r"utt\d+", text)
    } == left_out
    logged = [text.partition(") ")[2] if text.startswith("LOG") else text for text in said if "WARNING" not in text]
    for text in logged:
        if text.startswith(("Overall", "MMI", "Average", "Vector", " [")):
            found = next(
                own for own in ran.err.splitlines() if own.removeprefix("nnet3: ").startswith(_begin(text, ran.err))
            )
            expected, numbers = (
                [float(each) for each in _NUMBER.findall(one)] for one in (text, found.removeprefix("nnet3: "))
            )
            assert numbers == pytest.approx(expected, rel=1e-4, abs=1e-6)


def _begin(text: str, said: str) -> str:
    """What a line begins with, so that no other line does; vectors by their first number."""
    return " ".join(text.split(" ")[:3]) if text.startswith(" [") else text.partition(" is ")[0]


@pytest.mark.parametrize("phones", ["a", "1,4", "1:2.5", "1:b"])
def test_silence_phones_are_integers(cli: Cli, copy_of_mmi: Path, phones: str) -> None:
    outcome = cli("discriminative-compute-objf", f"--silence-phones={phones}", copy_of_mmi / "start.mdl", "ark:x")
    assert outcome.status == 2
    assert "it must be a list of integers" in outcome.err


def test_options_without_effect_are_taken(cli: Cli, copy_of_mmi: Path) -> None:
    """Those that Kaldi's programs have, too."""
    egs = f"ark:{copy_of_mmi}/merged.ark"
    options = ("--compute-deriv=true", "--compute-accuracy=false", "--use-gpu=no")
    cli.good("discriminative-compute-objf", *options, copy_of_mmi / "start.mdl", egs)
    cli.good("discriminative-compute-from-egs", "--binary=false", copy_of_mmi / "start.raw", egs, "ark:/dev/null")
    said = cli.good("discriminative-train", copy_of_mmi / "start.mdl", egs, copy_of_mmi / "trained.raw").err
    assert f"Wrote raw nnet model to {copy_of_mmi}/trained.raw" in said


def test_a_raw_network_has_no_transitions(cli: Cli, copy_of_mmi: Path) -> None:
    outcome = cli(
        "discriminative-train", copy_of_mmi / "start.raw", f"ark:{copy_of_mmi}/merged.ark", copy_of_mmi / "x.raw"
    )
    assert outcome.status == 1
    assert "an acoustic model (.mdl) is needed" in outcome.err


def test_examples_of_another_model(cli: Cli, copy_of_mmi: Path) -> None:
    model = GOLDEN / "smbr_silence/start.mdl"
    outcome = cli("discriminative-compute-objf", model, f"ark:{copy_of_mmi}/merged.ark")
    assert outcome.status == 1
    assert "merged.ark" in outcome.err


def test_subsets_and_random_order(cli: Cli, copy_of_mmi: Path) -> None:
    egs, out = f"ark:{copy_of_mmi}/egs.ark", copy_of_mmi / "some.ark"
    assert "5 examples taken" in cli.good("discriminative-subset-egs", "--n=5", egs, f"ark:{out}").err
    assert "14 examples shuffled" in cli.good("discriminative-shuffle-egs", "--srand=3", egs, f"ark:{out}").err
    assert out.stat().st_size == pytest.approx((copy_of_mmi / "egs.ark").stat().st_size)
    first, second = copy_of_mmi / "1.ark", copy_of_mmi / "2.ark"
    cli.good("discriminative-copy-egs", "--random=true", egs, f"ark:{first}", f"ark:{second}")
    assert first.stat().st_size + second.stat().st_size == out.stat().st_size


def test_damaged_examples_are_named(cli: Cli, copy_of_mmi: Path) -> None:
    contents = (copy_of_mmi / "egs.ark").read_bytes()
    (copy_of_mmi / "cut.ark").write_bytes(contents[: len(contents) // 2])
    outcome = cli("discriminative-copy-egs", f"ark:{copy_of_mmi}/cut.ark", f"ark:{copy_of_mmi}/y.ark")
    assert outcome.status == 1
    assert re.search(r"cut.ark: .*utt00", outcome.err)
    assert not (copy_of_mmi / "y.ark").exists()


def test_chunks_of_one_row_are_refused(cli: Cli, copy_of_mmi: Path) -> None:
    tables = [f"ark:{copy_of_mmi}/{name}.ark" for name in ("feats", "denlat", "ali", "new")]
    outcome = cli("discriminative-get-egs", copy_of_mmi / "start.mdl", *tables)
    assert outcome.status == 1
    assert "nnet3: --num-frames must be at least 2, such as 150, or -1, got 1" in outcome.err
    assert not (copy_of_mmi / "new.ark").exists()


def test_an_alignment_of_another_model(cli: Cli, copy_of_mmi: Path, tmp_path: Path) -> None:
    with int_vector_writer(f"ark:{tmp_path}/ali.ark") as table:
        for key, alignment in open_int_vector_table(f"ark:{copy_of_mmi}/ali.ark"):
            table.write(key, alignment + np.int32(1000))
    tables = [f"ark:{copy_of_mmi}/{name}.ark" for name in ("feats", "denlat")]
    outcome = cli(
        "discriminative-get-egs",
        "--num-frames=20",
        copy_of_mmi / "start.mdl",
        *tables,
        f"ark:{tmp_path}/ali.ark",
        "ark:-",
    )
    assert outcome.status == 1
    assert "is this the model that made it?" in outcome.err
