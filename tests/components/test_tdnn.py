"""TdnnComponent: against the formula on regular and irregular rows, natural gradient, configuration and files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from nnet3 import components
from nnet3.base.index import NO_TIME
from nnet3.errors import RequestError
from nnet3.model.components.natural_gradient import OnlineNaturalGradient
from nnet3.model.components.tdnn import TdnnComponent
from tests.components.contract import component_contract, written
from tests.components.index_harness import ROW_SETS, Index, Lookup, check_against_oracle, index_case, rows_of, table

ALL = table(range(-30, 60), ns=range(4), xs=range(-1, 2))


def tdnn(config: str) -> TdnnComponent:
    component = components.create("TdnnComponent", config, seed=1)
    assert isinstance(component, TdnnComponent)
    return component


def oracle(component: TdnnComponent, lookup: Lookup, index: Index) -> Tensor:
    n, t, x = index
    spliced = []
    for offset in component.time_offsets:
        value = lookup(n, t + offset, x)
        assert value is not None
        spliced.append(value)
    y = component.linear_params @ torch.cat(spliced)
    return y + component.bias_params if component.has_bias else y


@pytest.mark.parametrize("rows", ROW_SETS.values(), ids=ROW_SETS.keys())
@pytest.mark.parametrize("offsets", ["0", "-3,0,3", "-1,0", "2,-1,0", "-9,0,10"])
def test_outputs_agree_with_the_oracle(rows: np.ndarray, offsets: str) -> None:
    for bias in ("true", "false"):
        component = tdnn(f"time-offsets={offsets} input-dim=3 output-dim=2 use-bias={bias}")
        check_against_oracle(component, rows, ALL, oracle)


def test_a_worked_example_has_its_output() -> None:
    component = tdnn("time-offsets=-3,0,3 input-dim=1 output-dim=1 bias-stddev=0")
    component.linear_params[:] = torch.tensor([1.0, 10.0, 100.0])
    case = index_case(component, table([5]), ALL)
    y = torch.empty(1, 1)
    component.forward(torch.from_numpy(case.inputs[:, 1:2]).float(), y, case.plan)
    assert y.item() == 852.0


def test_regular_rows_stay_in_order_without_padding() -> None:
    component = tdnn("time-offsets=-3,0,3 input-dim=2 output-dim=2")
    outputs = table(range(0, 30, 3), ns=range(4))
    case = index_case(component, outputs, ALL)
    assert (case.outputs == outputs).all()
    assert (case.inputs == table(range(-3, 33, 3), ns=range(4))).all()
    assert {block.input_step for block in case.plan.blocks} == {1}


def test_one_subsampled_sequence_is_read_in_steps() -> None:
    component = tdnn("time-offsets=-1,0 input-dim=2 output-dim=2")
    case = index_case(component, table(range(0, 12, 3)), ALL)
    assert (case.inputs == table([-1, 0, 2, 3, 5, 6, 8, 9])).all()
    assert [(block.input_start, block.input_step) for block in case.plan.blocks] == [(0, 2), (1, 2)]


def test_several_subsampled_sequences_are_read_by_phase() -> None:
    component = tdnn("time-offsets=-1,0 input-dim=2 output-dim=2")
    case = index_case(component, table(range(0, 12, 3), ns=range(2)), ALL)
    assert case.inputs[:, 1].tolist() == [0, 0, 3, 3, 6, 6, 9, 9, -1, -1, 2, 2, 5, 5, 8, 8]
    assert not case.has_padding


def test_holes_are_padded_to_a_grid() -> None:
    component = tdnn("time-offsets=0 input-dim=2 output-dim=2")
    case = index_case(component, table([0, 2, 6], ns=range(2)), ALL)
    assert case.outputs[:, 1].tolist() == [0, 0, 2, 2, NO_TIME, NO_TIME, 6, 6]
    assert case.inputs[:, 1].tolist() == [0, 0, 2, 2, NO_TIME, NO_TIME, 6, 6]


def test_times_far_off_any_grid_are_refused() -> None:
    component = tdnn("time-offsets=0 input-dim=2 output-dim=2")
    outputs = table([0, 1, 2_000_000_000])
    with pytest.raises(RequestError, match="equally spaced"):
        component.reorder_indexes(outputs, outputs)


def test_output_is_computable_only_with_all_inputs() -> None:
    component = tdnn("time-offsets=-1,1 input-dim=2 output-dim=2")
    case = index_case(component, table(range(5)), table([0, 1, 2, 3, 4]))
    assert case.outputs[:, 1].tolist() == [1, 2, 3]


@pytest.mark.parametrize("bias", ["true", "false"])
@pytest.mark.parametrize("dims", ["input-dim=4 output-dim=30", "input-dim=30 output-dim=4"])
@pytest.mark.parametrize(
    "rows", [table(range(60), ns=range(4)), table([0, 1, 3, 4], ns=range(2))], ids=["regular", "holes"]
)
def test_natural_gradient_of_the_spliced_input(rows: np.ndarray, dims: str, bias: str) -> None:
    """Against the same preconditioners on a splice built row by row, with padding rows."""
    component = tdnn(f"time-offsets=-1,0,1 {dims} use-bias={bias} rank-in=3 rank-out=2 learning-rate=0.1")
    available = table(range(-5, 70), ns=range(4))
    case = index_case(component, rows, available)
    reference_in, reference_out = OnlineNaturalGradient(3, 4, 2000.0), OnlineNaturalGradient(2, 4, 2000.0)
    updated = component.copy()
    for seed in range(3):
        torch.manual_seed(seed)
        x = torch.randn(len(case.inputs), component.input_dim) + 1.0
        y_deriv = torch.randn(len(case.outputs), component.output_dim)
        before = updated.copy()
        component.backward(x, torch.empty(0), y_deriv, None, updated, None, case.plan)
        spliced, y_deriv = _splice(component, case.inputs, rows, x), y_deriv.clone()
        y_deriv[case.outputs[:, 1] == NO_TIME] = 0.0
        if component.has_bias:
            spliced = torch.cat([spliced, torch.ones(len(spliced), 1)], dim=1)
        spliced, scale_in = reference_in.precondition(spliced)
        y_deriv, scale_out = reference_out.precondition(y_deriv)
        change = 0.1 * float(scale_in * scale_out) * y_deriv.t() @ spliced
        columns = component.linear_params.shape[1]
        torch.testing.assert_close(
            updated.linear_params - before.linear_params, change[:, :columns], rtol=1e-3, atol=1e-4
        )
        if component.has_bias:
            torch.testing.assert_close(updated.bias_params - before.bias_params, change[:, -1], rtol=1e-3, atol=1e-4)


def _splice(component: TdnnComponent, inputs: np.ndarray, outputs: np.ndarray, x: Tensor) -> Tensor:
    """One row for each point of the grid of output times: what inputs there are, zeros elsewhere."""
    row_of = {tuple(index): row for row, index in enumerate(inputs.tolist())}
    times, ns = outputs[:, 1], sorted(set(outputs[:, 0].tolist()))
    rows = []
    for t in range(times.min(), times.max() + 1):
        for n in ns:
            places = [row_of.get((n, t + offset, 0)) for offset in component.time_offsets]
            rows.append(torch.cat([torch.zeros(component.input_dim) if p is None else x[p] for p in places]))
    return torch.stack(rows)


def test_no_update_with_learning_rate_zero() -> None:
    component = tdnn("time-offsets=0 input-dim=2 output-dim=2 learning-rate=0")
    case = index_case(component, table(range(4)), ALL)
    before = component.copy()
    component.backward(torch.randn(4, 2), torch.empty(0), torch.randn(4, 2), None, component, None, case.plan)
    assert torch.equal(before.linear_params, component.linear_params)
    component.preconditioner_in.precondition(torch.randn(3, 7))  # its state has not been made yet: any size will do


@pytest.mark.parametrize("bias", ["true", "false"])
def test_written_file_is_read_back(bias: str, tmp_path: Path) -> None:
    component = tdnn(
        f"time-offsets=3,0 input-dim=4 output-dim=5 use-bias={bias} orthonormal-constraint=-1 alpha-out=2 rank-in=3"
        " use-natural-gradient=false learning-rate-factor=0.5"
    )
    for binary in (True, False):
        component.write(str(tmp_path / "a"), binary=binary)
        again = components.read(tmp_path / "a")
        again.write(str(tmp_path / "b"), binary=binary)
        assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
        assert isinstance(again, TdnnComponent)
        assert again.info() == component.info()
        assert again.preconditioner_out.alpha == 2.0
        assert again.time_offsets == (3, 0)


def test_file_with_one_alpha(tmp_path: Path) -> None:
    tdnn("time-offsets=0 input-dim=2 output-dim=2").write(str(tmp_path / "component"), binary=False)
    text = (tmp_path / "component").read_text()
    (tmp_path / "component").write_text(text.replace("<AlphaInOut> 4 4", "<Alpha> 3"))
    again = components.read(tmp_path / "component")
    assert isinstance(again, TdnnComponent)
    assert (again.preconditioner_in.alpha, again.preconditioner_out.alpha) == (3.0, 3.0)


def test_info_ends_with_natural_gradient() -> None:
    text = tdnn("time-offsets=-1,1 input-dim=4 output-dim=5 use-bias=false orthonormal-constraint=1").info()
    assert ", orthonormal-constraint=1, time-offsets=-1,1, linear-params-rms=" in text
    assert text.endswith(
        ", has-bias=false, rank-in=4, rank-out=3, num-samples-history=2000, update-period=4, alpha-in=4, alpha-out=4"
    )


TestTdnn = component_contract(
    "TdnnComponent",
    good=["time-offsets=-2,0,1 input-dim=3 output-dim=4", "time-offsets=3 input-dim=3 output-dim=4 use-bias=false"],
    rows=rows_of(table(range(4), ns=range(2)), ALL),
    file=written("TdnnComponent", "time-offsets=-1,0 input-dim=2 output-dim=2", bias_params=7.0),
    bad_configs=[
        ("input-dim=2 output-dim=2", "'time-offsets=' is missing"),
        ("time-offsets= input-dim=2 output-dim=2", "must be different integers"),
        ("time-offsets=1,0,1 input-dim=2 output-dim=2", "must be different integers"),
        ("time-offsets=0,2147483647 input-dim=2 output-dim=2", "frames at most"),
        ("time-offsets=1,a input-dim=2 output-dim=2", "a list of integers"),
        ("time-offsets=0 input-dim=0 output-dim=2", "'input-dim' must be >= 1"),
        ("time-offsets=0 input-dim=2 output-dim=2 rank-in=0", "'rank-in' must be positive"),
        ("time-offsets=0 input-dim=2 output-dim=2 num-samples-history=0", "'num-samples-history' must be > 0"),
        ("time-offsets=0 input-dim=2 output-dim=2 update-period=4", "unknown key 'update-period'"),
    ],
    bad_files=[
        ("<TimeOffsets> [ -1 0 ]", "<TimeOffsets> [ 0 0 ]", "<TimeOffsets> must be different integers"),
        ("<TimeOffsets> [ -1 0 ]", "<TimeOffsets> [ ]", "<TimeOffsets> must be different integers"),
        ("<TimeOffsets> [ -1 0 ]", "<TimeOffsets> [ -1 0 1 ]", "does not fit 3 time offsets"),
        ("<BiasParams>  [ 7", "<BiasParams>  [", "<BiasParams> must have 0 or 2 elements, got 1"),
        ("<RankInOut> 2 1", "<RankInOut> 0 1", "<RankInOut> must be >= 1"),
        ("<AlphaInOut>", "<Beta>", "expected <AlphaInOut> or <Alpha>"),
    ],
)
