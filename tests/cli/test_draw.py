"""`nnet3 draw`: files of each form, networks unrolled, and what is refused."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest

from nnet3.cli import main
from tests.cli.run_command import CONFIG, Cli


@pytest.fixture(autouse=True)
def _no_graphviz(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", os.devnull)


def texts(path: str) -> list[str]:
    """What a picture says, in its order."""
    return [element.text or "" for element in ElementTree.parse(path).iter("{http://www.w3.org/2000/svg}text")]


def test_svg_of_a_model_and_of_a_config(cli: Cli) -> None:
    cli.good("draw", "net.raw", "model.svg")
    cli.good("draw", "net.config", "config.svg")
    assert "AffineComponent" not in Path("model.svg").read_text()
    said = texts("model.svg")
    assert {"net.raw", "t-1, t"} <= set(said)
    assert any(text.endswith("Affine 6 -> 4") for text in said)
    assert texts("config.svg") == [text.replace("net.raw", "net.config") for text in said]


def test_dot_and_png(cli: Cli) -> None:
    cli.good("draw", "net.raw", "model.dot")
    cli.good("draw", "net.raw", "model.PNG")
    assert Path("model.dot").read_text().startswith("digraph {")
    assert Path("model.PNG").read_bytes().startswith(b"\x89PNG")


def test_unrolled_networks_show_each_frame(cli: Cli) -> None:
    cli.good("draw", "--unroll=0:2", "net.raw", "unrolled.svg")
    assert texts("unrolled.svg").count("input") == 4
    assert texts("unrolled.svg").count("output") == 3
    cli.good("draw", "--unroll=0:2", "--input=0:9", "net.raw", "unrolled.svg")
    assert texts("unrolled.svg").count("output") == 2


def test_unrolled_with_the_context_on_both_sides(cli: Cli) -> None:
    Path("wide.config").write_text(
        CONFIG.replace("Append(Offset(input, -1), input)", "Append(input, Offset(input, 4))")
    )
    cli.good("draw", "--unroll=2", "wide.config", "unrolled.svg")
    assert texts("unrolled.svg").count("input") == 2
    assert texts("unrolled.svg").count("output") == 1
    outcome = cli("draw", "--unroll=2", "--input=2:5", "wide.config", "unrolled.svg")
    assert "no output can be computed at t = 2 to 2" in outcome.err
    cli.good("draw", "--unroll=2", "--input=2:6", "wide.config", "unrolled.svg")


def test_to_standard_output(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    for source in ("net.config", "-"):
        given, taken = io.BytesIO(Path("net.config").read_bytes()), io.BytesIO()
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdin", SimpleNamespace(buffer=given))
            patch.setattr(sys, "stdout", SimpleNamespace(buffer=taken, flush=lambda: None, isatty=lambda: False))
            with pytest.raises(SystemExit) as end:
                main(["draw", source, "-"])
        assert end.value.code == 0
        Path("taken.svg").write_bytes(taken.getvalue())
        assert ("net.config" in texts("taken.svg")) == (source != "-")


def test_every_node_can_be_drawn(cli: Cli) -> None:
    cli.good("draw", "--every-node", "net.raw", "nodes.svg")
    assert "softmax" in texts("nodes.svg")


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["net.raw", "picture.gif"], 2, "must end in .svg, .png, .dot, got 'picture.gif'"),
        (["--unroll=2:1", "net.raw", "out.svg"], 2, "--unroll must be FIRST:LAST such as 0:3, got '2:1'"),
        (["--input=2:3", "net.raw", "out.svg"], 2, "give both"),
        (["--unroll=0:2", "--input=50:60", "net.raw", "out.svg"], 1, "no output can be computed at t = 0 to 2"),
        (["--unroll=1:x", "net.raw", "out.svg"], 2, "--unroll must be FIRST:LAST such as 0:3, got '1:x'"),
        (["--unroll=1", "--input=3:2", "net.raw", "out.svg"], 2, "--input must be FIRST:LAST such as 0:3, got '3:2'"),
        (["nofile", "out.svg"], 1, "nofile: No such file or directory"),
    ],
)
def test_what_is_refused(cli: Cli, arguments: list[str], status: int, message: str) -> None:
    outcome = cli("draw", *arguments)
    assert outcome.status == status
    assert message in outcome.err
    assert not Path("out.svg").exists()
