"""apply-svd and reduce-rank."""

from __future__ import annotations

import pytest
import torch

from nnet3 import Nnet
from nnet3.errors import ConfigError
from nnet3.model.edits.edits import apply_edits
from tests.edits.edited_network import CONFIG, edited_network, node_names
from tests.nnet.run_network import relative_error, simple_output


def _decreasing(nnet: Nnet, name: str) -> torch.Tensor:
    """Give an affine component the singular values 1, 1/2, 1/4, ...; returns its matrix in float64."""
    component = nnet.components[name]
    u, s, vt = torch.linalg.svd(component.linear_params.double(), full_matrices=False)
    matrix = (u * 0.5 ** torch.arange(len(s))) @ vt
    component.linear_params.copy_(matrix)
    return matrix


def test_reduce_rank_keeps_the_largest_singular_components() -> None:
    nnet = edited_network()
    matrix = _decreasing(nnet, "tdnn1.affine")
    component = nnet.components["tdnn1.affine"]
    bias = component.bias_params.clone()
    assert apply_edits(nnet, "reduce-rank name=tdnn1.affine rank=4") == []
    reduced = nnet.components["tdnn1.affine"].linear_params.double()
    assert torch.linalg.svdvals(reduced)[:4] == pytest.approx(torch.linalg.svdvals(matrix)[:4], abs=1e-6)
    assert torch.linalg.matrix_rank(reduced, atol=1e-5) == 4
    assert float((reduced - matrix).norm()) == pytest.approx(sum(0.25**k for k in range(4, 10)) ** 0.5, rel=1e-5)
    assert nnet.components["tdnn1.affine"] is component
    assert torch.equal(component.bias_params, bias)


def test_apply_svd_with_full_energy_keeps_the_output() -> None:
    nnet = edited_network()
    _decreasing(nnet, "tdnn1.affine")
    _decreasing(nnet, "tdnn2.affine")
    before = simple_output(nnet)
    edits = "apply-svd name=*affine energy-threshold=0.999999999 shrinkage-threshold=10"
    assert apply_edits(nnet, edits) == [
        "<edits>:1: apply-svd: 'tdnn2.affine' is left as it is: it is 10 -> 10, the bottleneck has 10"
    ]
    assert relative_error(simple_output(nnet), before) < 1e-6


def test_apply_svd_puts_two_nodes_in_the_place_of_one() -> None:
    nnet = edited_network()
    matrix = _decreasing(nnet, "tdnn2.affine")
    nnet.components["tdnn2.affine"].learning_rate_factor = 0.25
    before = simple_output(nnet)
    assert apply_edits(nnet, "apply-svd name=tdnn2.affine bottleneck-dim=4") == []
    first, second = nnet.components["tdnn2.affine_a"], nnet.components["tdnn2.affine_b"]
    assert list(nnet.components)[-2:] == ["tdnn2.affine_a", "tdnn2.affine_b"]
    assert "tdnn2.affine" not in nnet.components
    assert (first.type_name, second.type_name) == ("LinearComponent", "NaturalGradientAffineComponent")
    assert (first.output_dim, second.input_dim) == (4, 4)
    assert "rank-in=40, rank-out=80, num-samples-history=2000, update-period=4, alpha=4" in first.info()
    assert "rank-in=20, rank-out=80, num-samples-history=2000, update-period=4, alpha=4" in second.info()
    for factor in (first, second):
        assert (factor.max_change, factor.l2_regularize, factor.learning_rate_factor) == (0.75, 0.01, 0.25)
    names = node_names(nnet)
    at = names.index("tdnn2.affine_a_input")
    assert names[at - 1 : at + 5] == [
        "tdnn1.dropout",
        "tdnn2.affine_a_input",
        "tdnn2.affine_a",
        "tdnn2.affine_b_input",
        "tdnn2.affine_b",
        "half",
    ]
    loop = "Sum(tdnn1.dropout, IfDefined(Offset(tdnn2.affine_b, -3)))"
    assert f"component-node name=tdnn2.affine_a component=tdnn2.affine_a input={loop}" in nnet.config_lines()
    product = second.linear_params.double() @ first.params.double()
    u, s, vt = torch.linalg.svd(matrix)
    assert relative_error(product, (u[:, :4] * s[:4]) @ vt[:4]) < 1e-6
    assert torch.linalg.svdvals(first.params.double()) == pytest.approx(s[:4].sqrt(), rel=1e-5)
    assert 0 < relative_error(simple_output(nnet), before) < 0.1


@pytest.mark.parametrize(("threshold", "dim"), [(0.7, 1), (0.76, 2), (0.94, 3), (0.99, 4)])
def test_apply_svd_by_energy(threshold: float, dim: int) -> None:
    """Energies 1, 1/4, 1/16, ... add up to 3/4, 15/16, 63/64, 255/256 ... of the whole."""
    nnet = edited_network()
    _decreasing(nnet, "tdnn2.affine")
    assert apply_edits(nnet, f"apply-svd name=tdnn2.affine energy-threshold={threshold}") == []
    assert nnet.components["tdnn2.affine_a"].output_dim == dim


def test_apply_svd_by_shrinkage() -> None:
    nnet = edited_network()
    text = (
        "apply-svd name=*affine bottleneck-dim=4 shrinkage-threshold=0.75"  # 4 * 22 / 120 = 0.733, 4 * 20 / 100 = 0.8
    )
    (warning,) = apply_edits(nnet, text)
    assert "'tdnn2.affine' is left as it is: factors of dimension 4 would have 0.8 times its parameters" in warning
    assert "tdnn1.affine_a" in nnet.components
    assert "tdnn2.affine" in nnet.components


def test_apply_svd_on_a_shared_component() -> None:
    config = "\n".join(
        [
            "input-node name=input dim=8",
            "component name=shared type=AffineComponent input-dim=8 output-dim=8",
            "component-node name=n1 component=shared input=input",
            "component-node name=n2 component=shared input=Offset(n1, -1)",
            "output-node name=output input=Sum(n1, n2)",
        ]
    )
    nnet = Nnet.from_config(config)
    reduced = nnet.copy()
    apply_edits(reduced, "reduce-rank name=shared rank=3")
    apply_edits(nnet, "apply-svd name=shared bottleneck-dim=3")
    assert list(nnet.components) == ["shared_a", "shared_b"]
    assert [n for n in node_names(nnet) if not n.endswith("_input")] == [
        "input",
        "n1_a",
        "n1_b",
        "n2_a",
        "n2_b",
        "output",
    ]
    assert relative_error(simple_output(nnet), simple_output(reduced)) < 1e-6


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "component name=tdnn2.affine_a type=NoOpComponent dim=1",
            "the component name 'tdnn2.affine_a' is already taken",
        ),
        (
            "dim-range-node name=tdnn2.affine_b input-node=input dim=1 dim-offset=0",
            "the node name 'tdnn2.affine_b' is already",
        ),
        (
            "dim-range-node name=tdnn2.affine_a_input input-node=input dim=1 dim-offset=0",
            "node name 'tdnn2.affine_a_input'",
        ),
    ],
)
def test_apply_svd_needs_the_new_names(line: str, message: str) -> None:
    nnet = Nnet.from_config(CONFIG + line)
    before = nnet.info()
    with pytest.raises(ConfigError, match=message):
        apply_edits(nnet, "apply-svd name=tdnn2.affine bottleneck-dim=2")
    assert nnet.info() == before


@pytest.mark.parametrize("edit", ["apply-svd name=tdnn2* bottleneck-dim=2", "reduce-rank name=tdnn2* rank=2"])
def test_parameters_that_are_not_finite_are_refused(edit: str) -> None:
    nnet = edited_network()
    nnet.components["tdnn2.affine"].linear_params[3, 4] = float("nan")
    with pytest.raises(ConfigError, match=r"component 'tdnn2\.affine' has a NaN or an infinity"):
        apply_edits(nnet, edit)


def test_apply_svd_of_a_zero_matrix() -> None:
    nnet = edited_network()
    nnet.components["tdnn2.affine"].linear_params.zero_()
    assert apply_edits(nnet, "apply-svd name=tdnn2.affine energy-threshold=0.9") == []
    assert nnet.components["tdnn2.affine_a"].output_dim == 1


def test_tensors_stay_the_same_objects_and_keep_their_values_if_a_later_line_fails() -> None:
    nnet = edited_network()
    matrix = nnet.components["tdnn2.affine"].linear_params
    before = matrix.clone()
    with pytest.raises(ConfigError, match="unknown directive"):
        apply_edits(nnet, "reduce-rank name=tdnn2.affine rank=2\nno-such-directive")
    assert nnet.components["tdnn2.affine"].linear_params is matrix
    assert torch.equal(matrix, before)
    apply_edits(nnet, "reduce-rank name=tdnn2.affine rank=2")
    assert nnet.components["tdnn2.affine"].linear_params is matrix
    assert torch.linalg.matrix_rank(matrix, rtol=1e-5) == 2
