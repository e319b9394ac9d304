"""What components carry of their config lines."""

from __future__ import annotations

import pytest

from nnet3.components import create
from nnet3.errors import ConfigError
from nnet3.model.xconfig.statements import ComponentStatement, settings
from nnet3.model.xconfig.trained_settings import carried_settings, differences, is_config_key, settings_of


def statement(**values: object) -> ComponentStatement:
    return ComponentStatement("a", "NaturalGradientAffineComponent", settings(input_dim=3, output_dim=2, **values))


def test_initial_values_are_not_carried() -> None:
    assert settings_of(statement(param_stddev=0.5, bias_mean=3)) == settings_of(statement())


def test_differences_of_settings_are_named() -> None:
    component = create("NaturalGradientAffineComponent", "input-dim=3 output-dim=2 max-change=0.1 rank-in=2", seed=3)
    component.set_learning_rate(0.5)
    carried = carried_settings(component)
    assert carried["type"] == "NaturalGradientAffineComponent"
    assert differences(carried, settings_of(statement(max_change=0.1, rank_in=2))) == []
    assert differences(carried, settings_of(statement(rank_in=1))) == ["max-change", "rank-in"]
    wider = carried_settings(create("NaturalGradientAffineComponent", "input-dim=4 output-dim=2"))
    assert "shape of linear_params" in differences(carried, wider)
    assert not is_config_key("shape of linear_params")


def test_large_components_take_no_memory() -> None:
    large = ComponentStatement("a", "LinearComponent", settings(input_dim=2**20, output_dim=2**20))
    assert settings_of(large)["shape of params"] == (2**20, 2**20)


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(ConfigError):
        settings_of(statement(max_chage=1))
