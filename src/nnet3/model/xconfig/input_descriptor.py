"""The descriptors of xconfigs: those of configs over layers instead of nodes, with short forms (docs/xconfig.md)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from nnet3.base.text import did_you_mean, read_number
from nnet3.errors import ConfigError, Span
from nnet3.model.xconfig.expansion import Expansion, Output
from nnet3.model.xconfig.line import XconfigValue
from nnet3.model.xconfig.term import OPERATORS, Term, const, name, offset, scale


@dataclass(frozen=True)
class Known:
    """A layer or node of the scope; auxiliary outputs are called `name.suffix`."""

    name: str
    output: Output | None
    auxiliary: Mapping[str, Output] = field(default_factory=dict)


@dataclass
class Scope:
    """`existing`: nodes of a model that the new layers are put on; `layers`: those above; `below`: lines by name."""

    existing: list[Known] = field(default_factory=list)
    layers: list[Known] = field(default_factory=list)
    below: dict[str, int] = field(default_factory=dict)

    def add(self, layer_name: str, expansion: Expansion) -> None:
        """Lets later layers refer to a layer."""
        self.layers.append(Known(layer_name, expansion.output, expansion.auxiliary))

    def previous(self, distance: int, span: Span | None) -> str:
        """Returns the name of the layer `distance` layers above. Raises ConfigError beyond the first layer."""
        if not self.layers:
            raise ConfigError("there is no layer above this one to take the input from", span, "say input=...")
        if distance > len(self.layers):
            raise ConfigError(f"[-{distance}]: there are only {len(self.layers)} layers above", span)
        return self.layers[-distance].name

    def resolve(self, word: str, span: Span | None) -> Output:
        """Returns the output of a name. Raises ConfigError for unknown names and for outputs that cannot be used."""
        base, _, rest = word.partition(".")
        owner = None
        for known in (*self.existing, *self.layers):
            if known.name == word:
                if known.output is None:
                    hint = "refer to " + ", ".join(f"'{word}.{suffix}'" for suffix in known.auxiliary)
                    raise ConfigError(
                        f"'{word}' is an output: nothing can follow it", span, hint if known.auxiliary else ""
                    )
                return known.output
            if known.name == base and rest:
                if rest in known.auxiliary:
                    return known.auxiliary[rest]
                owner = known
        raise self._unknown(word, span, owner)

    def _unknown(self, word: str, span: Span | None, owner: Known | None) -> ConfigError:
        if word in self.below:
            hint = "an input can only refer to layers above"
            return ConfigError(f"layer '{word}' comes only below, in line {self.below[word]}", span, hint)
        if owner is not None:
            names = [f"{owner.name}.{suffix}" for suffix in owner.auxiliary]
            hint = "it has " + ", ".join(f"'{n}'" for n in names) if names else f"say '{owner.name}', its one output"
            return ConfigError(f"layer '{owner.name}' has no output '{word}'", span, hint)
        names = [known.name for known in (*self.existing, *self.layers) if known.output is not None]
        hint = did_you_mean(word, names) or ("known: " + ", ".join(names[-12:]) if names else "")
        return ConfigError(f"unknown layer '{word}'", span, hint)


def layer_term(word: str, span: Span | None) -> Term:
    """Returns the name of a layer as a term. Raises ConfigError if it is the name of an operator too."""
    if word in OPERATORS:
        raise ConfigError(f"a layer named '{word}' cannot be referred to: this is the name of an operator", span)
    return name(word)


_TOKEN = re.compile(r"[(),@]|[^\s(),@]+")
_INTEGER = re.compile(r"[+-]?[0-9]+")
_NAME = re.compile(r"[A-Za-z_].*")
_PREVIOUS = re.compile(r"\[-([0-9]+)\](.*)")
_LISTS = ("Append", "Sum", "Switch")
_MAX_DEPTH = 100
_LARGEST = 2**30


@dataclass(frozen=True)
class ResolvedInput:
    """A descriptor in normal form over layers, as a descriptor of nodes, and its number of columns."""

    normal: Term
    nodes: Term
    dim: int


class _InputToken(NamedTuple):
    text: str
    start: int


def resolve_input(value: XconfigValue | None, default: str, scope: Scope, whole: Span | None) -> ResolvedInput:
    """Parses the value of a key `input` into a descriptor of the network's nodes.

    `default`: the text for a missing value. `scope`: the layers above, which the text may name. `whole`: the line's
    span. Raises ConfigError at the offending word: bad syntax, unknown layers, unequal dimensions.
    """
    return _InputParser(value, default, scope, whole).parse()


class _InputParser:
    def __init__(self, value: XconfigValue | None, default: str, scope: Scope, whole: Span | None):
        self.value, self.scope, self.whole = value, scope, whole
        self.text = default if value is None else value.text
        self.tokens = [_InputToken(m.group(), m.start()) for m in _TOKEN.finditer(self.text)]
        self.position = 0

    def parse(self) -> ResolvedInput:
        found = self._descriptor(0)
        if self.position < len(self.tokens):
            token = self.tokens[self.position]
            raise self._error(f"expected the end of the descriptor, got '{token.text}'", token)
        return found

    # ---- tokens ----

    def _span(self, first: _InputToken | None, last: _InputToken | None = None) -> Span | None:
        if self.value is None:
            return self.whole
        if first is None:
            return self.value.part(len(self.text) - 1, 1) if self.text else self.value.span
        last = last or first
        return self.value.part(first.start, last.start + len(last.text) - first.start)

    def _error(self, message: str, token: _InputToken | None, hint: str = "") -> ConfigError:
        return ConfigError(f"input: {message}", self._span(token), hint)

    def _peek(self) -> str:
        return self.tokens[self.position].text if self.position < len(self.tokens) else ""

    def _next(self, wanted: str) -> _InputToken:
        if self.position == len(self.tokens):
            raise self._error(f"expected {wanted}, got the end of the descriptor", None)
        self.position += 1
        return self.tokens[self.position - 1]

    def _expect(self, *texts: str) -> str:
        wanted = " or ".join(f"'{text}'" for text in texts)
        token = self._next(wanted)
        if token.text not in texts:
            raise self._error(f"expected {wanted}, got '{token.text}'", token)
        return token.text

    def _integer(self, wanted: str, minimum: int = -_LARGEST) -> int:
        token = self._next(f"{wanted} (an integer)")
        if not _INTEGER.fullmatch(token.text) or len(token.text) > 12 or abs(int(token.text)) > _LARGEST:
            raise self._error(f"expected {wanted} (an integer up to 2^30), got '{token.text}'", token)
        if int(token.text) < minimum:
            raise self._error(f"{wanted} must be >= {minimum}, got {token.text}", token)
        return int(token.text)

    def _number(self, wanted: str) -> float:
        token = self._next(f"{wanted} (a number)")
        try:
            value = read_number(token.text)
        except ValueError:
            raise self._error(f"expected {wanted} (a number), got '{token.text}'", token) from None
        if value - value != 0:
            raise self._error(f"{wanted} must be finite, got '{token.text}'", token)
        return value

    # ---- descriptors ----

    def _descriptor(self, depth: int) -> ResolvedInput:
        token = self._next("a layer or a descriptor")
        if depth > _MAX_DEPTH:
            raise self._error(f"descriptors are nested more than {_MAX_DEPTH} deep", token)
        if token.text in OPERATORS:
            self._expect("(")
            found = self._call(token, depth + 1)
            self._expect(*([",", ")"] if token.text in _LISTS else [")"]))
            return found
        if self._peek() == "(":
            hint = did_you_mean(token.text, OPERATORS) or "known: " + ", ".join(OPERATORS)
            raise self._error(f"unknown descriptor type '{token.text}'", token, hint)
        if _INTEGER.fullmatch(token.text):
            self.position -= 1
            time = self._integer("a time offset")
            return self._named(self.scope.previous(1, self._span(token)), time, token)
        return self._name(token)

    def _name(self, token: _InputToken) -> ResolvedInput:
        word = token.text
        if match := _PREVIOUS.fullmatch(word):
            distance = int(match.group(1)) if len(match.group(1)) < 10 else 0
            if distance < 1:
                raise self._error(f"'{word}' stands for a layer above: [-1], [-2], ...", token)
            word = self.scope.previous(distance, self._span(token)) + match.group(2)
        if not _NAME.fullmatch(word):
            raise self._error(f"expected a layer, a time offset or a descriptor, got '{word}'", token)
        time = 0
        if self._peek() == "@":
            self.position += 1
            time = self._integer("a time offset after '@'")
        return self._named(word, time, token)

    def _named(self, word: str, time: int, token: _InputToken) -> ResolvedInput:
        span = self._span(token)
        normal = layer_term(word, span)
        output = self.scope.resolve(word, span)
        if time == 0:
            return ResolvedInput(normal, output.term, output.dim)
        return ResolvedInput(offset(normal, time), offset(output.term, time), output.dim)

    def _call(self, operator: _InputToken, depth: int) -> ResolvedInput:
        """Parses the arguments of an operator."""
        kind = operator.text
        if kind == "Const":
            value = self._number("a value")
            self._expect(",")
            dim = self._integer("a dimension", minimum=1)
            return ResolvedInput(const(value, dim), const(value, dim), dim)
        if kind == "Scale":
            factor = self._number("a scale")
            self._expect(",")
            of = self._descriptor(depth)
            return ResolvedInput(scale(factor, of.normal), scale(factor, of.nodes), of.dim)
        if kind in (*_LISTS, "Failover", "IfDefined"):
            return self._several(operator, depth)
        of = self._descriptor(depth)
        self._expect(",")
        numbers = self._numbers(kind)
        return ResolvedInput(Term(kind, (of.normal, *numbers)), Term(kind, (of.nodes, *numbers)), of.dim)

    def _numbers(self, kind: str) -> tuple[int | str, ...]:
        """Parses the arguments behind the descriptor in Offset, Round and ReplaceIndex."""
        if kind == "Round":
            return (self._integer("a period", minimum=1),)
        if kind == "ReplaceIndex":
            variable = self._expect("t", "x")
            self._expect(",")
            return variable, self._integer("a value")
        time = self._integer("a time offset")
        if self._peek() != ",":
            return (time,)
        self._expect(",")
        return time, self._integer("an offset of x")

    def _several(self, operator: _InputToken, depth: int) -> ResolvedInput:
        kind, arguments = operator.text, [self._descriptor(depth)]
        while self._peek() == "," and kind != "IfDefined" and not (kind == "Failover" and len(arguments) == 2):
            self._expect(",")
            arguments.append(self._descriptor(depth))
        if kind == "Failover" and len(arguments) != 2:
            self._expect(",")
        dims = [argument.dim for argument in arguments]
        if kind != "Append" and len(set(dims)) > 1:
            shown = ", ".join(f"{argument.normal} has {argument.dim}" for argument in arguments)
            raise self._error(f"{kind} of different dimensions: {shown}", operator)
        normal, nodes = tuple(a.normal for a in arguments), tuple(a.nodes for a in arguments)
        return ResolvedInput(Term(kind, normal), Term(kind, nodes), sum(dims) if kind == "Append" else dims[0])
