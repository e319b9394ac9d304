"""A value that is declared once: whether it must be given, and what is wrong with one that is."""

from __future__ import annotations

import dataclasses

import pytest

from nnet3.base.text.declared import REQUIRED, Declared
from nnet3.base.text.values import Integer, Number, Text, at_least, choice
from nnet3.model.components.field_table import Field
from nnet3.model.components.value_kinds import SIZE
from nnet3.model.xconfig.layer_types import LAYER_TYPES
from nnet3.options import TrainerOptions, declared


@pytest.mark.parametrize(
    ("one", "required"),
    [
        (Declared("dim", Integer()), True),
        (Declared("dim", Integer(), default=REQUIRED), True),
        (Declared("dim", Integer(at_least(1)), default=-1), True),
        (Declared("dim", Integer(at_least(1)), default=1), False),
        (Declared("file", Text(), default=""), False),
        (Declared("mode", choice("fast", "slow"), default=""), True),
    ],
)
def test_a_default_that_breaks_the_rule_is_none(one: Declared, required: bool) -> None:
    assert one.required is required


def test_the_fault_is_the_rule_in_words() -> None:
    scale = Declared("scale", Number(at_least(0.5)), default=1.0, help="Multiplies.")
    assert [scale.fault(value) for value in (0.5, 2.0, 0.4, -1)] == ["", "", "must be >= 0.5", "must be >= 0.5"]
    assert scale.help == "Multiplies."
    assert Declared("text", Text()).fault("") == ""
    with pytest.raises(dataclasses.FrozenInstanceError):
        scale.name = "other"  # type: ignore[misc]


def test_options_keys_of_layers_and_fields_of_components_are_declared() -> None:
    keys = [key for layer_type in LAYER_TYPES.values() for key in layer_type.keys]
    options = declared(TrainerOptions)
    assert len(keys) > 100
    assert all(isinstance(one, Declared) for one in (*keys, *options, Field("dim", SIZE)))
    assert all(one.help for one in (*keys, *options))
    assert not any(one.required for one in options)
