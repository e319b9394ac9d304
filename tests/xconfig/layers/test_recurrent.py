"""What LSTM and GRU layers share: dimensions that follow from others, decay, the value of one step ago."""

from __future__ import annotations

import pytest

from nnet3.errors import ConfigError
from nnet3.model.xconfig.expansion import Expander
from nnet3.model.xconfig.layer import Value
from nnet3.model.xconfig.layers.recurrent import RecurrentUnit, decay_scale
from nnet3.model.xconfig.term import name
from nnet3.xconfig import LAYER_TYPES, Layer, make_layer


def _layer(layer_type: str, **values: Value) -> Layer:
    given = {key.replace("_", "-"): value for key, value in values.items()}
    return make_layer(LAYER_TYPES[layer_type], "layer", given, name("input"), 12)


def _unit(layer_type: str, **values: Value) -> RecurrentUnit:
    layer = _layer(layer_type, **values)
    return RecurrentUnit(layer, Expander(layer.name))


@pytest.mark.parametrize(("given", "cells"), [({}, 12), ({"cell_dim": -1}, 12), ({"cell_dim": 7}, 7)])
def test_cells_are_as_many_as_the_input_has_columns_unless_they_are_given(given: dict[str, Value], cells: int) -> None:
    assert _layer("lstm-layer", **given)["cell-dim"] == cells


@pytest.mark.parametrize(
    ("given", "projections"),
    [
        ({"cell_dim": 8}, (2, 2)),
        ({"cell_dim": 9, "recurrent_projection_dim": 3}, (3, 3)),
        ({"cell_dim": 8, "recurrent_projection_dim": 3, "non_recurrent_projection_dim": 5}, (3, 5)),
    ],
)
def test_projections_follow_from_the_cells(given: dict[str, Value], projections: tuple[int, int]) -> None:
    layer = _layer("lstmp-layer", **given)
    assert (layer["recurrent-projection-dim"], layer["non-recurrent-projection-dim"]) == projections
    unit = _unit("lstmp-layer", **given)
    assert (given["cell_dim"], *projections) == (unit.C, unit.R, unit.P)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"cell_dim": 3}, "must be at least 4 unless recurrent-projection-dim is given"),
        ({"cell_dim": 5, "recurrent_projection_dim": 3}, r"at least the sum of the projection dimensions \(6\)"),
    ],
)
def test_projections_that_do_not_fit(given: dict[str, Value], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        _layer("lstmp-layer", **given)


@pytest.mark.parametrize(
    ("given", "scale"), [({}, 1.0), ({"decay_time": 20}, 0.95), ({"decay_time": 20, "delay": -3}, 0.85)]
)
def test_a_memory_decays_by_the_delay_over_the_decay_time(given: dict[str, Value], scale: float) -> None:
    assert decay_scale(_layer("lstm-layer", **given)) == pytest.approx(scale)


def test_a_decay_time_within_the_delay_is_refused() -> None:
    with pytest.raises(ConfigError, match="'decay-time' must be > 3, the delay, or negative"):
        decay_scale(_layer("lstm-layer", decay_time=3, delay=-3))


@pytest.mark.parametrize("delay", [-3, 2])
def test_the_previous_value_is_one_step_of_the_recurrence_away(delay: int) -> None:
    assert str(_unit("lstm-layer", delay=delay).previous("c")) == f"IfDefined(Offset(layer.c, {delay}))"


def test_one_minus_adds_a_constant_for_each_cell() -> None:
    assert str(_unit("lstm-layer", cell_dim=5).one_minus("z")) == "Sum(Scale(-1.0,layer.z), Const(1.0, 5))"
