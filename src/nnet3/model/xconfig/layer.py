"""Layer types with their keys, and a layer: a type with a name, values of all keys and an input."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from nnet3.base.text import did_you_mean, values
from nnet3.base.text.declared import Declared
from nnet3.base.text.values import Rule
from nnet3.errors import ConfigError
from nnet3.model.xconfig.expansion import Expander, Expansion
from nnet3.model.xconfig.found import Reads
from nnet3.model.xconfig.line import XconfigLine
from nnet3.model.xconfig.statements import Settings, show
from nnet3.model.xconfig.term import Term

Value = int | float | bool | str


@dataclass(frozen=True)
class Pairs(values.Text):
    """Text that holds key=value pairs for a component."""

    kind: ClassVar[str] = "key=value pairs"


_KINDS: dict[type, values.Value] = {
    bool: values.Boolean(by_first_letter=False),
    int: values.Integer(),
    float: values.Number(finite=False),
    str: values.Text(),
}


@dataclass(frozen=True)
class Key(Declared):
    """A key of a layer type; `absent` says in words what is used instead of the default."""

    absent: str = ""

    @classmethod
    def of(cls, name: str, default: Value, help: str, rule: Rule = values.ANY, absent: str = "") -> Key:
        """Returns a key whose values have the type of the default; "" stands for text."""
        return cls(name, replace(_KINDS[type(default)], rule=rule), absent, default=default, help=help)


def passed(name: str, help: str) -> Key:
    """Returns a key printed to a component as it is, or left out if not given."""
    return Key.of(name, "", help)


def options(name: str, help: str, default: str = "") -> Key:
    """Returns a key whose text is further keys of a component."""
    return Key(name, Pairs(), default=default, help=help)


_OPTION = re.compile(r"(?:^| )([A-Za-z_][A-Za-z0-9_.\-]*)=")


@dataclass(frozen=True)
class LayerType:
    """A kind of layer: its keys, and its expansion as nodes and components.

    `settle` works out values that follow from others and raises where values do not fit together; `expand` adds nodes
    and components to an expander. `example` is a line without the type and the name. `reads` reads the values of keys
    from a network with the layer (reads.py); the read of "input" gives a term.
    """

    name: str
    summary: str
    keys: tuple[Key, ...]
    expand: Callable[[Layer, Expander], None]
    settle: Callable[[Layer], None] = lambda layer: None
    example: str = ""
    has_input: bool = True
    reads: Reads = field(default_factory=dict)

    def key(self, name: str) -> Key | None:
        """Returns the key of a name; None without one."""
        return next((key for key in self.keys if key.name == name), None)


@dataclass
class Layer:
    """A layer with all values known, derived values included: `layer["dim"]`.

    `input` is a descriptor of nodes, `input_dim` the number of columns. `written_input` and `normal_input` are the
    descriptor of layers as typed and in normal form.
    """

    type: LayerType
    name: str
    values: dict[str, Any]
    input: Term
    input_dim: int
    line: XconfigLine | None = None
    written_input: str = ""
    normal_input: str = ""
    given: set[str] = field(default_factory=set)

    def __getitem__(self, key: str) -> Any:
        return self.values[key]

    def __setitem__(self, key: str, value: Value) -> None:
        self.values[key] = value

    def error(self, message: str, key: str | None = None, hint: str = "") -> ConfigError:
        """Returns an error at the value of `key` if it is given, else at the layer's type."""
        span = None
        if self.line is not None:
            value = self.line.values.get(key) if key else None
            span = value.span if value else self.line.span
        return ConfigError(f"{self.type.name} '{self.name}': {message}", span, hint)

    def require(self, holds: bool, key: str, rule: str) -> None:
        """Raises unless a value keeps a rule, which is given in words: "must be < dim (80)"."""
        if holds:
            return
        if key in self.given:
            raise self.error(f"'{key}' {rule}, got {show(self[key])}", key)
        declared = self.type.key(key)
        if self[key] in ("", -1) or (declared is not None and declared.required):
            raise self.error(f"'{key}=' is missing: it {rule}")
        raise self.error(f"'{key}' {rule}, and is {show(self[key])} unless given")

    def given_settings(self, *keys: str) -> Settings:
        """Settings of a component from equally named keys of the layer, without settings of empty text."""
        pairs = ((key, show(self[key])) for key in keys)
        return tuple(pair for pair in pairs if pair[1])

    def options(self, key: str) -> Settings:
        """Returns the settings in a text of `key=value` pairs. Raises ConfigError for any other text."""
        text = self[key]
        found = list(_OPTION.finditer(text))
        if not text:
            return ()
        if not found or found[0].start() > 0:
            raise self.error(f"'{key}' must be key=value pairs in double quotes, got '{text}'", key)
        ends = [match.start() for match in found[1:]] + [len(text)]
        return tuple((m.group(1), text[m.end() : end].strip()) for m, end in zip(found, ends, strict=True))


def expand_layer(layer: Layer) -> Expansion:
    """Returns the nodes and components of a layer."""
    expander = Expander(layer.name)
    layer.type.expand(layer, expander)
    return expander.expansion()


def make_layer(
    layer_type: LayerType,
    name: str,
    values: Mapping[str, Value],
    input: Term,
    input_dim: int,
    line: XconfigLine | None = None,
) -> Layer:
    """Returns a layer of some values and the defaults of all further keys. Text is read as in an xconfig.

    Raises ConfigError for unknown keys, for values of a wrong type and for values that break a rule.
    """
    layer = Layer(layer_type, name, {key.name: key.default for key in layer_type.keys}, input, input_dim, line)
    _check_keys(layer, values)
    layer.given = set(values)
    for key in layer_type.keys:
        if key.name in values:
            layer[key.name] = _read(layer, key, values[key.name])
        if fault := key.fault(layer[key.name]):
            layer.require(False, key.name, fault)
    for key in layer_type.keys:
        if isinstance(key.kind, Pairs):
            layer.options(key.name)
    layer_type.settle(layer)
    return layer


def _check_keys(layer: Layer, values: Mapping[str, Value]) -> None:
    known = [key.name for key in layer.type.keys]
    for key in values:
        if key not in known:
            all_keys = ["name", *(["input"] if layer.type.has_input else []), *known]
            hint = did_you_mean(key, all_keys) or "known keys: " + ", ".join(all_keys)
            span = layer.line.values[key].key if layer.line is not None else None
            raise ConfigError(f"{layer.type.name} '{layer.name}': unknown key '{key}'", span, hint)


def _read(layer: Layer, key: Key, value: Value) -> Value:
    if isinstance(value, float | int) and not isinstance(key.default, str):
        return type(key.default)(value)
    try:
        return key.kind.read(str(value))
    except ValueError as error:
        raise layer.error(f"'{key.name}' must be {error}, got '{value}'", key.name) from None
