"""What the directives do to settings, names and orphans."""

from __future__ import annotations

import pytest
import torch

from nnet3 import Nnet
from nnet3.errors import ConfigError
from nnet3.model.edits.edits import apply_edits
from tests.edits.edited_network import CONFIG, edited_network, node_names
from tests.nnet.run_network import simple_output

ORPHANS = """
input-node name=one dim=3
input-node name=two dim=3
input-node name=input dim=3
input-node name=three dim=3
component name=unused type=AffineComponent input-dim=3 output-dim=3
component name=used type=AffineComponent input-dim=3 output-dim=3
component name=relu type=RectifiedLinearComponent dim=3
component-node name=relu component=relu input=Sum(one, two)
component-node name=used component=used input=input
output-node name=output input=used
"""


# ---- settings ----


def test_learning_rate_is_multiplied_by_the_factor() -> None:
    nnet = edited_network()
    assert apply_edits(nnet, "set-learning-rate name=tdnn* learning-rate=0.1") == []
    rates = {name: nnet.components[name].learning_rate for name in ("tdnn1.affine", "tdnn2.affine", "final")}
    assert rates == pytest.approx({"tdnn1.affine": 0.05, "tdnn2.affine": 0.1, "final": 0.02})


def test_learning_rate_factor_waits_for_the_next_learning_rate() -> None:
    nnet = edited_network()
    final = nnet.components["final"]
    apply_edits(nnet, "set-learning-rate-factor learning-rate-factor=3")
    assert (final.learning_rate_factor, final.learning_rate) == (3.0, 0.02)
    apply_edits(nnet, "set-learning-rate learning-rate=0.1")
    assert final.learning_rate == pytest.approx(0.3)
    assert nnet.components["final"] is final


def test_dropout_proportion_of_the_three_types() -> None:
    config = CONFIG + (
        "component name=mask type=DropoutMaskComponent output-dim=3\n"
        "component name=general type=GeneralDropoutComponent dim=6\n"
        "component name=time type=SpecAugmentTimeMaskComponent dim=6 zeroed-proportion=0.3\n"
    )
    nnet = Nnet.from_config(config)
    assert apply_edits(nnet, "set-dropout-proportion proportion=0.125") == []
    got = {
        name: component.dropout_proportion
        for name, component in nnet.components.items()
        if component.dropout_proportion is not None
    }
    assert got == {"tdnn1.dropout": 0.125, "mask": 0.125, "general": 0.125}


@pytest.mark.parametrize(
    ("pattern", "matched"),
    [
        ("*", "tdnn1.affine tdnn2.affine final"),
        ("**", "tdnn1.affine tdnn2.affine final"),
        ("tdnn*", "tdnn1.affine tdnn2.affine"),
        ("*1*affine", "tdnn1.affine"),
        ("final", "final"),
        ("final*", "final"),
        ("*n*", "tdnn1.affine tdnn2.affine final"),
        ("tdnn1xaffine", ""),
        ("tdnn?.affine", ""),
        ("dnn*", ""),
        ("fina", ""),
    ],
)
def test_patterns_match_whole_names(pattern: str, matched: str) -> None:
    nnet = edited_network()
    apply_edits(nnet, f"set-learning-rate-factor name={pattern} learning-rate-factor=9")
    got = [name for name, component in nnet.components.items() if getattr(component, "learning_rate_factor", 0) == 9]
    assert got == matched.split()


def test_many_stars_do_not_take_exponential_time() -> None:
    assert len(apply_edits(edited_network(), f"reduce-rank name={'*' * 500}x rank=1")) == 1


def test_convert_to_fixed_affine_keeps_the_output() -> None:
    nnet = edited_network()
    before = simple_output(nnet)
    assert apply_edits(nnet, "convert-to-fixed-affine name=*affine") == []
    assert [name for name, component in nnet.components.items() if component.type_name == "FixedAffineComponent"] == [
        "tdnn1.affine",
        "tdnn2.affine",
    ]
    assert torch.equal(simple_output(nnet), before)


# ---- nodes ----


def test_rename_node_takes_references_and_the_hidden_input_along() -> None:
    nnet = edited_network()
    before = simple_output(nnet)
    assert (
        apply_edits(nnet, "rename-node old-name=tdnn2.affine new-name=loop\nrename-node old-name=half new-name=all")
        == []
    )
    assert {"loop", "loop_input", "all"} <= set(node_names(nnet))
    assert not {"tdnn2.affine", "tdnn2.affine_input", "half"} & set(node_names(nnet))
    lines = nnet.config_lines()
    assert (
        "component-node name=loop component=tdnn2.affine input=Sum(tdnn1.dropout, IfDefined(Offset(loop, -3)))" in lines
    )
    assert "dim-range-node name=all input-node=loop dim-offset=0 dim=10" in lines
    assert torch.equal(simple_output(nnet), before)


def test_rename_node_to_its_own_hidden_name_and_back() -> None:
    nnet = edited_network()
    before = nnet.config_lines()
    apply_edits(nnet, "rename-node old-name=final new-name=final_input")
    assert node_names(nnet)[-4:-2] == ["final_input_input", "final_input"]
    apply_edits(nnet, "rename-node old-name=final_input new-name=final")
    assert nnet.config_lines() == before


def test_rename_output_and_input() -> None:
    nnet = edited_network()
    apply_edits(nnet, "rename-node old-name=output new-name=final-output\nrename-node old-name=input new-name=feats")
    assert (nnet.input_names, nnet.output_names) == (["feats"], ["final-output", "output-xent"])


def test_remove_output_nodes_leaves_the_rest_to_remove_orphans() -> None:
    nnet = edited_network()
    apply_edits(nnet, "remove-output-nodes name=output")
    assert nnet.output_names == ["output-xent"]
    assert nnet.warnings == [
        "node 'half' is never used to compute any output",
        "node 'final' is never used to compute any output",
    ]
    apply_edits(nnet, "remove-orphans")
    assert "final" not in nnet.components
    assert nnet.warnings == []


@pytest.mark.parametrize(
    ("edit", "inputs", "nodes_left", "components"),
    [
        ("remove-orphan-nodes", ["one", "two", "input", "three"], False, ["unused", "used", "relu"]),
        ("remove-orphan-components", ["one", "two", "input", "three"], True, ["used", "relu"]),
        ("remove-orphans", ["one", "two", "input", "three"], False, ["used"]),
        ("remove-orphan-nodes remove-orphan-inputs=true", ["input"], False, ["unused", "used", "relu"]),
        ("remove-orphans remove-orphan-inputs=true", ["input"], False, ["used"]),
    ],
)
def test_orphans_are_removed(edit: str, inputs: list[str], nodes_left: bool, components: list[str]) -> None:
    nnet = Nnet.from_config(ORPHANS)
    assert apply_edits(nnet, edit) == []
    assert nnet.input_names == inputs
    assert ("relu" in node_names(nnet), "relu_input" in node_names(nnet)) == (nodes_left, nodes_left)
    assert list(nnet.components) == components


MASK = """
input-node name=input dim=3
component name=ones type=ConstantFunctionComponent input-dim=3 output-dim=3
component name=mask type=DropoutMaskComponent output-dim=3
component-node name=ones component=ones input=input
component-node name=mask component=mask input=ones
output-node name=output input=mask
"""


def test_a_node_that_is_only_named_is_not_removed() -> None:
    """A dropout mask never looks at its input, but without it the network could not be written."""
    nnet = Nnet.from_config(MASK)
    apply_edits(nnet, "remove-orphans remove-orphan-inputs=true")
    assert Nnet.from_config(MASK).config_lines() == nnet.config_lines()


def test_a_network_keeps_an_input() -> None:
    nnet = Nnet.from_config("input-node name=input dim=3\noutput-node name=output input=Const(1.0, 3)\n")
    with pytest.raises(ConfigError, match="no input node would remain, since no output needs one"):
        apply_edits(nnet, "remove-orphans remove-orphan-inputs=true")
    assert nnet.input_names == ["input"]
