"""Options are declared once: names, defaults and order follow, values are checked when they are given."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import FrozenInstanceError, dataclass

import pytest

from nnet3.base.options.declaring import Options, again, declared, option
from nnet3.base.text.values import Integer, Number, Text, at_least
from nnet3.errors import ArgumentError, TrainingError


@dataclass(frozen=True)
class Base(Options):
    num_epochs: int = option(3, Integer(at_least(1)), "Epochs.", unit="epochs", flag="epochs")
    rate: float = option(0.5, Number(at_least(0)), "Rate.", program_default=0.1, steers=False)
    plain: int = 0  # no option


@dataclass(frozen=True)
class Derived(Base):
    error = TrainingError

    name: str = option("", Text(), "Name.", hidden=True)
    rate: float = again(Base, "rate", 0.25)

    def conflicts(self) -> Iterator[tuple[str, str]]:
        if self.name == "no" and self.num_epochs > 1:
            yield "num_epochs", "too many epochs"


def test_a_declaration_says_it_all() -> None:
    epochs, rate = declared(Base)
    assert (epochs.name, epochs.key, epochs.flag, epochs.unit) == ("num_epochs", "num-epochs", "epochs", "epochs")
    assert (epochs.default, epochs.program_default, epochs.steers, epochs.hidden) == (3, 3, True, False)
    assert (rate.flag, rate.default, rate.program_default, rate.steers) == ("rate", 0.5, 0.1, False)


def test_own_options_come_before_those_of_the_base() -> None:
    assert [item.name for item in declared(Derived)] == ["name", "rate", "num_epochs"]
    again_declared = declared(Derived)[1]
    assert (again_declared.default, again_declared.program_default) == (0.25, 0.25)
    assert again_declared.help == "Rate."


def test_values_are_those_of_the_options_alone() -> None:
    assert Base(plain=7).values() == {"num_epochs": 3, "rate": 0.5}
    with pytest.raises(FrozenInstanceError):
        Base().rate = 1.0  # type: ignore[misc]


def test_values_become_what_their_kinds_make_of_them() -> None:
    rate = Base(rate=1).rate
    assert (rate, type(rate)) == (1.0, float)


@pytest.mark.parametrize(("kind", "error"), [(Base, ArgumentError), (Derived, TrainingError)])
def test_a_wrong_value_is_an_error_that_names_its_option(kind: type[Base], error: type[Exception]) -> None:
    with pytest.raises(error, match=r"num_epochs must be .*>= 1.*, got 0") as caught:
        kind(num_epochs=0)
    assert caught.value.option == "num_epochs"  # type: ignore[attr-defined]


def test_values_that_do_not_go_together() -> None:
    assert Derived(name="no", num_epochs=1).name == "no"
    with pytest.raises(TrainingError, match="too many epochs") as caught:
        Derived(name="no")
    assert caught.value.option == "num_epochs"
