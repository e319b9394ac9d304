"""GruNonlinearityComponent and OutputGruNonlinearityComponent: derivatives, self-repair, configuration and files."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from nnet3 import components
from nnet3.model.components.gru_nonlinearity import GruComponent
from tests.components.contract import component_contract, written

GRU, OUTPUT_GRU = "GruNonlinearityComponent", "OutputGruNonlinearityComponent"
STORING, NOT_STORING = 1, 0  # seeds whose first draw is below and above one half


def gru(type_name: str, config: str) -> GruComponent:
    component = components.create(type_name, config, seed=1)
    assert isinstance(component, GruComponent)
    return component


def test_gru_without_projection_reads_the_cell_twice() -> None:
    component = gru(GRU, "cell-dim=3")
    z, r, hpart, c = torch.rand(4, 3), torch.rand(4, 3), torch.randn(4, 3), torch.randn(4, 3)
    y, _ = component.propagate(torch.cat([z, r, hpart, c], dim=1))
    h = torch.tanh(hpart + (r * c) @ component.parameters()["w_h"].t())
    torch.testing.assert_close(y, torch.cat([h, (1 - z) * h + z * c], dim=1))


@pytest.mark.parametrize("type_name", [GRU, OUTPUT_GRU])
def test_self_repair_is_part_of_the_derivative_when_drawn(type_name: str) -> None:
    component = gru(type_name, "cell-dim=3 self-repair-scale=0.01 self-repair-threshold=0.9")
    x = torch.rand(6, component.input_dim)
    hpart = slice(6, 9) if type_name == GRU else slice(3, 6)
    x[:, hpart] += torch.tensor([3.0, 0.0, 0.0])  # only the first dimension saturates
    for name in component.parameters():
        getattr(component, name).zero_()
    y, _ = component.propagate(x)
    results = {}
    for seed in (STORING, NOT_STORING):
        component.seed_random(seed)
        delta = component.gradient_copy()
        x_deriv = component.backprop(x, y, torch.zeros(6, 6), to_update=delta)
        results[seed] = (delta.count, delta.self_repair_total, x_deriv)
    assert results[NOT_STORING][:2] == (0, 0)
    assert not results[NOT_STORING][2].any()
    count, total, x_deriv = results[STORING]
    repaired = (1 - y[:, :3] ** 2).mean(0) < 0.9
    assert repaired[0]
    assert (count, total) == (6, float(repaired.sum()))
    torch.testing.assert_close(x_deriv[:, hpart], -0.02 * y[:, :3] * repaired)
    assert not component.backprop(x, y, torch.zeros(6, 6)).any()  # nothing to update: no self-repair


@pytest.mark.parametrize("type_name", [GRU, OUTPUT_GRU])
def test_update_is_preconditioned_unless_it_collects_gradients(type_name: str) -> None:
    component = gru(type_name, "cell-dim=6 self-repair-scale=0")
    x = torch.rand(40, component.input_dim)
    y, _ = component.propagate(x)
    y_deriv = torch.randn(40, 12)
    gradient, updated = component.gradient_copy(), component.copy()
    updated.set_learning_rate(0.5)
    x_deriv = component.backprop(x, y, y_deriv, to_update=gradient)
    component.backprop(x, y, y_deriv, to_update=updated)
    hpart_deriv = x_deriv[:, 12:18] if type_name == GRU else x_deriv[:, 6:12]
    preconditioned = [getattr(component, name).precondition for name in component.preconditioner_names]
    if type_name == GRU:
        (inputs, scale_in), (outputs, scale_out) = (
            preconditioned[0](x[:, 6:12] * x[:, 18:]),
            preconditioned[1](hpart_deriv),
        )
        expected, scale = outputs.t() @ inputs, scale_in * scale_out
    else:
        frame_derivs, scale = preconditioned[0](x[:, 12:] * hpart_deriv)
        expected = frame_derivs.sum(0)
    change = updated.w_h - component.w_h
    torch.testing.assert_close(change, 0.5 * float(scale) * expected, rtol=1e-3, atol=1e-5)
    assert not torch.allclose(change, 0.5 * gradient.w_h, rtol=0.01)
    updated.freeze_natural_gradient(True)
    assert all(getattr(updated, name).frozen for name in updated.preconditioner_names)


@pytest.mark.parametrize("type_name", [GRU, OUTPUT_GRU])
def test_written_file_is_read_back(type_name: str, tmp_path: Path) -> None:
    component = gru(type_name, "cell-dim=4 update-period=3 alpha=2 learning-rate-factor=0.5")
    x = torch.rand(5, component.input_dim)
    y, _ = component.propagate(x)
    component.seed_random(STORING)
    component.backprop(x, y, torch.zeros(5, 8), to_update=component)
    for binary in (True, False):
        component.write(str(tmp_path / "a"), binary=binary)
        again = components.read(tmp_path / "a")
        again.write(str(tmp_path / "b"), binary=binary)
        assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
        assert isinstance(again, GruComponent)
        assert again.count == 5
        torch.testing.assert_close(again.value_sum, component.value_sum, rtol=1e-6, atol=1e-6)
        assert again.info() == component.info()
        assert "count=5, self-repaired-proportion=" in again.info()


TestGruNonlinearity = component_contract(
    "GruNonlinearityComponent",
    good=["cell-dim=5 recurrent-dim=3 self-repair-scale=0", "cell-dim=4 self-repair-scale=0"],
    rows=8,
    file=written(GRU, "cell-dim=4"),
    bad_configs=[
        ("", "'cell-dim=' is missing"),
        ("cell-dim=4 recurrent-dim=5", "'recurrent-dim' must be from 1 to 4, got 5"),
        ("cell-dim=4 recurrent-dim=0", "'recurrent-dim' must be from 1 to 4"),
        ("cell-dim=4 rank-in=0", "'rank-in' must be >= 1"),
        ("cell-dim=4 alpha=-1", "'alpha' must be >= 0"),
    ],
    bad_files=[
        ("<CellDim> 4", "<CellDim> 0", "<CellDim> must be >= 1"),
        ("<RecurrentDim> 4", "<RecurrentDim> 5", "<RecurrentDim> must be from 1 to 4, got 5"),
        ("<RecurrentDim> 4", "<RecurrentDim> 3", "<w_h> must be 4 x 3"),
        ("<UpdatePeriod> 4", "<UpdatePeriod> 0", "<UpdatePeriod> must be >= 1"),
    ],
)
TestOutputGruNonlinearity = component_contract(
    "OutputGruNonlinearityComponent",
    good=["cell-dim=4 self-repair-scale=0"],
    rows=8,
    file=written(OUTPUT_GRU, "cell-dim=4"),
    bad_configs=[
        ("cell-dim=-4", "'cell-dim' must be >= 1"),
        ("cell-dim=4 self-repair-scale=-1", "'self-repair-scale' must be >= 0"),
        ("cell-dim=4 recurrent-dim=2", "unknown key 'recurrent-dim'"),
    ],
    bad_files=[
        ("<CellDim> 4", "<CellDim> 3", "<w_h> must have 3 elements"),
        ("<Alpha> 4", "<Alpha> -1", "<Alpha> must be >= 0"),
    ],
)
