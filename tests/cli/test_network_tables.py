"""The tables of a network: nodes, components, what is trained and how."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from nnet3.cli.network_tables import ReadConsole, learning_rates, print_network
from nnet3.model.nnet import Nnet

CONFIG = """
input-node name=input dim=3
input-node name=ivector dim=2
component name=shared type=NaturalGradientAffineComponent input-dim=5 output-dim=8 learning-rate=0.25 max-change=0.75
component name=frozen type=AffineComponent input-dim=8 output-dim=6 learning-rate=0 l2-regularize=0.01
component name=linear type=LinearComponent input-dim=6 output-dim=4 orthonormal-constraint=1 learning-rate-factor=0.5
component name=relu type=RectifiedLinearComponent dim=4
component-node name=tdnn component=shared input=Append(input, ReplaceIndex(ivector, t, 0))
component-node name=frozen component=frozen input=tdnn
dim-range-node name=part input-node=frozen dim-offset=2 dim=3
component-node name=linear component=linear input=frozen
component-node name=relu component=relu input=Offset(linear, -2)
output-node name=output input=relu
output-node name=other input=part objective=quadratic
"""


def _printed(nnet: Nnet, **options: object) -> list[str]:
    console = Console(file=io.StringIO(), **options)  # type: ignore[arg-type]
    print_network(nnet, console)
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined, no-any-return]


def test_all_of_a_network() -> None:
    nnet = Nnet.from_config(CONFIG)
    assert _printed(nnet) == [
        "nodes: 13",
        "components: 4",
        "left-context: 2",
        "right-context: 0",
        f"num-parameters: {nnet.num_parameters}",
        "modulus: 1",
        "",
        "Nodes",
        "node     kind               dim  component  from",
        "input    input                3",
        "ivector  input                2",
        "tdnn     component            8  shared     Append(input, ReplaceIndex(ivector, t, 0))",
        "frozen   component            6             tdnn",
        "part     dim-range            3             frozen, columns 2 to 4",
        "linear   component            4             frozen",
        "relu     component            4             Offset(linear, -2)",
        "output   output               4             relu",
        "other    output, quadratic    3             part",
        "",
        "Components",
        "component  type                   in  out  parameters   rate  what it does and how it is trained",
        "shared     NaturalGradientAffine   5    8          48   0.25  max-change 0.75",
        "frozen     Affine                  8    6          54      0  l2 0.01; frozen",
        "linear     Linear                  6    4          24  0.001  rate factor 0.5; orthonormal",
        "relu       RectifiedLinear         4    4",
    ]


def test_no_column_of_components_where_each_has_its_nodes_name() -> None:
    text = "input-node name=input dim=3\noutput-node name=output input=input\n"
    assert _printed(Nnet.from_config(text))[7:] == [
        "Nodes",
        "node    kind    dim  from",
        "input   input     3",
        "output  output    3  input",
        "",
        "Components",
        "component  type  in  out  parameters  rate  what it does and how it is trained",
    ]


def test_a_terminal_folds_what_it_has_no_room_for() -> None:
    nnet = Nnet.from_config(CONFIG)
    lines = _printed(nnet, width=60, force_terminal=True, color_system=None)
    assert lines[11:14] == [
        "tdnn     component            8  shared     Append(input,",
        "                                            ReplaceIndex(ivector, t,",  # the last column has 24 at least
        "                                            0))",
    ]
    assert _printed(nnet, width=60) == _printed(nnet, width=300)


def test_large_numbers_and_what_is_not_finite() -> None:
    nnet = Nnet.from_config(
        "input-node name=input dim=50\ncomponent name=a type=AffineComponent input-dim=50 output-dim=40\n"
        "component-node name=a component=a input=input\noutput-node name=output input=a\n"
    )
    parameters = nnet.components["a"].parameters()
    parameters["bias_params"][:2] = float("inf")
    nnet.components["a"].updatable.max_change = 0.5  # type: ignore[union-attr]
    last = _printed(nnet)[-1]
    assert " 2,040 " in last
    assert last.endswith("2 NaN OR INFINITE; max-change 0.5")
    gradient = nnet.gradient_copy()
    assert _printed(gradient)[-1].endswith("; holds a gradient")


def test_learning_rates_have_colons_between() -> None:
    assert learning_rates(Nnet.from_config(CONFIG)) == "0.25:0:0.001"


def test_a_reader_that_stops_is_told_to_the_caller() -> None:
    with pytest.raises(BrokenPipeError):
        ReadConsole().on_broken_pipe()
