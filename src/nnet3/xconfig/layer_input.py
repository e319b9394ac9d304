"""Inputs of layers as people write them: from a descriptor of nodes to one of layers, with the short forms."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from nnet3.errors import ConfigError
from nnet3.xconfig.expansion import Expansion
from nnet3.xconfig.found import normal_text, subterms
from nnet3.xconfig.term import Term, name, offset


@dataclass
class Outputs:
    """The layers so far by what they give: nodes, and expressions of nodes. `previous` is the last one's name."""

    of_term: dict[str, str] = field(default_factory=dict)
    expressions: dict[str, Term] = field(default_factory=dict)
    previous: str = ""

    def add(self, layer_name: str, expansion: Expansion) -> None:
        """Let later layers refer to a layer."""
        outputs = {layer_name: expansion.output}
        outputs |= {f"{layer_name}.{suffix}": output for suffix, output in expansion.auxiliary.items()}
        for known, output in outputs.items():
            if output is not None and output.term.is_name:
                self.of_term.setdefault(output.term.name, known)
            elif output is not None:
                self.expressions[known] = output.term
        self.previous = layer_name

    def written(self, nodes: Term) -> str:
        """The value of `input` for a descriptor of nodes; "" if it is the layer before."""
        layers = self._layers(nodes)
        if layers == name(self.previous):
            return ""
        has_offset = any(_time_of(part, self.previous) for part in subterms(layers))
        is_spliced = has_offset and set(_plain_names(layers)) == {self.previous}
        return written_term(layers, self.previous if is_spliced else "")

    def _layers(self, term: Term) -> Term:
        """The descriptor with layers in the place of nodes; nodes that no layer gives stay."""
        if term.is_name:
            return name(self.of_term.get(term.name, term.name))
        if self.expressions and (found := self._expression(term)) is not None:
            return found
        arguments = tuple(self._layers(part) if isinstance(part, Term) else part for part in term.arguments)
        return Term(term.operator, arguments)

    def _expression(self, term: Term) -> Term | None:
        """The layer whose output, at some offset, is this expression."""
        times = {int(str(part.arguments[1])) for part in subterms(term) if part.operator == "Offset"}
        text = str(term)
        for layer_name, output in self.expressions.items():
            if set(output.names()) != set(term.names()):
                continue
            for time in sorted({0, *times}, key=abs):
                shifted = offset(output, time) if time else output
                if _is_same(str(shifted), text):
                    return offset(name(layer_name), time) if time else name(layer_name)
        return None


def _is_same(descriptor: str, other: str) -> bool:
    try:
        return normal_text(descriptor) == normal_text(other)
    except ConfigError:
        return False


def _time_of(term: Term, layer: str) -> int:
    """The offset of a plain reference to a layer at another time, else 0."""
    if term.operator != "Offset" or len(term.arguments) != 2 or term.arguments[0] != name(layer):
        return 0
    return int(str(term.arguments[1]))


def _plain_names(term: Term) -> Iterator[str]:
    """The layers in a descriptor, but for those at a fixed index, such as ivectors."""
    if term.is_name:
        yield term.name
    elif term.operator != "ReplaceIndex":
        for part in term.arguments:
            yield from _plain_names(part) if isinstance(part, Term) else ()


def written_term(term: Term, previous: str = "") -> str:
    """Formats a descriptor with `layer@time`, and with the time alone for the layer `previous`."""
    if term.is_name:
        return "0" if term.name == previous else term.name
    if term.operator == "Offset" and len(term.arguments) == 2:
        source, time = term.arguments
        if isinstance(source, Term) and source.is_name:
            return str(time) if source.name == previous else f"{source.name}@{time}"
    shown = (written_term(part, previous) if isinstance(part, Term) else str(part) for part in term.arguments)
    return f"{term.operator}({', '.join(shown)})"


def quoted(values: Mapping[str, str]) -> list[str]:
    """Keys with values as an xconfig has them: what holds an `=` in double quotes."""
    return [f'{key}="{value}"' if "=" in value or not value else f"{key}={value}" for key, value in values.items()]
