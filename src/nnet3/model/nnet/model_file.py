"""Reads raw networks from files, node lines and components, and counts numbers that are not finite."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from nnet3.base.kaldi_io.reader import Reader
from nnet3.engine.ir.matrices import is_finite
from nnet3.errors import ConfigError, ModelFormatError
from nnet3.model.components.base import Component
from nnet3.model.components.component_types import read_from
from nnet3.model.components.random_source import RandomSource
from nnet3.model.nnet.network import Nnet
from nnet3.model.nnet.other_models import other_model
from nnet3.model.structure.config_reader import apply_config
from nnet3.model.structure.parts import NetworkParts

_MOST_COMPONENTS = 99999
_MOST_LINES = 200_000
_MOST_LINE_BYTES = 1 << 21

_ConfigLines = list[tuple[int, str]]  # (offset in the file, text)


def read_nnet(reader: Reader) -> Nnet:
    """Reads `<Nnet3> ... </Nnet3>`. Raises ModelFormatError; orphans only give warnings."""
    start = reader.position
    try:
        reader.expect("<Nnet3>")
    except ModelFormatError as error:
        raise ModelFormatError(error.message + other_model(reader), error.source, error.place) from None
    lines = _read_config_lines(reader)
    components = _read_components(reader)
    reader.expect("</Nnet3>")
    parts, warnings = _resolve(reader, start, lines, components)
    return Nnet(parts.nodes, components, [*not_finite_warnings(components), *warnings])


def _read_config_lines(reader: Reader) -> _ConfigLines:
    """Reads the lines up to an empty one; the rest of the opening token's own line must be empty too."""
    lines: _ConfigLines = []
    opening_line_ended = reader.data[reader.position - 1 : reader.position] == b"\n"
    if not opening_line_ended:
        start = reader.position
        if _bounded_line(reader).strip():
            raise reader.error_at(start, "expected the end of the line after <Nnet3>")
    while True:
        start = reader.position
        line = _bounded_line(reader)
        if not line:
            return lines
        if line.startswith("<"):
            raise reader.error_at(
                start, f"expected a node line, or an empty line after the last one, got '{line[:60]}'"
            )
        if len(lines) == _MOST_LINES:
            raise reader.error_at(start, f"the network has more than {_MOST_LINES} node lines")
        lines.append((start, line))


def _bounded_line(reader: Reader) -> str:
    start = reader.position
    if reader.data.find(b"\n", start, start + _MOST_LINE_BYTES + 1) < 0 and reader.left > _MOST_LINE_BYTES:
        raise reader.error(f"expected a node line, got more than {_MOST_LINE_BYTES} bytes without the end of a line")
    return reader.line()


def _read_components(reader: Reader) -> dict[str, Component]:
    reader.expect("<NumComponents>")
    start = reader.position
    count = reader.int32()
    if not 0 <= count <= _MOST_COMPONENTS:
        raise reader.error_at(start, f"the number of components must be in 0 .. {_MOST_COMPONENTS}, got {count}")
    components: dict[str, Component] = {}
    for _ in range(count):
        reader.expect("<ComponentName>")
        start = reader.position
        name = reader.token()
        if name in components:
            raise reader.error_at(start, f"there are two components with the name '{name}'")
        try:
            components[name] = read_from(reader)
            reader.release()
        except ModelFormatError as error:
            raise ModelFormatError(f"component '{name}': {error.message}", error.source, error.place) from None
    return components


def _resolve(
    reader: Reader, start: int, lines: _ConfigLines, components: dict[str, Component]
) -> tuple[NetworkParts, list[str]]:
    """Makes nodes of lines; returns parts and warnings. An error in a line names the line's place in the file."""
    text = "\n".join(line for _, line in lines)
    try:
        return apply_config(NetworkParts((), components), text, reader.source, RandomSource(0), allow_components=False)
    except ConfigError as error:
        if error.span is None:
            raise reader.error_at(start, str(error)) from None
        line_start, line = lines[error.span.line - 1]
        offset = line_start + len(line[: error.span.column - 1].encode())
        raise reader.error_at(offset, f"{error.message}\n{error.span.excerpt(error.hint)}") from None


def num_not_finite(component: Component) -> int:
    """Counts the NaNs and infinities in a component's parameters, constants and statistics."""
    names = (*component.constant_names, *component.statistic_names)
    values = [*component.parameters().values(), *(getattr(component, name) for name in names)]
    return sum(_count(value) for value in values if isinstance(value, Tensor) and value.is_floating_point())


def _count(tensor: Tensor) -> int:
    """Counts the elements that are not finite."""
    return 0 if is_finite(tensor) else int((~tensor.isfinite()).sum())


def not_finite_warnings(components: Mapping[str, Component]) -> list[str]:
    """Returns a warning for each component with NaNs or infinities, damaged in training."""
    warnings = []
    for name, component in components.items():
        count = num_not_finite(component)
        if count:
            numbers = "1 number that is" if count == 1 else f"{count} numbers that are"
            warnings.append(f"component '{name}' has {numbers} NaN or infinite: its outputs cannot be trusted")
    return warnings
