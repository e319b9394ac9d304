"""Random descriptor text, for tests of parsing and evaluation."""

from __future__ import annotations

from hypothesis import strategies as st

NODES = {"a": 2, "b": 2, "c": 2}


def _forward(draw: st.DrawFn, depth: int) -> str:
    kind = draw(st.integers(0, 6)) if depth else 0
    if kind <= 1:
        return draw(st.sampled_from(list(NODES)))
    inner = _forward(draw, depth - 1)
    if kind == 2:
        return f"Offset({inner}, {draw(st.integers(-4, 4))})"
    if kind == 3:
        return f"Offset({inner}, {draw(st.integers(-4, 4))}, {draw(st.integers(-2, 2))})"
    if kind == 4:
        more = [_forward(draw, depth - 1) for _ in range(draw(st.integers(0, 3)))]
        return f"Switch({', '.join([inner, *more])})"
    if kind == 5:
        return f"Round({inner}, {draw(st.integers(1, 5))})"
    return f"ReplaceIndex({inner}, {draw(st.sampled_from('tx'))}, {draw(st.integers(-3, 3))})"


def _sum(draw: st.DrawFn, depth: int, terms: int) -> str:
    """Text with `terms` Append terms."""
    kind = draw(st.integers(0, 7)) if depth else 0
    if terms > 1 and (kind <= 1 or depth == 0):
        first = draw(st.integers(1, terms - 1))
        return f"Append({_sum(draw, depth, first)}, {_sum(draw, depth, terms - first)})"
    if kind <= 1:
        return _forward(draw, 3)
    inner = _sum(draw, depth - 1, terms)
    if kind == 2:
        more = [_sum(draw, depth - 1, terms) for _ in range(draw(st.integers(0, 2)))]
        return f"Sum({', '.join([inner, *more])})"
    if kind == 3:
        return f"Failover({inner}, {_sum(draw, depth - 1, terms)})"
    if kind == 4:
        return f"IfDefined({inner})"
    if kind == 5:
        return f"Offset({inner}, {draw(st.integers(-4, 4))})"
    if kind == 6:
        return f"Round({inner}, {draw(st.integers(1, 4))})"
    return f"Append({inner})" if terms == 1 else f"Switch({inner})"


@st.composite
def descriptor_texts(draw: st.DrawFn) -> str:
    """Legal descriptors of the nodes a, b and c (all of dimension 2), without Scale outside of a part as a whole."""
    terms = draw(st.integers(1, 3))
    text = _sum(draw, 3, terms)
    if draw(st.booleans()):
        text = f"Sum({text}, {', '.join(['Append(' + ', '.join(['Const(0.5, 2)'] * terms) + ')'] * 2)})"
    return text
