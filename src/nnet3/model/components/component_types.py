"""All component types by name: create one from config text, read one from a file."""

from __future__ import annotations

import os
from typing import TypeVar

from nnet3.base.kaldi_io.reader import Reader
from nnet3.base.text import ConfigLine, did_you_mean, parse_config_line
from nnet3.errors import Span, check_kind, is_out_of_memory
from nnet3.model.components.base import Component
from nnet3.model.components.random_source import RandomSource

COMPONENT_TYPES: dict[str, type[Component]] = {}

C = TypeVar("C", bound=type[Component])


def register(cls: C) -> C:
    """Class decorator: makes the type known under the class's name, which becomes the `type_name`."""
    cls.type_name = cls.__name__
    COMPONENT_TYPES[cls.type_name] = cls
    return cls


def create(type_name: str, config: str = "", *, seed: int = 0) -> Component:
    """Returns a component of config keys: `create("TanhComponent", "dim=20")`. `seed`: of random parameters.

    Raises ConfigError for an unknown type, a wrong or unknown key, or a missing one.
    """
    check_kind(type_name, str, "the type of a component", "a str such as 'TanhComponent'")
    check_kind(config, str, "the config of a component", "a str such as 'dim=20'")
    text = f"component type={type_name} {config}"
    line = parse_config_line(Span("<config>", 1, 1, len(text), text))
    line.subject = type_name
    return create_from_line(line, RandomSource(seed))


def create_from_line(line: ConfigLine, rng: RandomSource) -> Component:
    """Returns a component from a config line with `type=`; every key of the line must be used by the type."""
    type_name = line.string("type")
    if type_name not in COMPONENT_TYPES:
        raise line.error(f"unknown component type '{type_name}'", "type", _suggest_type(type_name))
    try:
        component = COMPONENT_TYPES[type_name].from_config(line, rng)
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        raise line.error("a component of this size does not fit into memory") from None
    line.finish()
    return component


def _suggest_type(name: str) -> str:
    """Returns the type meant by a name, possibly without its Component."""
    for known in COMPONENT_TYPES:
        if known.lower() == f"{name.lower()}component":
            return f"did you mean '{known}'?"
    by_short_name = {known.removesuffix("Component"): known for known in COMPONENT_TYPES}
    near = did_you_mean(name, COMPONENT_TYPES) or did_you_mean(name, by_short_name, similarity=0.75)
    for short, known in by_short_name.items():
        near = near.replace(f"'{short}'", f"'{known}'")
    return near


def read(path: str | os.PathLike[str]) -> Component:
    """Reads the file of one component at `path`, text or binary (detected). Raises ModelFormatError."""
    return Reader.open(path).whole(read_from)


def read_from(reader: Reader) -> Component:
    """Reads a component, its opening token included."""
    token = reader.token()
    type_name = token[1:-1] if token.startswith("<") and token.endswith(">") else ""
    if type_name not in COMPONENT_TYPES:
        hint = did_you_mean(type_name, COMPONENT_TYPES)
        raise reader.error(f"expected a component such as <TanhComponent>, got '{token}'{'; ' + hint if hint else ''}")
    with reader.nested(type_name):
        return COMPONENT_TYPES[type_name].read(reader)
