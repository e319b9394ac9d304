"""Declares options: fields of a frozen dataclass that carry kind, default, unit and help."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from nnet3.base.text import Value
from nnet3.base.text.declared import Declared
from nnet3.errors import ArgumentError, Nnet3Error, shown

if TYPE_CHECKING:
    from typing_extensions import Self

_SAME = object()


@dataclass(frozen=True, kw_only=True)
class Option(Declared):
    """The declaration of an option.

    `flag` is its name on command lines, without dashes. `program_default` is the default of Kaldi's programs, for
    command lines and settings files. `steers`: the value changes the parameters of a trained network. `hidden`: the
    help of verbs does not show the option.
    """

    unit: str
    flag: str
    program_default: Any
    metavar: str | None
    steers: bool
    hidden: bool

    @property
    def key(self) -> str:
        """Its name in a settings file."""
        return self.name.replace("_", "-")


def option(
    default: Any,
    kind: Value,
    help: str,
    *,
    unit: str = "",
    flag: str = "",
    program_default: Any = _SAME,
    metavar: str | None = None,
    steers: bool = True,
    hidden: bool = False,
) -> Any:
    """Returns a field of an `Options` class; see `Option`."""
    said = {
        "kind": kind, "help": help, "unit": unit, "flag": flag, "program_default": program_default,
        "metavar": metavar, "steers": steers, "hidden": hidden,
    }  # fmt: skip
    return field(default=default, metadata={"option": said})


def again(of: type[Options], name: str, default: Any, **changes: Any) -> Any:
    """Returns a field declared by another class, with another default; `changes` replace arguments of `option`."""
    said = of.__dataclass_fields__[name].metadata["option"]
    return field(default=default, metadata={"option": said | {"program_default": _SAME} | changes})


def declared(options: type) -> tuple[Option, ...]:
    """Returns the options that a class declares: first the class's own, then the base's."""
    fields = {field.name: field for field in dataclasses.fields(options) if "option" in field.metadata}
    order = [name for base in options.__mro__ for name in inspect.get_annotations(base) if name in fields]
    return tuple(_option(fields[name]) for name in dict.fromkeys(order))


def _option(field: dataclasses.Field[Any]) -> Option:
    said = dict(field.metadata["option"])
    said["flag"] = said["flag"] or field.name.replace("_", "-")
    if said["program_default"] is _SAME:
        said["program_default"] = field.default
    return Option(name=field.name, default=field.default, **said)


@dataclass(frozen=True)
class Options:
    """Base of option classes: values are checked when given, and converted by the options' kinds.

    `class ChunkOptions(Options, error=TrainingError)` names the error raised for meaningless values.
    """

    error: ClassVar[type[Nnet3Error]] = ArgumentError

    def __init_subclass__(cls, error: type[Nnet3Error] | None = None) -> None:
        cls.error = error or cls.error

    def __post_init__(self) -> None:
        for item in declared(type(self)):
            value = getattr(self, item.name)
            try:
                object.__setattr__(self, item.name, item.kind.checked(value))
            except (ValueError, Nnet3Error) as error:
                raise self._about(item.name, f"{item.name} must be {error}, got {shown(value)}") from None
        for name, message in self.conflicts():
            raise self._about(name, message, *self.values())

    @classmethod
    def named(cls, **values: Any) -> Self:
        """Returns the options with these values, the others as by default. Raises `error` for an unknown name."""
        names = [item.name for item in declared(cls)]
        unknown = next((name for name in values if name not in names), None)
        if unknown is not None:
            raise cls.error(f"there is no option '{unknown}'; the options are {', '.join(names)}")
        return cls(**values)

    def _about(self, name: str, message: str, *others: str) -> Nnet3Error:
        error = self.error(message)
        error.option, error.others = name, others
        return error

    def conflicts(self) -> Iterator[tuple[str, str]]:
        """Yields the names of options with conflicting values, and a message for every name."""
        return iter(())

    def values(self) -> dict[str, Any]:
        """Returns the options that are declared, by name."""
        return {item.name: getattr(self, item.name) for item in declared(type(self))}
