"""What pictures of networks show: layers, dimensions, descriptors, times, recurrences; networks unrolled in time."""

from __future__ import annotations

import os
import textwrap
from pathlib import Path

import pytest

from nnet3.base.drawing import Arc, Graph, to_svg
from nnet3.model.nnet import Nnet, load_nnet
from nnet3.model.nnet.picture import network_graph
from tests.effort import EFFORT, at_night
from tests.nnet.drawn_networks import RNN, TDNN
from tests.shared_data import GOLDEN, golden_cases, needs_shared


def _titles(graph: Graph) -> dict[str, str]:
    return {box.id: box.lines[0] for box in graph.nodes}


def _arcs(graph: Graph) -> set[tuple[str, str, str, bool]]:
    titles = _titles(graph)
    return {(titles[arc.a], titles[arc.b], arc.label, arc.is_delay) for arc in graph.arcs}


def test_layers_are_boxes_and_arcs_say_which_times() -> None:
    graph = network_graph(Nnet.from_config(TDNN).parts, "tdnn")
    assert graph.title == "tdnn"
    assert [(box.lines[0], box.kind) for box in graph.nodes] == [
        ("input", "input"),
        ("ivector", "input"),
        ("tdnn1", "trained"),
        ("tdnn2", "trained"),
        ("tdnn2.noop", "function"),
        ("output", "output"),
    ]
    assert _arcs(graph) == {
        ("input", "tdnn1", "t-1, t+2", False),
        ("ivector", "tdnn1", "at t = 0", False),
        ("tdnn1", "tdnn2", "", False),
        ("tdnn1", "tdnn2.noop", "scale 0.5", False),
        ("tdnn2", "tdnn2.noop", "", False),
        ("tdnn2.noop", "output", "t rounded to 3", False),
    }
    lines = {box.lines[0]: box.lines[1:] for box in graph.nodes}
    assert lines["tdnn2"] == ("linear: Tdnn 6 -> 2; t-1, t", "affine: Tdnn 2 -> 6; t, t+3")
    assert lines["tdnn2.noop"] == ("Sum(Scale(0.5, tdnn1.relu), tdnn2.affine)", "NoOp 6, component noop")
    assert lines["tdnn1"][-2:] == ("affine: Affine 11 -> 6", "relu: RectifiedLinear 6")
    assert lines["output"] == ("Round(tdnn2.noop, 3)", "output, dim 6, linear")


def test_every_node_has_a_box_of_its_own() -> None:
    graph = network_graph(Nnet.from_config(TDNN).parts, every_node=True)
    assert [box.lines[0] for box in graph.nodes][2:6] == ["tdnn1.affine", "tdnn1.relu", "tdnn2.linear", "tdnn2.affine"]


def test_recurrences_are_delays() -> None:
    graph = network_graph(Nnet.from_config(RNN).parts)
    assert _arcs(graph) == {
        ("input", "sum + h", "", False),
        ("sum + h", "sum + h", "t-1 if defined", True),
        ("sum + h", "output", "t+1", False),
    }
    assert graph.nodes[1].kind == "memory"


@pytest.mark.parametrize(
    ("descriptor", "label"),
    [
        ("Offset(input, 3)", "t+3"),
        ("Append(input, Offset(input, -1), Offset(input, 1))", "t-1, t, t+1"),
        ("Append(Offset(input, -6), Offset(input, -4), Offset(input, -2), input, Offset(input, 2), Offset(input, 4))",
         "t-6 .. t+4 every 2"),
        ("Failover(Offset(input, 1), input)", "t+1 if defined; else"),
        ("IfDefined(Scale(2, input))", "scale 2 if defined"),
        ("Switch(input, Offset(input, 1))", "t mod 2 = 0, t mod 2 = 1+1"),
        ("Round(Offset(input, 1), 3)", "t rounded to 3+1"),
        ("Offset(Round(input, 3), 1)", "t+1 rounded to 3"),
        ("Offset(input, 0, 1)", "x+1"),
        ("Append(input, Round(input, 3))", "t, t rounded to 3"),
        ("Append(Offset(input, 1), Round(input, 3))", "t+1, t rounded to 3"),
        ("Append(Scale(0.5, input), Offset(input, 1), Scale(0.5, Offset(input, 2)))", "t, t+2 scale 0.5; t+1"),
        ("Switch(Offset(input, 2))", "t+2"),
        ("ReplaceIndex(input, x, 3)", "at x = 3"),
        ("Sum(Failover(Offset(input, 3), input), Const(2, 1))", "t+3 if defined; else"),
    ],
)  # fmt: skip
def test_arcs_are_labelled_with_offsets(descriptor: str, label: str) -> None:
    config = f"input-node name=input dim=1\noutput-node name=output input={descriptor}"
    (arc,) = network_graph(Nnet.from_config(config).parts).arcs
    assert arc.label == label


def test_two_pieces_of_one_layer_have_names_of_their_own() -> None:
    config = """
        input-node name=input dim=3
        component name=noop type=NoOpComponent dim=3
        component-node name=lstm.a component=noop input=input
        component-node name=lstm.b component=noop input=lstm.a
        component-node name=lstm.c component=noop input=Sum(lstm.b, input)
        component-node name=lstm.d component=noop input=lstm.c
        output-node name=output input=lstm.d
    """
    titles = list(_titles(network_graph(Nnet.from_config(config).parts)).values())
    assert titles == ["input", "lstm.a + lstm.b", "lstm.c + lstm.d", "output"]


def test_what_others_take_columns_of_stays_apart() -> None:
    config = """
        input-node name=input dim=3
        component name=noop type=NoOpComponent dim=3
        component-node name=a component=noop input=input
        component-node name=b component=noop input=a
        dim-range-node name=part input-node=a dim=1 dim-offset=0
        output-node name=output input=Append(b, part)
    """
    titles = list(_titles(network_graph(Nnet.from_config(config).parts)).values())
    assert titles == ["input", "a", "b", "part", "output"]


@pytest.mark.parametrize(("length", "left_out"), [(3, 0), (12, 0), (13, 0), (14, 2), (100, 88)])
def test_a_long_chain_is_one_box_of_some_lines(length: int, left_out: int) -> None:
    """One line in the place of one would tell less."""
    lines = ["input-node name=input dim=3", "component name=k type=NoOpComponent dim=3"]
    lines += [f"component-node name=n{k} component=k input={f'n{k - 1}' if k else 'input'}" for k in range(length)]
    graph = network_graph(Nnet.from_config("\n".join([*lines, f"output-node name=output input=n{length - 1}"])).parts)
    (box,) = (box for box in graph.nodes if box.kind == "function")
    said = [f"n{k}: NoOp 3, component k" for k in range(length)]
    if left_out:
        said[6:-6] = [f"... {left_out} more ..."]
    assert box.lines == (f"n0 .. n{length - 1}", *said)


@pytest.mark.parametrize("count", [1, 2, 5, 9, 10, 12, 40])
def test_a_long_descriptor_takes_four_lines(count: int) -> None:
    """Of 52 characters at most."""
    descriptor = f"Append({', '.join(f'Offset(input, {10 + 90 * (k % 3 > 0) + k})' for k in range(count))})"
    graph = network_graph(
        Nnet.from_config(f"input-node name=input dim=1\noutput-node name=output input={descriptor}").parts
    )
    wrapped = textwrap.wrap(descriptor if count > 1 else "Offset(input, 10)", 52)
    shown = wrapped if len(wrapped) <= 4 else [*wrapped[:4], "..."]
    assert graph.nodes[1].lines == ("output", *shown, f"output, dim {count}, linear")
    assert graph.nodes[1].tooltip.startswith("input = " + wrapped[0])


def test_a_mask_does_not_look_at_its_input() -> None:
    config = """
        input-node name=input dim=3
        component name=mask type=DropoutMaskComponent output-dim=3
        component-node name=mask component=mask input=mask
        output-node name=output input=Sum(input, mask)
    """
    assert {(arc.a, arc.b) for arc in network_graph(Nnet.from_config(config).parts).arcs} == {("0", "2"), ("1", "2")}


@needs_shared
@pytest.mark.parametrize("name", ["tdnnf", *at_night("tdnn_lstm", "blstm", "tdnn_opgru")])
def test_large_recipes_can_be_drawn(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(GOLDEN / "bench" / name)
    monkeypatch.setenv("PATH", os.devnull)
    graph = network_graph(Nnet.from_config_file("final.config").parts)
    assert 20 < len(graph.nodes) < 80
    assert any(arc.is_delay for arc in graph.arcs) == (name != "tdnnf")
    assert "<svg" in to_svg(graph)


@pytest.mark.parametrize(
    "folder",
    (golden_cases("recipe") + golden_cases("random")[:30])[:: 3 if EFFORT == 1 else 1],
    ids=lambda folder: folder.name,
)
def test_networks_of_every_kind_can_be_drawn(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", os.devnull)
    graph = network_graph(load_nnet(folder / "model.raw").parts)
    assert to_svg(graph).count('class="edge"') == len(graph.arcs)
    assert all(isinstance(arc, Arc) for arc in graph.arcs)
