"""Brings descriptor text to the three-level normal form (docs/config_language.md)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from nnet3.errors import ConfigError, Span
from nnet3.model.structure.descriptor import Const, Descriptor, Failover, IfDefined, Simple, Sum, SumDescriptor
from nnet3.model.structure.expression import LARGEST_OFFSET, Expression, parse_expression
from nnet3.model.structure.forwarding import ForwardingDescriptor, NodeReference, Offset, ReplaceIndex, Round, Switch

_MOST_NODES = 50_000  # of the expression with its Appends at the top; bounds time and memory
_SUM_LIKE = ("Sum", "Failover", "IfDefined", "Const")


@dataclass(frozen=True)
class _Pending:
    """Operators met on the way down, outermost first; the leaf below is wrapped in them."""

    operators: tuple[Expression, ...] = ()
    scale: float | None = None

    def under(self, operator: Expression) -> _Pending:
        """Adds an operator. Neighbouring offsets become one; an offset of zero disappears."""
        outer = self.operators
        if operator.kind == "Offset":
            t_offset, x_offset = operator.numbers
            if outer and outer[-1].kind == "Offset":
                t_offset, x_offset = t_offset + outer[-1].numbers[0], x_offset + outer[-1].numbers[1]
                outer = outer[:-1]
            if max(abs(t_offset), abs(x_offset)) >= LARGEST_OFFSET:
                total = int(max(t_offset, x_offset, key=abs))
                raise ConfigError(f"the offsets add up to {total}: below 2^30 is allowed", operator.span)
            if not (t_offset or x_offset):
                return replace(self, operators=outer)
            operator = replace(operator, numbers=(t_offset, x_offset))
        return replace(self, operators=(*outer, operator))

    def scaled(self, factor: float) -> _Pending:
        return replace(self, scale=factor * (1.0 if self.scale is None else self.scale))


def parse_descriptor(text: str | Span) -> Descriptor:
    """Returns the normalised descriptor of a text. Raises ConfigError at the place that cannot be normalised."""
    span = text if isinstance(text, Span) else Span("<descriptor>", 1, 1, len(text), text)
    return normalize(parse_expression(span))


def normalize(expression: Expression) -> Descriptor:
    """Append to the top, sums below it, index operators at the leaves."""
    if _num_leaves(expression) * expression.height > _MOST_NODES:
        size = f"{_num_leaves(expression)} nodes, nested {expression.height} deep"
        raise ConfigError(f"this descriptor is too large: {size}", expression.span)
    parts = tuple(_to_sum(term, _Pending()) for term in _append_terms(expression))
    for part in parts:
        _check_scales(part)
    return Descriptor(parts)


def _append_terms(expression: Expression) -> list[Expression]:
    """Returns the expression once for each Append term, with every Append replaced by the term."""
    if not expression.arguments:
        return [expression]
    terms_of_argument = [_append_terms(argument) for argument in expression.arguments]
    if expression.kind == "Append":
        return [term for terms in terms_of_argument for term in terms]
    count = len(terms_of_argument[0])
    for argument, terms in zip(expression.arguments, terms_of_argument, strict=True):
        if len(terms) != count:
            message = (
                f"the arguments of {expression.kind} have {count} and {len(terms)} Append terms: they must be equal"
            )
            raise ConfigError(message, argument.span)
    return [replace(expression, arguments=arguments) for arguments in zip(*terms_of_argument, strict=True)]


def _num_leaves(expression: Expression) -> int:
    return sum(map(_num_leaves, expression.arguments)) if expression.arguments else 1


def _to_sum(expression: Expression, pending: _Pending) -> SumDescriptor:
    """Moves pending operators inside sum-like expressions; all else becomes a leaf."""
    kind, arguments = expression.kind, expression.arguments
    if kind == "Sum":
        terms = [_to_sum(argument, pending) for argument in arguments]
        if isinstance(terms[-1], Sum):
            terms[-1:] = terms[-1].terms
        return Sum(tuple(terms), expression.span) if len(terms) > 1 else terms[0]
    if kind in ("Failover", "IfDefined") and pending.scale is not None:
        raise ConfigError(f"Scale cannot be applied to {kind}: scale its arguments instead", expression.span)
    if kind == "Failover":
        left, right = (_to_sum(argument, pending) for argument in arguments)
        if left.constant != right.constant:
            message = f"the two sides of Failover add different constants: {left.constant:g} and {right.constant:g}"
            raise ConfigError(message, expression.span)
        return Failover(left, right, expression.span)
    if kind == "IfDefined":
        inner = _to_sum(arguments[0], pending)
        if inner.constant != 0.0:
            raise ConfigError("Const cannot stand inside IfDefined", expression.span)
        return IfDefined(inner)
    if kind == "Const":
        return _const(expression, pending)
    if kind == "Scale":
        return _to_sum(arguments[0], pending.scaled(expression.numbers[0]))
    if kind == "Switch" and pending.scale is not None:
        raise ConfigError("Scale cannot be applied to Switch: scale its arguments instead", expression.span)
    if kind in ("Offset", "Round", "ReplaceIndex") or (kind == "Switch" and len(arguments) == 1):
        return _to_sum(arguments[0], pending.under(expression))
    return Simple(_wrap(expression, pending))


def _const(expression: Expression, pending: _Pending) -> Const:
    if pending.operators:
        message = f"Const cannot stand inside {pending.operators[-1].kind}: its value has no index"
        raise ConfigError(message, expression.span)
    if pending.scale is not None:
        raise ConfigError("Scale cannot be applied to Const: write the product", expression.span)
    value, size = expression.numbers
    return Const(value, int(size))


def _wrap(leaf: Expression, pending: _Pending) -> ForwardingDescriptor:
    """Returns the leaf (a node, or a Switch of several) inside the pending operators."""
    if leaf.kind == "Switch":
        first, *others = leaf.arguments
        sources = (_to_forwarding(first), *(_to_forwarding(argument, may_be_sum_of_one=True) for argument in others))
        result: ForwardingDescriptor = Switch(sources)
    else:
        result = NodeReference(leaf.word, 1.0 if pending.scale is None else pending.scale, leaf.span)
    for operator in reversed(pending.operators):
        result = _WRAPPERS[operator.kind](result, operator)
    return result


def _to_forwarding(expression: Expression, may_be_sum_of_one: bool = False) -> ForwardingDescriptor:
    """Returns an argument of a Switch of several: it must come out as a single forwarding descriptor.

    Kaldi refuses a sum of one as the first argument, and puts the term in its place in the others.
    """
    within = expression
    while within.kind not in _SUM_LIKE or (within.kind == "Sum" and len(within.arguments) == 1 and may_be_sum_of_one):
        if within.kind == "node" or (within.kind == "Switch" and len(within.arguments) > 1):
            inner = _to_sum(expression, _Pending())
            assert isinstance(inner, Simple), "nothing on the way down makes a sum"
            return inner.source
        within = within.arguments[0]
    raise ConfigError(f"{within.kind} cannot stand inside a Switch of several arguments", within.span)


_WRAPPERS: dict[str, Callable[[ForwardingDescriptor, Expression], ForwardingDescriptor]] = {
    "Offset": lambda source, operator: Offset(source, *map(int, operator.numbers)),
    "Round": lambda source, operator: Round(source, int(operator.numbers[0])),
    "ReplaceIndex": lambda source, operator: ReplaceIndex(source, operator.word, int(operator.numbers[0])),
    "Switch": lambda source, operator: Switch((source,)),
}


def _check_scales(part: SumDescriptor) -> None:
    """Raises an error if a node occurs with several scales within one Append part."""
    scales: dict[str, float] = {}
    for forward in part.forwards():
        for reference in forward.nodes():
            known = scales.setdefault(reference.node, reference.scale)
            if known != reference.scale:
                message = (
                    f"node '{reference.node}' occurs with two scales, {known:g} and {reference.scale:g}, in one part"
                )
                raise ConfigError(message, reference.span, "pass it through a NoOpComponent to scale it twice")
