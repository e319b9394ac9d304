"""Collapsing for test: what is merged, what must be left alone, and that outputs stay the same."""

from __future__ import annotations

import pytest
import torch

import nnet3
from nnet3 import Nnet
from nnet3.model.edits.collapse import collapse_model, prepare_for_test
from nnet3.options import CollapseOptions
from tests.nnet.run_network import frames, relative_error, simple_output
from tests.nnet.short_network import add_statistics, short_network

EXACT = 1e-12  # for networks in float64


def _collapsed(nnet: Nnet, options: CollapseOptions | None = None) -> Nnet:
    """A collapsed copy, checked to have the same output."""
    nnet.set_test_mode(True)
    collapsed = nnet.copy()
    prepare_for_test(collapsed, options)
    assert relative_error(simple_output(collapsed, torch.float64), simple_output(nnet, torch.float64)) < EXACT
    Nnet(collapsed.nodes, collapsed.components).apply_config("")  # all checks of a config hold
    return collapsed


# ---- what is merged ----

MERGED = {
    "batchnorm into affine": ("bn BatchNorm dim=4 < input\na Affine 4->3 < bn", "bn.a: input"),
    "batchnorm into spliced affine": (
        "bn BatchNorm dim=4 < input\n"
        "a NaturalGradientAffine 12->3 < Append(Offset(bn, -1), bn, Offset(bn, 2))",
        "bn.a: Append(Offset(input, -1), input, Offset(input, 2))",
    ),
    "batchnorm with blocks into spliced affine": (
        "bn BatchNorm dim=4 block-dim=2 target-rms=0.5 < input\na Affine 8->3 < Append(bn, Offset(bn, -3))",
        "bn.a: Append(input, Offset(input, -3))",
    ),
    "batchnorm into linear": ("bn BatchNorm dim=4 < input\na Linear 4->3 < bn", "bn.a: input"),
    "batchnorm into tdnn": (
        "bn BatchNorm dim=4 < input\na Tdnn 4->3 time-offsets=-1,0,2 < bn",
        "bn.a: input",
    ),
    "batchnorm into spliced tdnn without bias": (
        "bn BatchNorm dim=4 block-dim=2 < input\n"
        "a Tdnn 8->3 time-offsets=1,-1 use-bias=false < Append(Offset(bn, 2), bn)",
        "bn.a: Append(Offset(input, 2), input)",
    ),
    "affine into affine": (
        "a Affine 4->5 < input\nb NaturalGradientAffine 5->2 < Offset(a, 1)",
        "a.b: Offset(input, 1)",
    ),
    "fixed affine into spliced affine": (
        "a FixedAffine 4->4 < input\nb Affine 8->2 < Append(a, Offset(a, 1))",
        "a.b: Append(input, Offset(input, 1))",
    ),
    "scale into affine": ("a Affine 4->3 < input\nb FixedScale dim=3 < Offset(a, -1)", "a.b: Offset(input, -1)"),
    "batchnorm, linear, batchnorm, affine": (
        "b1 BatchNorm dim=4 < input\na1 Linear 4->6 < b1\n"
        "b2 BatchNorm dim=6 < a1\na2 Affine 6->2 < b2",
        "b1.a1.b2.a2: input",
    ),
    "offsets add up, and cancel": (
        "a Affine 8->9 < Append(Offset(input, -1), Offset(input, 2))\n"
        "b Affine 18->2 < Append(Offset(a, 1), Offset(a, -3))",
        "a.b: Append(input, Offset(input, 3), Offset(input, -4), Offset(input, -1))",
    ),
    "offsets of x add up too": (
        "a Affine 4->4 < Offset(input, -1, 2)\nb Affine 4->2 < Offset(a, 1, -2)",
        "a.b: input",
    ),
    "offset through sums": (
        "a Affine 4->4 < Sum(Scale(0.5, input), Sum(Offset(Scale(0.5, input), 2), Const(1.5, 4)))\n"
        "b Affine 4->2 < Offset(a, 1)",
        "a.b: Sum(Offset(Scale(0.5, input), 1), Sum(Offset(Scale(0.5, input), 3), Const(1.5, 4)))",
    ),
    "offset through failover": (
        "bn BatchNorm dim=4 < Failover(Offset(input, -40), IfDefined(Offset(input, 5)))\na Affine 4->2 < Offset(bn, 1)",
        "bn.a: Failover(Offset(input, -39), IfDefined(Offset(input, 6)))",
    ),
    "offset through switch and round": (
        "bn BatchNorm dim=4 < Switch(Offset(input, 1), Round(input, 3))\na Affine 4->2 < Offset(bn, 1)",
        "bn.a: Offset(Switch(Offset(input, 1), Round(input, 3)), 1)",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("lines", "result"), MERGED.values(), ids=MERGED)
def test_merged_into_one_component(lines: str, result: str) -> None:
    nnet = short_network(lines)
    collapsed = _collapsed(nnet)
    name, descriptor = result.split(": ")
    node = next(line.split()[0] for line in reversed(lines.splitlines()))
    assert list(collapsed.components) == [name]
    assert collapsed.config_lines() == [
        "input-node name=input dim=4",
        f"component-node name={node} component={name} input={descriptor}",
        f"output-node name=output input={node} objective=linear",
    ]
    assert collapsed.warnings == []


TYPES = {
    "batchnorm into affine": "AffineComponent",
    "batchnorm into spliced affine": "NaturalGradientAffineComponent",
    "batchnorm into linear": "AffineComponent",
    "batchnorm into tdnn": "TdnnComponent",
    "affine into affine": "AffineComponent",
    "scale into affine": "AffineComponent",
}


@pytest.mark.parametrize("case", TYPES)
def test_type_of_the_merged_component(case: str) -> None:
    (component,) = _collapsed(short_network(MERGED[case][0])).components.values()
    assert component.type_name == TYPES[case]


RATES = {
    "affine into affine": (0.001, 1.0, 0.0, 0.0),
    "fixed affine into spliced affine": (0.001, 1.0, 0.0, 0.0),
    "batchnorm, linear, batchnorm, affine": (0.001, 1.0, 0.0, 0.0),
    "offsets add up, and cancel": (0.001, 1.0, 0.0, 0.0),
    "offsets of x add up too": (0.001, 1.0, 0.0, 0.0),
    "offset through sums": (0.001, 1.0, 0.0, 0.0),
    "batchnorm into linear": (0.01, 1.0, 0.0, 0.0),
}


@pytest.mark.parametrize("case", MERGED)
def test_rates_and_limits_are_those_of_the_component_that_is_copied(case: str) -> None:
    """A product of two affine components is none of them, as in Kaldi; of a linear one the rate alone is taken over."""
    nnet = short_network(MERGED[case][0])
    for component in nnet.components.values():
        updatable = component.updatable
        if updatable is not None:
            updatable.learning_rate_factor, updatable.max_change, updatable.l2_regularize = 0.5, 0.75, 0.125
    nnet.set_learning_rate(0.02)
    (merged,) = (component.updatable for component in _collapsed(nnet).components.values())
    assert merged is not None
    rates = (merged.learning_rate, merged.learning_rate_factor, merged.max_change, merged.l2_regularize)
    assert rates == RATES.get(case, (0.01, 0.5, 0.75, 0.125))


@pytest.mark.parametrize("case", ["batchnorm into spliced affine", "batchnorm into spliced tdnn without bias"])
def test_merged_components_can_be_trained_on(case: str) -> None:
    """Natural-gradient estimates for rows of the old size do not get in the way."""
    nnet = short_network(MERGED[case][0])
    nnet.set_test_mode(True)
    _train(nnet)
    collapse_model(nnet)
    (component,) = nnet.components.values()
    before = component.bias_params.clone()
    _train(nnet)
    assert not torch.equal(component.bias_params, before)


def _train(nnet: Nnet) -> None:
    inputs, outputs = frames(-20, 40), frames(0, 30)
    request = nnet3.ComputationRequest(
        [nnet3.IoSpecification("input", inputs)], [nnet3.IoSpecification("output", outputs, has_deriv=True)], True
    )
    computer = nnet3.NnetComputer(nnet3.compile(nnet, request), nnet, nnet)
    computer.accept_input("input", torch.linspace(-1, 1, 240).view(60, 4).double())
    computer.run()
    computer.accept_input("output", torch.linspace(1, 2, 90).view(30, 3).double())
    computer.run()


# ---- what is left alone ----

CONVOLUTION = (
    "TimeHeightConvolution num-filters-in=2 num-filters-out=2 height-in=2 height-out=2 "
    "height-offsets=-1,0,1 time-offsets=-1,0"
)
BN = "bn BatchNorm dim=4 < input\n"
LEFT_ALONE = {
    "sum of two": BN + "a Affine 4->2 < Sum(bn, input)",
    "sum of the same": BN + "a Affine 4->2 < Sum(bn, Offset(bn, 1))",
    "two nodes appended": BN + "a Affine 8->2 < Append(bn, input)",
    "constant appended": BN + "a Affine 6->2 < Append(bn, Const(1.0, 2))",
    "scaled": BN + "a Affine 4->2 < Scale(0.5, bn)",
    "scaled and offset": BN + "a Affine 4->2 < Offset(Scale(0.5, bn), 1)",
    "if defined": BN + "a Affine 4->2 < IfDefined(bn)",
    "failover": BN + "a Affine 4->2 < Failover(Offset(bn, -90), bn)",
    "rounded": BN + "a Affine 4->2 < Round(bn, 2)",
    "switched": BN + "a Affine 4->2 < Switch(bn, Offset(bn, 1))",
    "index replaced": BN + "a Affine 4->2 < ReplaceIndex(bn, t, 0)",
    "something between": BN + "r RectifiedLinear dim=4 < bn\na Affine 4->2 < r",
    "batchnorm into block affine": BN + "a BlockAffine 4->2 num-blocks=2 < bn",
    "batchnorm into fixed affine": BN + "a FixedAffine 4->2 < bn",
    "batchnorm into convolution, which pads with zeros": BN
    + f"a {CONVOLUTION} < bn",
    "affine that reduces the dimension": "a Affine 4->3 < input\nb Affine 3->9 < a",
    "linear into affine": "a Linear 4->4 < input\nb Affine 4->9 < a",
    "affine into tdnn": "a Affine 4->4 < input\nb Tdnn 4->2 time-offsets=0,1 < a",
    "scale into spliced affine": "a Affine 4->2 < input\nb FixedScale dim=4 < Append(a, Offset(a, 1))",
    "scale into linear": "a Linear 4->2 < input\nb FixedScale dim=2 < a",
    "dropout": "d Dropout dim=4 dropout-proportion=0.5 < input\na Affine 4->2 < d",
    "affine of the input": "a Affine 4->2 < input",
}  # fmt: skip


@pytest.mark.parametrize("lines", LEFT_ALONE.values(), ids=LEFT_ALONE)
def test_what_cannot_be_collapsed_is_left_alone(lines: str) -> None:
    nnet = short_network(lines)
    before = nnet.config_lines()
    collapsed = _collapsed(nnet)
    assert collapsed.config_lines() == before
    assert list(collapsed.components) == list(nnet.components)


def test_dim_range_of_a_batchnorm_is_left_alone() -> None:
    config = (
        "input-node name=input dim=4\ncomponent name=bn type=BatchNormComponent dim=4\n"
        "component-node name=bn component=bn input=input\n"
        "dim-range-node name=half input-node=bn dim=2 dim-offset=1\n"
        "component name=a type=AffineComponent input-dim=2 output-dim=3\n"
        "component-node name=a component=a input=half\noutput-node name=output input=a"
    )
    nnet = Nnet.from_config(config)
    add_statistics(nnet)
    nnet.to(dtype=torch.float64)
    assert list(_collapsed(nnet).components) == ["bn", "a"]


def test_batchnorm_in_training_mode_is_left_alone() -> None:
    nnet = short_network(MERGED["batchnorm into affine"][0])
    collapse_model(nnet)
    assert list(nnet.components) == ["bn", "a"]
    assert not nnet.components["bn"].test_mode


@pytest.mark.parametrize(
    ("case", "option"),
    [("batchnorm into affine", "batchnorm"), ("affine into affine", "affine"), ("scale into affine", "scale")],
)
def test_each_rule_has_its_option(case: str, option: str) -> None:
    nnet = short_network(MERGED[case][0])
    others = {name: True for name in ("dropout", "batchnorm", "affine", "scale") if name != option}
    assert list(_collapsed(nnet, CollapseOptions(**{**others, option: False})).components) == list(nnet.components)
    only = dict.fromkeys(others, False)
    assert len(_collapsed(nnet, CollapseOptions(**{**only, option: True})).components) == 1


# ---- dropout ----

DROPOUT = CollapseOptions(dropout=True)


@pytest.mark.parametrize(
    "second",
    [
        "Affine 4->2",
        "Linear 4->2",
        "Tdnn 4->2 time-offsets=0,1",
        CONVOLUTION,
    ],
    ids=lambda second: second.split()[0],
)
def test_dropout_becomes_a_scale(second: str) -> None:
    nnet = short_network(f"d Dropout dim=4 dropout-proportion=0.375 < input\na {second} < d")
    collapsed = _collapsed(nnet, DROPOUT)
    assert list(collapsed.components) == ["a.scale0.625"]
    assert collapsed.components["a.scale0.625"].type_name == nnet.components["a"].type_name


def test_general_dropout_disappears() -> None:
    nnet = short_network("d GeneralDropout dim=4 dropout-proportion=0.5 < input\na Affine 4->2 < Offset(d, 2)")
    collapsed = _collapsed(nnet, DROPOUT)
    assert list(collapsed.components) == ["a"]
    assert "component-node name=a component=a input=Offset(input, 2)" in collapsed.config_lines()


def test_dropout_in_training_mode_is_left_alone() -> None:
    nnet = short_network("d Dropout dim=4 dropout-proportion=0.5 < input\na Affine 4->2 < d")
    collapse_model(nnet, DROPOUT)
    assert list(nnet.components) == ["d", "a"]


# ---- sharing ----


def test_the_first_node_stays_for_others() -> None:
    nnet = short_network(BN + "a Affine 4->3 < bn\nb Linear 7->2 < Append(a, bn)")
    collapsed = _collapsed(nnet)
    assert list(collapsed.components) == ["bn", "b", "bn.a"]
    assert torch.equal(collapsed.components["b"].params, nnet.components["b"].params)


def test_a_shared_component_is_not_changed_for_others() -> None:
    nnet = short_network(BN + "a Affine 4->4 < bn\nr RectifiedLinear dim=4 < a\nagain = a < r")
    collapsed = _collapsed(nnet)
    assert list(collapsed.components) == ["a", "r", "bn.a"]
    assert torch.equal(collapsed.components["a"].linear_params, nnet.components["a"].linear_params)


def test_a_pair_is_merged_once() -> None:
    nnet = short_network(BN + "a Affine 4->4 < bn\nr RectifiedLinear dim=4 < a\nbn2 = bn < r\na2 = a < Offset(bn2, 1)")
    assert list(_collapsed(nnet).components) == ["r", "bn.a"]


def test_a_name_in_use_is_not_taken() -> None:
    nnet = short_network(BN + "bn.a RectifiedLinear dim=4 < input\na Affine 4->4 < bn\nb Linear 8->2 < Append(a, bn.a)")
    assert list(_collapsed(nnet).components) == ["bn.a", "b", "bn.a.2"]


def test_the_original_parameters_are_not_touched() -> None:
    nnet = short_network(MERGED["scale into affine"][0])
    component = nnet.components["a"]
    before = component.linear_params.clone()
    collapse_model(nnet)
    assert torch.equal(component.linear_params, before)


# ---- loops ----


def test_inside_a_loop() -> None:
    nnet = short_network(
        "p Affine 4->4 param-stddev=0.3 < Sum(input, IfDefined(Offset(n, -2)))\n"
        "n Affine 4->4 param-stddev=0.3 < Offset(p, -1)"
    )
    collapsed = _collapsed(nnet)
    assert (
        "component-node name=n component=p.n input=Sum(Offset(input, -1), IfDefined(Offset(n, -3)))"
        in collapsed.config_lines()
    )


def test_a_loop_of_nothing_else_ends() -> None:
    """Such a network can compute nothing, but it must not be merged for ever."""
    nnet = short_network(
        "p Affine 4->4 < Offset(n, -1)\nn Affine 4->4 < Offset(p, -1)\n"
        "a Affine 4->4 < Offset(a, -1)\nout NoOp dim=4 < Sum(input, IfDefined(n), IfDefined(a))"
    )
    collapse_model(nnet)
    assert "component-node name=a component=a input=Offset(a, -1)" in nnet.config_lines()


# ---- the whole ----


def test_prepare_for_test_sets_every_test_mode() -> None:
    nnet = short_network(
        BN + "r RectifiedLinear dim=4 < bn\nd Dropout dim=4 dropout-proportion=0.5 < r\n"
        "g GeneralDropout dim=4 < d\ns SpecAugmentTimeMask dim=4 < g"
    )
    prepare_for_test(nnet)
    assert all(nnet.components[name].test_mode for name in ("bn", "d", "g", "s"))


def test_orphans_go_but_inputs_stay() -> None:
    nnet = short_network(BN + "unused RectifiedLinear dim=4 < bn\na Affine 4->2 < bn")
    nnet.apply_config("input-node name=ivector dim=3")
    prepare_for_test(nnet)
    assert nnet.config_lines()[:2] == [
        "input-node name=input dim=4",
        "component-node name=a component=bn.a input=input",
    ]
    assert nnet.input_names == ["input", "ivector"]
    assert nnet.warnings == ["node 'ivector' is never used to compute any output"]
