"""Parses descriptor text into a tree of expressions with spans (docs/config_language.md)."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from nnet3.base.text import did_you_mean, is_valid_name, read_number
from nnet3.errors import ConfigError, Span

KEYWORDS = ("Append", "Sum", "Failover", "IfDefined", "Offset", "Switch", "Scale", "Const", "Round", "ReplaceIndex")
_NUMBER = re.compile(r"[+-]?[0-9]+")
_TOKEN = re.compile(r"[(),]|[^\s(),]+")
MAX_DEPTH = 150  # of one keyword within another, not counting sums at the end of sums; Python's stack bounds it
LARGEST_OFFSET = 2**30


@dataclass(frozen=True)
class Expression:
    """A keyword with its arguments and numbers, or (kind "node") a name in `word`.

    `numbers`: Offset (t, x); Scale (scale,); Const (value, dim); Round (modulus,); ReplaceIndex (value,), whose
    variable is in `word`.
    """

    kind: str
    span: Span
    arguments: tuple[Expression, ...] = ()
    numbers: tuple[float, ...] = ()
    word: str = ""

    @cached_property
    def height(self) -> int:
        """The depth of the tree; 1 for a name."""
        return 1 + max((argument.height for argument in self.arguments), default=0)


class _Word:
    """A word of the descriptor at `whole`; its span is made when somebody asks."""

    __slots__ = ("start", "text", "whole")

    def __init__(self, text: str, start: int, whole: Span):
        self.text, self.start, self.whole = text, start, whole

    @property
    def span(self) -> Span:
        return self.whole.part(self.start, len(self.text))


def parse_expression(span: Span) -> Expression:
    """Parses the descriptor that stands at `span`. Raises ConfigError at the offending word."""
    tokens = [_Word(m.group(), m.start(), span) for m in _TOKEN.finditer(span.words)]
    parser = _ExpressionParser(tokens, span)
    expression = parser.descriptor(0)
    parser.expect_end()
    return expression


class _ExpressionParser:
    def __init__(self, tokens: list[_Word], whole: Span):
        self.tokens = tokens
        self.position = 0
        self.end = whole.part(max(0, whole.length - 1), 1)

    def next(self, wanted: str) -> _Word:
        if self.position == len(self.tokens):
            raise ConfigError(f"expected {wanted}, got the end of the descriptor", self.end)
        token = self.tokens[self.position]
        self.position += 1
        return token

    def expect(self, *texts: str) -> str:
        if self.position < len(self.tokens) and self.tokens[self.position].text in texts:
            self.position += 1
            return self.tokens[self.position - 1].text
        wanted = " or ".join(f"'{text}'" for text in texts)
        token = self.next(wanted)
        if token.text not in texts:
            raise ConfigError(f"expected {wanted}, got '{token.text}'", token.span)
        return token.text

    def expect_end(self) -> None:
        if self.position < len(self.tokens):
            token = self.tokens[self.position]
            raise ConfigError(f"expected the end of the descriptor, got '{token.text}'", token.span)

    def descriptor(self, depth: int) -> Expression:
        token = self.next("a descriptor")
        if depth > MAX_DEPTH:
            raise ConfigError(f"descriptors are nested more than {MAX_DEPTH} deep", token.span)
        if token.text == "Sum":
            return self._sum(token, depth)
        if token.text in KEYWORDS:
            return self._call(token, depth)
        follows_paren = self.position < len(self.tokens) and self.tokens[self.position].text == "("
        if follows_paren:
            hint = did_you_mean(token.text, KEYWORDS) or "known: " + ", ".join(KEYWORDS)
            raise ConfigError(f"unknown descriptor type '{token.text}'", token.span, hint)
        if _NUMBER.fullmatch(token.text):
            hint = "Append(-1, 0, 1) is a shorthand of xconfig files: here it is "
            hint += "Append(Offset(input, -1), input, Offset(input, 1))"
            raise ConfigError(f"expected a node name or a descriptor, got the number {token.text}", token.span, hint)
        if not is_valid_name(token.text):
            raise ConfigError(f"expected a node name or a descriptor, got '{token.text}'", token.span)
        return Expression("node", token.span, word=token.text)

    def _call(self, token: _Word, depth: int) -> Expression:
        self.expect("(")
        values: list[Expression | float | str] = []
        if token.text in _ARGUMENTS:
            for read in _ARGUMENTS[token.text]:
                if values:
                    self.expect(",")
                values.append(read(self, depth + 1))
            self.expect(")")
        elif token.text == "Offset":
            values.append(self.descriptor(depth + 1))
            self.expect(",")
            values.append(self.integer("a t-offset"))
            has_x = self.expect(",", ")") == ","
            values.append(self.integer("an x-offset") if has_x else 0)
            if has_x:
                self.expect(")")
        else:  # Append, Switch: one or more descriptors
            values.append(self.descriptor(depth + 1))
            while self.expect(",", ")") == ",":
                values.append(self.descriptor(depth + 1))
        arguments = tuple(value for value in values if isinstance(value, Expression))
        numbers = tuple(value for value in values if isinstance(value, int | float))
        word = next((value for value in values if isinstance(value, str)), "")
        return Expression(token.text, self._from(token), arguments, numbers, word)

    def _sum(self, token: _Word, depth: int) -> Expression:
        """Parses a Sum and all Sums directly inside it without recursion: a long Sum in normal form is nested deeply.

        The terms of a Sum at the end of another Sum become terms of the outer Sum.
        """
        self.expect("(")
        open_sums: list[tuple[_Word, list[Expression]]] = [(token, [])]
        while True:
            first, arguments = open_sums[-1]
            if self.position < len(self.tokens) and self.tokens[self.position].text == "Sum":
                open_sums.append((self.next("Sum"), []))
                self.expect("(")
                continue
            arguments.append(self.descriptor(depth + 1))
            while self.expect(",", ")") == ")":
                done = Expression("Sum", self._from(first), tuple(arguments))
                open_sums.pop()
                if not open_sums:
                    return done
                first, arguments = open_sums[-1]
                last = self.position < len(self.tokens) and self.tokens[self.position].text == ")"
                arguments += done.arguments if last else [done]
                if not last and done.height + depth > MAX_DEPTH:
                    raise ConfigError(f"descriptors are nested more than {MAX_DEPTH} deep", done.span)

    def _from(self, first: _Word) -> Span:
        """Returns the span from the word `first` to the word before the current position."""
        end = self.tokens[self.position - 1].span
        return first.span.part(0, end.column + end.length - first.span.column)

    def integer(self, wanted: str, minimum: int | None = None) -> int:
        token = self.next(f"{wanted} (an integer)")
        if not re.fullmatch(r"[+-]?[0-9]{1,20}", token.text) or abs(int(token.text)) >= LARGEST_OFFSET:
            raise ConfigError(f"expected {wanted} (an integer below 2^30), got '{token.text}'", token.span)
        value = int(token.text)
        if minimum is not None and value < minimum:
            raise ConfigError(f"{wanted} must be >= {minimum}, got {value}", token.span)
        return value

    def number(self, wanted: str) -> float:
        token = self.next(f"{wanted} (a number)")
        try:
            value = read_number(token.text)
        except ValueError:
            raise ConfigError(f"expected {wanted} (a number), got '{token.text}'", token.span) from None
        if not math.isfinite(value):
            raise ConfigError(f"{wanted} must be finite, got '{token.text}'", token.span)
        return value


_Argument = Callable[[_ExpressionParser, int], Expression | float | str]
_DESCRIPTOR: _Argument = _ExpressionParser.descriptor

#: The arguments of keywords that have a fixed number of them, each from a parser and the depth.
_ARGUMENTS: dict[str, tuple[_Argument, ...]] = {
    "Failover": (_DESCRIPTOR, _DESCRIPTOR),
    "IfDefined": (_DESCRIPTOR,),
    "Scale": (lambda parser, _: parser.number("a scale"), _DESCRIPTOR),
    "Const": (lambda parser, _: parser.number("a value"), lambda parser, _: parser.integer("a dimension", minimum=1)),
    "Round": (_DESCRIPTOR, lambda parser, _: parser.integer("a t-modulus", minimum=1)),
    "ReplaceIndex": (
        *(_DESCRIPTOR, lambda parser, _: parser.expect("t", "x")),
        lambda parser, _: parser.integer("a value"),
    ),
}
