"""Options of verbs about training examples: their defaults are Kaldi's."""

from __future__ import annotations

from typing import Any

import pytest

from cli.declared import check_ignored, check_options, parsed

CHUNKS: dict[str, tuple[Any, Any]] = {
    "--left-context": (0, 0),
    "--right-context": (0, 0),
    "--left-context-initial": (-1, None),
    "--right-context-final": (-1, None),
    "--num-frames": ("1", None),
    "--num-frames-overlap": (0, 0),
    "--frame-subsampling-factor": (1, 1),
}
NOT_SHOWN = [
    "--left-context",
    "--right-context",
    "--left-context-initial",
    "--right-context-final",
    "--num-frames-overlap",
]
INPUTS: dict[str, tuple[Any, Any]] = {
    **CHUNKS,
    "--online-ivectors": (None, None),
    "--ivectors": (None, None),
    "--online-ivector-period": (1, 1),
    "--compress": (True, None),
    "--length-tolerance": (100, 0),
    "--srand": (0, None),
}
TOLERANCE = {"--targets-length-tolerance": (2, 0)}
SCALE = {"--normalization-fst-scale": (1.0, 0)}


@pytest.mark.parametrize(
    ("verb", "options"),
    [
        ("get-egs", INPUTS | TOLERANCE | {"--pdf-alignments": (False, None)}),
        ("get-egs-dense-targets", INPUTS | TOLERANCE | {"--num-targets": (-1, None)}),
        ("chain-get-egs", INPUTS | SCALE | {"--supervision-length-tolerance": (1, 0), "--long-key": (False, None)}),
        ("chain-e2e-get-egs", INPUTS | SCALE),
        ("chain-normalize-egs", SCALE),
    ],
)
def test_making(verb: str, options: dict[str, tuple[Any, Any]]) -> None:
    check_options(verb, options, not_shown=[*NOT_SHOWN, "--num-targets"])


@pytest.mark.parametrize(("verb", "size"), [("merge-egs", "256"), ("chain-merge-egs", "64")])
def test_merging(verb: str, size: str) -> None:
    check_options(verb, {"--minibatch-size": (size, None), "--compress": (False, None)})
    check_ignored(verb, "--measure-output-frames=false", "--discard-partial-minibatches=true")


@pytest.mark.parametrize("kind", ["", "chain-"])
def test_shuffling_taking_and_copying(kind: str) -> None:
    check_options(f"{kind}shuffle-egs", {"--srand": (0, None), "--buffer-size": (0, 0)})
    taking = {"--srand": (0, None), "--n": (1000, 1), "--randomize-order": (True, None)}
    check_options(f"{kind}subset-egs", taking)
    copying = {
        "--random": (False, None),
        "--keep-proportion": (1.0, None),
        "--srand": (0, None),
        "--frame-shift": (0, None),
        "--left-context": (-1, -1),
        "--right-context": (-1, -1),
        "--weights": (None, None),
        "--outputs": (None, None),
    }
    check_options(f"{kind}copy-egs", copying, not_shown=["--frame-shift", "--left-context", "--right-context"])


@pytest.mark.parametrize("kind", ["", "chain-"])
def test_what_is_read_and_written(kind: str) -> None:
    for verb in ("merge-egs", "shuffle-egs", "subset-egs"):
        given = parsed(f"{kind}{verb}")
        assert (given["examples"], given["output"]) == ("a", "a")
    assert parsed(f"{kind}copy-egs", "b", "c")["outputs_to_write"] == ("c", "a", "a")
    assert parsed(f"{kind}copy-egs", "b", "c")["examples"] == "b"
