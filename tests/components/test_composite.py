"""CompositeComponent."""

from __future__ import annotations

import pytest
import torch

from nnet3 import components
from nnet3.components import Properties
from nnet3.model.components.composite import CompositeComponent
from tests.components.component_text import check_config_error, check_file_error, check_round_trip, from_text, to_text
from tests.components.contract import component_contract
from tests.components.finite_differences import check_derivatives

AFFINE = "component1='type=AffineComponent input-dim=4 output-dim=5 learning-rate=0.1'"
CHAIN = f"num-components=3 {AFFINE} component2='type=TanhComponent dim=5' " + (
    "component3='type=LinearComponent input-dim=5 output-dim=3'"
)
NESTED = "num-components=1 component1='type=CompositeComponent num-components=1"
TANH = (
    "<TanhComponent> <Dim> 2 <ValueAvg>  [ ]\n<DerivAvg>  [ ]\n<Count> 0 <OderivRms>  [ ]\n<OderivCount> 0 "
    "<NumDimsSelfRepaired> 0 <NumDimsProcessed> 0 </TanhComponent> "
)


def create(config: str) -> CompositeComponent:
    component = components.create("CompositeComponent", config)
    assert isinstance(component, CompositeComponent)
    return component


def wrap(parts: str, count: int = 1) -> str:
    header = f"<CompositeComponent> <LearningRate> 0.001 <MaxRowsProcess> 8 <NumComponents> {count} "
    return f"{header}{parts}</CompositeComponent> "


def test_part_with_a_memo_at_the_end_and_inside() -> None:
    config = (
        f"num-components=3 {AFFINE} component2='type=BatchNormComponent dim=5' component3='type=TanhComponent dim=5'"
    )
    check_derivatives(create(config), 10)
    check_derivatives(create(f"num-components=2 {AFFINE} component2='type=BatchNormComponent dim=5'"), 10)


def test_composites_in_each_other() -> None:
    inner = 'component1="type=CompositeComponent num-components=1 component1=type=TanhComponent dim=5"'
    component = create(f"num-components=2 {AFFINE} component2='type=CompositeComponent num-components=1 {inner}'")
    assert [type(part).__name__ for part in component.parts] == ["AffineComponent", "CompositeComponent"]
    check_derivatives(component, 6)
    check_round_trip(component)


def test_depth_is_bounded() -> None:
    text = TANH
    for _ in range(4):
        text = wrap(text)
    check_round_trip(from_text(text))
    check_file_error(wrap(text), "more than 4 composites in each other")
    config = "num-components=1 component1=type=TanhComponent dim=2"
    for depth in range(2, 6):
        config = f"num-components=1 component1=type=CompositeComponent {config}"
        if depth <= 4:
            create(config)
    check_config_error("CompositeComponent", config, "more than 4 composites in each other", "CompositeComponent")


def test_values_and_names() -> None:
    torch.manual_seed(0)
    component = create(CHAIN)
    x = torch.randn(3, 4)
    expected = x
    for part in component.parts:
        expected = part.propagate(expected)[0]
    torch.testing.assert_close(component.propagate(x)[0], expected)
    names = ["component1.linear_params", "component1.bias_params", "component3.params"]
    assert list(component.parameters()) == names
    assert component.parameters()["component3.params"] is component.parts[2].parameters()["params"]
    assert component.info().startswith(
        "CompositeComponent sub-component1 = { AffineComponent, input-dim=4, output-dim=5, "
    )


def test_chunks_are_independent_for_natural_gradient() -> None:
    """Two chunks of five rows are two minibatches."""
    torch.manual_seed(0)
    component = create(f"max-rows-process=5 num-components=1 {AFFINE.replace('type=A', 'type=NaturalGradientA')}")
    whole, pieces, x, g = component.copy(), component.copy(), torch.randn(10, 4), torch.randn(10, 5)
    component.backprop(x, g, g, None, whole)
    for rows in (slice(0, 5), slice(5, 10)):
        component.backprop(x[rows], g[rows], g[rows], None, pieces)
    for name, tensor in whole.parameters().items():
        torch.testing.assert_close(tensor, pieces.parameters()[name])


def test_backward_stores_statistics_in_the_component_to_update() -> None:
    torch.manual_seed(0)
    component = create(f"max-rows-process=5 num-components=2 {AFFINE} component2='type=TanhComponent dim=5'")
    assert component.properties & Properties.BACKPROP_NEEDS_OUTPUT
    assert not component.properties & Properties.STORES_STATS
    delta = component.copy()
    delta.scale_(0.0)
    x = torch.randn(4, 4)
    y, memo = component.propagate(x)
    component.backprop(x, y, torch.randn(4, 5), memo, delta)
    tanh = delta.parts[1]
    torch.testing.assert_close(tanh.value_sum, y.double().sum(0))
    assert component.parts[1].count == 0
    component.add_(0.5, delta)
    assert component.parts[1].count == 2
    component.zero_stats()
    assert component.parts[1].count == 0


def test_properties_follow_the_parts() -> None:
    plain = create("num-components=1 component1='type=RectifiedLinearComponent dim=5'")
    assert not plain.properties & Properties.UPDATABLE
    ends_linear = create(f"num-components=1 {AFFINE}")
    assert ends_linear.properties == Properties.SIMPLE | Properties.UPDATABLE | Properties.BACKPROP_NEEDS_INPUT


def test_settings_reach_the_parts() -> None:
    component = create(CHAIN)
    component.parts[2].learning_rate_factor = 0.5
    component.set_learning_rate(0.2)
    assert (component.parts[0].learning_rate, component.parts[2].learning_rate) == (0.2, 0.1)
    assert not component.is_frozen
    component.set_learning_rate(0.0)
    assert component.is_frozen
    component.parts[2].set_learning_rate(0.1)
    assert not component.is_frozen
    component.freeze_natural_gradient(True)
    assert component.parts[2].preconditioner_in.frozen
    gradient = component.gradient_copy()
    assert gradient.parts[0].is_gradient
    assert float(gradient.parameters()["component1.bias_params"].abs().max()) == 0
    assert component.copy().to(torch.float64).parts[0].linear_params.dtype == torch.float64
    assert component.parts[0].linear_params.dtype == torch.float32
    assert component.dot(component) == pytest.approx(
        sum(part.dot(part) for part in (component.parts[0], component.parts[2]))
    )


def test_random_state_of_parts() -> None:
    component = create(CHAIN)
    component.seed_random(3)
    first = [part.rng.uniform() for part in component.parts]
    component.seed_random(3)
    assert [part.rng.uniform() for part in component.parts] == first
    assert len(set(first)) == 3


def test_a_file_is_rewritten_the_same() -> None:
    text = wrap(TANH)
    assert to_text(from_text(text)) == text
    full = text.replace("<LearningRate>", "<LearningRateFactor> 2 <MaxChange> 1 <L2Regularize> 1 <LearningRate>")
    assert to_text(from_text(full)) == full


TestComposite = component_contract(
    "CompositeComponent",
    good=[
        max_rows + parts
        for max_rows in ("", "max-rows-process=4 ", "max-rows-process=0 ")
        for parts in (
            CHAIN,
            f"num-components=1 {AFFINE}",
            "num-components=1 component1='type=TanhComponent dim=5'",
            f"num-components=2 {AFFINE} component2='type=SigmoidComponent dim=5'",
            "num-components=2 component1='type=TanhComponent dim=5' component2='type=PerElementOffsetComponent dim=5'",
        )
    ],
    rows=10,
    bad_configs=[
        (AFFINE, "'num-components=' is missing", ""),
        (f"num-components=0 {AFFINE}", "'num-components' must be within [1, 100000]", "0"),
        (f"num-components=2 {AFFINE}", "'component2=' is missing", ""),
        (f"num-components=1 {AFFINE} component2='type=TanhComponent dim=5'", "unknown key 'component2'", "component2"),
        (f"num-components=1 learning-rate=0.1 {AFFINE}", "unknown key 'learning-rate'", "learning-rate"),
        ("num-components=1 component1='dim=3'", "component1: 'type=' is missing", ""),
        (
            "num-components=1 component1='type=TanComponent dim=3'",
            "unknown component type 'TanComponent'",
            "TanComponent",
        ),
        ("num-components=1 component1='type=TanhComponent dim=x'", "component1: 'dim' must be an integer", "x"),
        ("num-components=1 component1='type=TanhComponent dim=3 dims=4'", "component1: unknown key 'dims'", "dims"),
        (
            f"num-components=2 {AFFINE} component2='type=TanhComponent dim=6'",
            "component2 has input-dim 6, but the component before it has output-dim 5",
            "type=TanhComponent dim=6",
        ),
        (
            "num-components=1 component1='type=DropoutComponent dim=6 dropout-proportion=0.1'",
            "component1 is DropoutComponent, but only simple components that are not random can be put together",
            "type=DropoutComponent dim=6 dropout-proportion=0.1",
        ),
        (
            "num-components=1 component1='type=ConstantComponent output-dim=6'",
            "component1 is ConstantComponent, but",
            "",
        ),
        (f"{NESTED} component1=type=TanhComponent dim=x'", "component1, component1: 'dim' must be an integer", "x"),
        (
            "num-components=1 component1='type=CompositeComponent component1=type=TanhComponent dim=1'",
            "component1: 'num-components=' is missing",
            "",
        ),
    ],
    bad_files=[
        (wrap("", 0), "<NumComponents> must be >= 1, got 0"),
        (wrap(TANH, 100001), "<NumComponents> must be at most 100000, got 100001"),
        (wrap(TANH, 2), "expected a component such as <TanhComponent>, got '</CompositeComponent>'"),
        (wrap(TANH + TANH.replace("<Dim> 2", "<Dim> 3"), 2), "component 2 of the composite has input-dim 3, but the"),
        (
            wrap("<ConstantComponent> <Output> [ 1 ]\n<IsUpdatable> T <UseNaturalGradient> T </ConstantComponent> "),
            "component 1",
        ),
    ],
)
