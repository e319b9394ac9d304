"""info() and contexts against Kaldi's, and contexts worked out by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import nnet3
from nnet3.errors import NetworkError
from tests.components.golden_harness import assert_same_words
from tests.shared_data import golden_cases

CASES = golden_cases("random") + golden_cases("recipe")


@pytest.mark.parametrize("folder", CASES, ids=lambda folder: f"{folder.parent.name}-{folder.name}")
def test_info_and_context_equal_kaldis(folder: Path) -> None:
    nnet = nnet3.load(folder / "model.raw")
    context = folder / "context.json"
    if context.exists() and nnet.is_simple:
        wanted = json.loads(context.read_text())
        assert (nnet.left_context, nnet.right_context) == (wanted["left"], wanted["right"])
    mine, theirs = nnet.info().strip().split("\n"), (folder / "info.txt").read_text().strip().split("\n")
    assert len(mine) == len(theirs)
    for my_line, their_line in zip(mine, theirs, strict=True):
        if their_line.startswith("component name="):
            assert_same_words(my_line, their_line, "component")
        else:
            assert my_line == their_line


@pytest.mark.parametrize("folder", CASES, ids=lambda folder: f"{folder.parent.name}-{folder.name}")
def test_the_configs_give_the_nodes_of_the_model(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [path.read_text() for path in sorted(folder.glob("config_*.txt"))]
    monkeypatch.chdir(folder)  # configs name files in it
    nnet = nnet3.Nnet.from_config(texts[0])
    for text in texts[1:]:
        nnet.apply_config(text)
    model = nnet3.load(folder / "model.raw")
    assert nnet.config_lines(dims=True) == model.config_lines(dims=True)
    assert [(name, c.type_name) for name, c in nnet.components.items()] == [
        (name, c.type_name) for name, c in model.components.items()
    ]


def net(text: str) -> nnet3.Nnet:
    head = "input-node name=input dim=1\ncomponent name=noop type=NoOpComponent dim=1\n"
    return nnet3.Nnet.from_config(f"{head}{text}")


@pytest.mark.parametrize(
    ("nodes", "left", "right", "modulus"),
    [
        ("output-node name=output input=Append(Offset(input,-2), input, Offset(input,1))", 2, 1, 1),
        ("output-node name=output input=input", 0, 0, 1),
        ("output-node name=output input=Offset(input, 3)", 0, 3, 1),
        ("output-node name=output input=Offset(input, -50)", 50, 0, 1),
        ("output-node name=output input=Round(input, 3)", 2, 0, 3),
        ("output-node name=output input=Round(Offset(input, 1), 3)", 1, 1, 3),
        ("output-node name=output input=Switch(Offset(input, -1), Offset(input, 2))", 1, 2, 2),
        ("output-node name=output input=Sum(input, IfDefined(Offset(input, -7)))", 0, 0, 1),
        ("output-node name=output input=Failover(Offset(input, -7), input)", 0, 0, 1),
        ("component-node name=a component=noop input=Sum(input, IfDefined(Offset(a, -3)))\n"
         "output-node name=output input=Offset(a, 2)", 0, 2, 1),
        ("input-node name=ivector dim=1\noutput-node name=output input=Append(Offset(input, 1), Round(ivector, 10))",
         0, 1, 10),
    ],
)  # fmt: skip
def test_info_begins_with_the_context(nodes: str, left: int, right: int, modulus: int) -> None:
    nnet = net(nodes)
    assert (nnet.left_context, nnet.right_context, nnet.modulus) == (left, right, modulus)
    assert nnet.info().startswith(
        f"left-context: {left}\nright-context: {right}\nnum-parameters: 0\nmodulus: {modulus}\n"
    )


@pytest.mark.parametrize(
    "nodes",
    [
        "component-node name=a component=noop input=Sum(input, Offset(a, -1))\noutput-node name=output input=a",
    ],
)
def test_a_network_that_computes_nothing_has_no_context(nodes: str) -> None:
    with pytest.raises(NetworkError, match="no output is computable, however much input is given"):
        _ = net(nodes).left_context


@pytest.mark.parametrize(
    "text",
    [
        "input-node name=input dim=1\noutput-node name=out input=input",
        "input-node name=in dim=1\noutput-node name=output input=in",
        "input-node name=input dim=1\ninput-node name=other dim=1\noutput-node name=output input=Append(input, other)",
    ],
)
def test_networks_that_are_not_simple_have_no_context(text: str) -> None:
    nnet = nnet3.Nnet.from_config(text)
    assert not nnet.is_simple
    assert nnet.info().startswith("num-parameters: 0\n")
    with pytest.raises(NetworkError, match="left and right context are those of simple networks"):
        _ = nnet.right_context
