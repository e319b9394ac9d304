"""Options that several verbs share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest

from nnet3.cli.options import KALDI_BOOL, TRUTHS, caching_options
from tests.cli.check_options import check_ignored, check_options
from tests.cli.run_command import Cli
from tests.shared_data import GOLDEN, needs_shared

BINARY = {"--binary": (True, None)}
MODES = {"--dropout-test-mode": (True, None)}
EVALUATIONS = {"--max-objective-evaluations": (30, 1)}
TABLES: dict[str, dict[str, tuple[Any, Any]]] = {
    "init": BINARY | {"--srand": (0, None)},
    "info": {"--kaldi": (False, None), "--print-learning-rates": (False, None)},
    "am-info": {"--kaldi": (False, None), "--print-learning-rates": (False, None)},
    "copy": BINARY,
    "am-copy": BINARY,
    "train": BINARY | {"--read-cache": (None, None), "--write-cache": (None, None)},
    "compute-prob": MODES | {"--batchnorm-test-mode": (True, None)},
    "chain-compute-prob": MODES | {"--batchnorm-test-mode": (True, None)},
    "combine": BINARY | MODES | EVALUATIONS | {"--batchnorm-test-mode": (False, None)},
    "chain-combine": BINARY | MODES | EVALUATIONS | {"--batchnorm-test-mode": (False, None)},
}


@pytest.mark.parametrize("verb", TABLES)
def test_defaults_and_bounds(verb: str) -> None:
    check_options(verb, TABLES[verb])


def test_truths_are_those_of_click() -> None:
    assert {word: KALDI_BOOL.convert(word, None, None) for word in TRUTHS} == {
        word: word in ("true", "t", "yes", "y", "on", "1") for word in TRUTHS
    }


def test_files_of_compiled_computations() -> None:
    @click.command()
    @caching_options
    @click.option("--own", type=int, default=1)
    def command(**given: Any) -> dict[str, Any]:
        return given

    assert command.main([], standalone_mode=False) == {"own": 1, "cache_files": (None, None)}
    words = ["--read-cache=a", "--write-cache=b", "--binary-write-cache=true", "--own=2"]
    assert command.main(words, standalone_mode=False) == {"own": 2, "cache_files": ("a", "b")}
    check_ignored("train", "--binary-write-cache=true")


@pytest.mark.parametrize(
    ("verb", "option"),
    [
        ("lattice-lmrescore", "--num-states-cache=1000"),
        ("rnnlm-get-egs", "--num-threads-total=2"),
        ("rnnlm-get-sampling-lm", "--brk-symbol=3"),
        ("discriminative-merge-egs", "--multilingual-eg=true"),
        ("merge-egs", "--multilingual-eg=true"),
    ],
)
def test_options_that_are_taken_and_change_nothing(verb: str, option: str) -> None:
    check_ignored(verb, option)


@needs_shared
@pytest.mark.parametrize("option", ["--batchnorm-test-mode", "--dropout-test-mode"])
@pytest.mark.parametrize(
    ("verb", "files"),
    [
        ("compute-prob", "plain {egs}"),
        ("show-progress", "start plain {egs}"),
        ("combine", "plain start {egs} out"),
        ("chain-compute-prob", "plain {den} {egs}"),
        ("chain-combine", "{den} plain start {egs} out"),
    ],
)
def test_modes_matter_to_the_objective(cli: Cli, verb: str, files: str, option: str) -> None:
    name, last, dim = ("chain/mono", "affine", 24) if verb.startswith("chain") else ("train/tdnn", "log-softmax", 10)
    Path("dropout.config").write_text(
        f"component name=dropout type=DropoutComponent dim={dim} dropout-proportion=0.5\n"
        f"component-node name=dropout component=dropout input=output.{last}\n"
        "output-node name=output input=dropout objective=linear\n"
    )
    for model in ("plain", "start"):
        cli.good("copy", "--nnet-config=dropout.config", GOLDEN / name / f"{model}.raw", model)
    words = files.format(den=GOLDEN / name / "den.fst", egs=f"ark:{GOLDEN / name}/merged.ark").split()
    first, second = (cli.good(verb, f"{option}={mode}", *words).err for mode in ("true", "false"))
    assert first != second
