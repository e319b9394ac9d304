"""Components in config lines, in files and in words, all from their tables of fields."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, ClassVar

from typing_extensions import Self

from nnet3.base.kaldi_io.reader import Reader
from nnet3.base.kaldi_io.writer import Writer
from nnet3.base.text import ConfigLine
from nnet3.errors import ComponentError
from nnet3.model.components.field_table import Field, Shown, assign, read_fields, show, write_fields
from nnet3.model.components.random_source import RandomSource


class ComponentFields:
    """The fields of a component; a subclass sets `fields`, and `register` its `type_name`."""

    type_name: ClassVar[str] = ""
    #: What config lines and files hold, in the order of the file.
    fields: ClassVar[tuple[Field, ...]] = ()
    #: The part before that in the file, and in the info line, for a whole family of types.
    header_fields: ClassVar[tuple[Field, ...]] = ()
    header_shown: ClassVar[Shown] = ()
    #: Attributes that the info line begins with, and what comes at its end.
    heading: ClassVar[tuple[str, ...]] = ("input_dim", "output_dim")
    shown: ClassVar[Shown] = ()

    input_dim: int
    output_dim: int

    @property
    def dim(self) -> int:
        """The input dimension, which is the output dimension too in types that have a field `dim`."""
        return self.input_dim

    @classmethod
    def initial_values(cls, line: ConfigLine, rng: RandomSource) -> dict[str, Any]:
        """Returns values of fields without a config key, for instance random initial parameters, by name."""
        return {}

    @classmethod
    def from_config(cls, line: ConfigLine, rng: RandomSource) -> Self:
        """Returns a new component from the keys of a config line; initial values are drawn from `rng`.

        Raises ConfigError at the offending key. The caller checks for left-over keys.
        """
        values = cls.initial_values(line, rng)
        for field in cls._all_fields("from_config"):
            field.parse(line, values)
        return cls.from_values(values)

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> Self:
        """Returns a component with these values of fields: arguments of the constructor, attributes set afterwards."""
        arguments = inspect.signature(cls).parameters
        component = cls(**{name: value for name, value in values.items() if name in arguments and value is not None})
        others = {name: value for name, value in values.items() if name not in arguments}
        assign(component, (*cls.header_fields, *cls.fields), others)
        return component

    @classmethod
    def read(cls, reader: Reader) -> Self:
        """Reads the fields after the opening token, up to and including the closing token."""
        values = read_fields(reader, cls._all_fields("read"))
        cls.read_end(reader)
        return cls.from_values(values)

    @classmethod
    def read_end(cls, reader: Reader) -> None:
        """Reads the closing token."""
        reader.expect(f"</{cls.type_name}>")

    def write_body(self, writer: Writer) -> None:
        """Writes the fields between the opening and the closing token."""
        write_fields(writer, self, self._all_fields("write_body"))

    @classmethod
    def _all_fields(cls, method: str) -> tuple[Field, ...]:
        if not cls.fields:
            raise ComponentError(f"{cls.type_name} declares no fields and defines no {method}")
        return (*cls.header_fields, *cls.fields)

    def write_to(self, writer: Writer) -> None:
        writer.token(f"<{self.type_name}>")
        self.write_body(writer)
        writer.token(f"</{self.type_name}>")

    def write(self, path: str, *, binary: bool = True) -> None:
        """Writes the component alone to a file (atomically), as Kaldi writes one."""
        writer = Writer.of_file(binary)
        self.write_to(writer)
        writer.newline()
        writer.write_to(path)

    def info(self) -> str:
        """Kaldi's one-line description."""
        shown = (*self.heading, *self.header_shown, *self.shown)
        return self.type_name + show(self, (*self.header_fields, *self.fields), shown)
