"""chain-train2, chain-combine2 and keys with languages: with one language they do what the plain verbs do."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

from nnet3 import load_nnet
from nnet3.chain import CHAIN_EXAMPLES
from nnet3.examples import ExampleReader
from nnet3.training.chain.changes import language_of_key
from tests.cli.run_command import Cli
from tests.shared_data import GOLDEN, needs_shared

MONO = GOLDEN / "chain" / "mono"
OPTIONS = ("--leaky-hmm-coefficient=0.1", "--xent-regularize=0.1")


@pytest.mark.parametrize(
    ("key", "language"),
    [
        ("merged-0-64?lang=fr", "fr"),
        ("a?lang=x?tw=1&lang=de", "de"),
        ("a?mylang=x&lang=", ""),
        ("a?tw=0.5", "default"),
        ("lang=fr", "default"),
    ],
)
def test_languages_of_keys(key: str, language: str) -> None:
    assert language_of_key(key) == language


def _renamed(cli: Cli, model: Path, language: str, output: str) -> None:
    edits = [f"rename-node old-name=output{end} new-name=output-{language}{end}" for end in ("", "-xent")]
    cli.good("copy", f"--edits={'; '.join(edits)}", model, output)


def _check_same(ours: str, theirs: str) -> None:
    one, other = (load_nnet(name).flat_parameters() for name in (ours, theirs))
    assert all(torch.equal(*pair) for pair in zip(one, other, strict=True))


@needs_shared
@pytest.mark.parametrize("language", ["default", "fr"])
def test_one_language_is_as_none(cli: Cli, language: str) -> None:
    """With keys that name it, or, of the language `default`, do not."""
    Path("dens").mkdir()
    shutil.copy(MONO / "den.fst", f"dens/{language}.den.fst")
    shutil.copy(MONO / "den.fst", "dens/of-no-output.den.fst")
    for number, name in enumerate(("start.raw", "plain.raw")):
        _renamed(cli, MONO / name, language, f"{number}.raw")
    egs = f"ark:{MONO}/merged.ark"
    if language == "fr":
        cli.good("chain-copy-egs", egs, "ark,scp:copied.ark,plain.scp")
        lines = [line.split() for line in Path("plain.scp").read_text().splitlines()]
        Path("egs.scp").write_text("".join(f"{key}?lang=fr {place}\n" for key, place in lines))
    given = "scp:egs.scp" if language == "fr" else egs
    said = cli.good("chain-train2", *OPTIONS, "0.raw", "dens", given, "ours.raw").err
    assert f"Overall average objective function for 'output-{language}' is" in said
    assert f"Overall average objective function for 'output-{language}-xent' is" in said
    cli.good("chain-train", *OPTIONS, MONO / "start.raw", MONO / "den.fst", egs, "theirs.raw")
    _check_same("ours.raw", "theirs.raw")
    combined = ("--leaky-hmm-coefficient=0.1",)
    cli.good("chain-combine2", *combined, "dens", "1.raw", "0.raw", given, "ours.raw")
    models = (MONO / "plain.raw", MONO / "start.raw")
    cli.good("chain-combine", *combined, MONO / "den.fst", *models, egs, "theirs.raw")
    _check_same("ours.raw", "theirs.raw")


@needs_shared
def test_keys_of_minibatches_name_their_language(cli: Cli) -> None:
    egs = f"ark:{MONO}/egs.ark"
    names = "".join(f"{key} output-fr\n" for key, _ in ExampleReader(egs, CHAIN_EXAMPLES))
    Path("names").write_text(names)
    cli.good("chain-copy-egs", "--outputs=ark:names", egs, "ark:fr.ark")
    for source, mark in (("ark:fr.ark", "?lang=fr"), (egs, "")):
        cli.good("chain-merge-egs", "--minibatch-size=1:8", "--multilingual-eg=true", source, "ark:ours.ark")
        cli.good("chain-merge-egs", "--minibatch-size=1:8", source, "ark:plain.ark")
        ours, plain = ([key for key, _ in ExampleReader(f"ark:{n}.ark", CHAIN_EXAMPLES)] for n in ("ours", "plain"))
        assert ours == [f"{key}{mark}" for key in plain]


@needs_shared
def test_examples_are_merged_by_the_language_of_their_keys_as_in_kaldi(cli: Cli) -> None:
    """Kaldi's recipes write ?lang= behind the keys of examples of several languages, all of `output`."""
    cli.good("chain-copy-egs", f"ark:{MONO}/egs.ark", "ark,scp:copied.ark,plain.scp")
    lines = [line.split() for line in Path("plain.scp").read_text().splitlines()]
    marks = ("?lang=fr", "?lang=de", "?tw=1")
    Path("egs.scp").write_text("".join(f"{key}{marks[n % 3]} {place}\n" for n, (key, place) in enumerate(lines)))
    cli.good("chain-merge-egs", "--minibatch-size=1:100", "--multilingual-eg=true", "scp:egs.scp", "ark:ours.ark")
    found: dict[str, list[int]] = {}
    for key, example in ExampleReader("ark:ours.ark", CHAIN_EXAMPLES):
        (target,) = example.outputs
        found.setdefault(target.name, []).append(target.supervision.num_sequences)
        assert key.partition("?")[2] == (
            "" if target.name == "output" else f"lang={target.name.removeprefix('output-')}"
        )
    assert {name: sum(counts) for name, counts in found.items()} == {
        name: len(lines[first::3]) for first, name in enumerate(("output-fr", "output-de", "output"))
    }


@needs_shared
def test_languages_that_are_missing(cli: Cli) -> None:
    egs = f"ark:{MONO}/merged.ark"
    Path("dens").mkdir()
    outcome = cli("chain-train2", MONO / "start.raw", "dens", egs, "x.raw")
    assert outcome.status == 1
    wanted = (
        "expected a folder with LANG.den.fst for an output output-LANG of the network, which has output, output-xent"
    )
    assert wanted in outcome.err
    shutil.copy(MONO / "den.fst", "dens/fr.den.fst")
    _renamed(cli, MONO / "start.raw", "fr", "0.raw")
    outcome = cli("chain-train2", "0.raw", "dens", egs, "x.raw")
    assert (outcome.status, "no denominator for output 'output-default', but for output-fr" in outcome.err) == (1, True)
    outcome = cli("chain-combine2", "dens", "0.raw", egs)
    assert (outcome.status, "give the denominator graphs, at least one network" in outcome.err) == (2, True)
