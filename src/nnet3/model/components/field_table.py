"""Fields of components: config keys, form in a file and info line, declared once; summaries of vectors, matrices."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields as dataclass_fields
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nnet3.base.kaldi_io.reader import Reader
from nnet3.base.kaldi_io.writer import Writer
from nnet3.base.text import ConfigLine
from nnet3.base.text.declared import REQUIRED, Declared
from nnet3.model.components.value_kinds import Kind, Values

_PERCENTILES = (0, 1, 2, 5, 10, 20, 50, 80, 90, 95, 98, 99, 100)


def format_number(value: float, digits: int = 6) -> str:
    """Returns a number with `digits` significant digits, as C++ streams print it."""
    return f"{value:.{digits}g}".replace("nan", "-nan" if np.signbit(value) else "nan")


def _element(value: float) -> str:
    size = abs(value)
    if 10 <= size < 10000:
        return f"{value:.0f}"
    if size >= 0.995:
        return f"{value:.1f}"
    if size >= 0.01:
        return f"{value:.2f}"
    return f"{value:.1g}"


def summarize_vector(vector: Tensor | np.ndarray) -> str:
    """Returns `[ v1 v2 ]` below 10 elements, else percentiles, mean and standard deviation."""
    values = torch.as_tensor(vector).float().double().numpy()  # Kaldi rounds to float32 first: 0.365 is 0.37
    if values.size < 10:
        return "[ " + "".join(f"{_element(v)} " for v in values) + "]"
    ordered = np.sort(values)
    shown = [_element(ordered[(values.size - 1) * q // 100]) for q in _PERCENTILES]
    parts = (",".join(shown[:4]), ",".join(shown[4:9]), ",".join(shown[9:]))
    with np.errstate(invalid="ignore", over="ignore"):  # of infinite values, or squared ones
        mean = values.mean()
        stddev = np.sqrt(max(0.0, float((values * values).mean() - mean * mean)))
    return (
        f"[percentiles(0,1,2,5 10,20,50,80,90 95,98,99,100)=({' '.join(parts)}), "
        f"mean={format_number(mean, 3)}, stddev={format_number(stddev, 3)}]"
    )


def least_and_most(name: str, tensor: Tensor) -> str:
    """Returns `, NAME-min=m, NAME-max=m`."""
    least, most = (format_number(float(value)) for value in torch.aminmax(tensor))
    return f", {name}-min={least}, {name}-max={most}"


def mean_stddev(name: str, tensor: Tensor) -> str:
    """Returns `, NAME-{mean,stddev}=m,s` with 4 significant digits, in float32 and not floored, as Kaldi does it."""
    values = tensor.detach().cpu().float().numpy().ravel()
    if values.size == 0:
        return f", {name}-{{mean,stddev}}=0,0"
    with np.errstate(invalid="ignore", over="ignore"):
        mean = np.float32(values.mean(dtype=np.float32))
        square = np.float32(np.mean(values * values, dtype=np.float32))
        variance = np.float32(np.float64(square) - np.float64(mean) ** 2)  # rounded once: Kaldi's is a fused one
        stddev = np.sqrt(variance)  # NaN where rounding takes it below 0, as in Kaldi
    return f", {name}-{{mean,stddev}}={format_number(float(mean), 4)},{format_number(float(stddev), 4)}"


def rms(name: str, tensor: Tensor) -> str:
    """Returns `, NAME-rms=r`."""
    values = tensor.detach().double()
    value = float(values.square().mean().sqrt()) if values.numel() else 0.0
    return f", {name}-rms={format_number(value, 4)}"


def row_and_column_norms(name: str, matrix: Tensor) -> str:
    """Returns `, NAME-row-norms=[...], NAME-col-norms=[...]` (Euclidean)."""
    values = matrix.detach().double().cpu()
    rows, columns = values.square().sum(1).sqrt(), values.square().sum(0).sqrt()
    return f", {name}-row-norms={summarize_vector(rows)}, {name}-col-norms={summarize_vector(columns)}"


ALWAYS: Any = object()


#: What is wrong with a value, given the fields before it; "" if nothing. It follows on the name of the field.
Check = Callable[[Any, Values], str]


@dataclass(frozen=True)
class Same:
    """A default or a value to leave out: what another field has."""

    name: str


@dataclass(frozen=True)
class Field(Declared):
    """One value of a component, in the order of the file.

    `name` is the attribute; the config key and the token follow from it ("block-dim", "<BlockDim>") unless given, and
    are None where there is none. A token "" stands for a second value behind the token before.
    `default` of the config key; without one it must be given. `check` says what is wrong with a value, given those
    of the fields before, "" if nothing; it holds for config lines and files.
    `optional`: the token may be missing in a file, then the value is what the constructor sets; if this is a name, the
    token is there if that field's is.
    `omitted`: the value that is not written. `hidden`: the value that info does not show.
    `per`: the file holds a mean (or its `root`), the attribute the sum: the mean times this attribute.
    `old_token`: what old files have in the place of the token.
    """

    kind: Kind
    key: str | None = "-"
    token: str | None = "<>"
    check: Check | None = None
    optional: bool | str = False
    saved: bool = True
    omitted: Any = ALWAYS
    hidden: Any = ALWAYS
    per: str = ""
    root: bool = False
    old_token: str = ""

    @property
    def label(self) -> str:
        """The config key; without one the would-be key."""
        return self.name.replace("_", "-") if self.key in (None, "-") else str(self.key)

    @property
    def token_text(self) -> str:
        """The token, as it is or follows from the name."""
        return f"<{self.name.title().replace('_', '')}>" if self.token == "<>" else str(self.token)

    def parse(self, line: ConfigLine, values: dict[str, Any]) -> None:
        """Takes the value from a config line, unless the value is given or the field has no key."""
        if self.key is None or self.name in values:
            return
        default = {} if self.default is REQUIRED else {"default": _resolve(self.default, values.__getitem__)}
        value = values[self.name] = self.kind.parse(line, self.label, default)
        fault = self.check(value, values) if self.check is not None else ""
        if fault:
            raise line.error(_sentence(f"'{self.label}'", fault), self.label)

    def read(self, reader: Reader, values: dict[str, Any]) -> None:
        """Takes the value from a file."""
        if self.token is None:
            return
        what = self.token_text
        if isinstance(self.optional, str) and self.optional not in values:
            return
        if self.optional is True:
            if not reader.accept(what):
                return
        elif what:
            reader.expect(*(token for token in (what, self.old_token) if token))
        elif self.name in values:
            return  # an old file, where one token stands for both
        start = reader.position
        value = self.kind.load(reader, what or self.label, values)
        if self.name:
            values[self.name] = value
        fault = self.check(value, values) if self.check is not None else ""
        if fault:
            raise reader.error_at(start, _sentence(what, fault))

    def write(self, writer: Writer, component: Any) -> None:
        if self.token is None or not self.saved:
            return
        value = getattr(component, self.name)
        if self.omitted is not ALWAYS and value == _resolve(self.omitted, lambda name: getattr(component, name)):
            return
        if self.per:
            value = value / (getattr(component, self.per) or 1.0)
            value = value.clamp(min=0.0).sqrt() if self.root else value
        if self.token:
            writer.token(self.token_text)
        self.kind.write(writer, value)

    def is_hidden(self, component: Any) -> bool:
        if self.hidden is ALWAYS:
            return False
        return bool(getattr(component, self.name) == _resolve(self.hidden, lambda name: getattr(component, name)))


def obsolete(kind: Kind, *tokens: str) -> tuple[Field, ...]:
    """Values of old files, without a meaning now."""
    return tuple(Field("", kind, None, token, optional=True, saved=False) for token in tokens)


@dataclass(frozen=True)
class Summary:
    """A part of info about a tensor: a function of a name and the tensor that gives `, name-rms=...` or so."""

    function: Callable[[str, Tensor], str]
    attribute: str
    name: str = ""

    def __call__(self, component: Any) -> str:
        return self.function(self.name or self.attribute.replace("_", "-"), getattr(component, self.attribute))


#: What an info line shows: attributes, as `name=value`, and whatever a function of the component gives.
Shown = Sequence["str | Callable[[Any], str]"]


def show(component: Any, fields: Sequence[Field], shown: Shown) -> str:
    """Returns the info line but for the type name: `, key=value` for each attribute shown that is not hidden."""
    by_name = {field.name: field for field in reversed(fields)}
    text = ""
    for item in shown:
        if not isinstance(item, str):
            text += item(component)
            continue
        field = by_name.get(item)
        if field is None:
            text += f", {item.replace('_', '-')}={_shown(getattr(component, item))}"
        elif not field.is_hidden(component):
            text += f", {field.label}={_shown(getattr(component, item))}"
    return text


def read_fields(reader: Reader, fields: Sequence[Field]) -> dict[str, Any]:
    """Returns the values of consecutive fields, by name."""
    values: dict[str, Any] = {}
    for field in fields:
        field.read(reader, values)
    return values


def write_fields(writer: Writer, component: Any, fields: Sequence[Field]) -> None:
    for field in fields:
        field.write(writer, component)


def divisor_of(name: str) -> Check:
    """Returns the check that a value divides another value."""

    def check(value: Any, values: Values) -> str:
        whole = values[name]
        return "" if value > 0 and whole % value == 0 else f"must divide {name.replace('_', '-')}={whole}, got {value}"

    return check


def at_most(name: str) -> Check:
    """Returns the check that a value is not greater than another value."""

    def check(value: Any, values: Values) -> str:
        most = values[name]
        return "" if value <= most else f"must be <= {name.replace('_', '-')}={most}, got {value}"

    return check


def packed(values: Values, parts: type[Any], name: str) -> dict[str, Any]:
    """Returns the values, with the values for fields of a dataclass put together in an object of the dataclass."""
    names = {part.name for part in dataclass_fields(parts)}
    others = {key: value for key, value in values.items() if key not in names}
    return {**others, name: parts(**{key: value for key, value in values.items() if key in names})}


def multiple_of_length(name: str) -> Check:
    """Returns the check that a value is a multiple of the length of a vector."""

    def check(value: Any, values: Values) -> str:
        length = len(values[name])
        return "" if value % length == 0 else f"must be a multiple of the {length} {name}, got {value}"

    return check


def length_of(name: str) -> Callable[[Values], int]:
    """Returns the number of rows or elements of a field."""
    return lambda values: len(values[name])


def value_of(name: str) -> Callable[[Values], int]:
    """Returns the value of a field."""
    return lambda values: int(values[name])


def _resolve(value: Any, find: Callable[[str], Any]) -> Any:
    return find(value.name) if isinstance(value, Same) else value


def _sentence(what: str, fault: str) -> str:
    return f"{what}{fault}" if fault.startswith(":") else f"{what} {fault}"


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float | Tensor):
        return format_number(float(value))
    return str(value)


def assign(component: Any, fields: Sequence[Field], values: Mapping[str, Any]) -> None:
    """Sets the values of fields not taken by the constructor; sums come after their divisors."""
    sums = {field.name: field for field in fields if field.per}
    for name, value in sorted(values.items(), key=lambda item: item[0] in sums):
        if value is not None and name in sums:
            mean = value.square() if sums[name].root else value
            value = mean * getattr(component, sums[name].per)
        if value is not None:
            setattr(component, name, value)
