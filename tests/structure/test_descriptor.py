"""Descriptors on whole index tables against the row-by-row oracle, and examples worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from nnet3.errors import ConfigError, Span
from nnet3.model.structure.expression import Expression, parse_expression
from nnet3.model.structure.forwarding import NodeReference
from nnet3.model.structure.normalize import parse_descriptor
from tests.descriptors import NODES, descriptor_texts
from tests.effort import draws
from tests.slow_descriptor import Cindex, used, wanted

NAMES = list(NODES)
NUMBER = {name: number for number, name in enumerate(NAMES)}


def expression_of(text: str) -> Expression:
    return parse_expression(Span("<test>", 1, 1, len(text), text))


def indexes(times: range = range(-7, 8), xs: tuple[int, ...] = (0, 1, -1)) -> np.ndarray:
    return np.array([(n, t, x) for n in (0, 3) for t in times for x in xs], np.int32)


def reads(text: str, t: int, x: int = 0) -> list[tuple[str, int, int]]:
    """What a descriptor reads at (0, t, x): node, t and x of every slot."""
    nodes, mapped = parse_descriptor(text).get_dependencies(np.array([[0, t, x]], np.int32), NUMBER)
    assert (mapped[:, :, 0] == 0).all()
    return [(NAMES[node], *index) for node, index in zip(nodes[0].tolist(), mapped[0, :, 1:].tolist(), strict=True)]


@pytest.mark.parametrize(
    ("text", "t", "expected"),
    [
        ("a", 5, ("a", 5)),
        ("Scale(2.0, a)", 5, ("a", 5)),
        ("Offset(a, -2)", 5, ("a", 3)),
        ("Round(a, 10)", 17, ("a", 10)),
        ("Round(a, 10)", 10, ("a", 10)),
        ("Round(a, 10)", -1, ("a", -10)),
        ("Round(a, 10)", -10, ("a", -10)),
        ("Switch(a, b, c)", -1, ("c", -1)),
        ("Switch(a, b, c)", -3, ("a", -3)),
        ("Switch(a, b, c)", 4, ("b", 4)),
        ("Offset(Round(a, 3), 1)", 5, ("a", 6)),
        ("Round(Offset(a, 1), 3)", 5, ("a", 4)),
        ("ReplaceIndex(a, t, 0)", -9, ("a", 0)),
        ("ReplaceIndex(Offset(a, 2), t, 0)", -9, ("a", 2)),
        ("Offset(ReplaceIndex(a, t, 0), 2)", -9, ("a", 0)),
        ("Offset(Switch(a, b), 1)", 2, ("b", 3)),
        ("Switch(Offset(a, 1), b)", 2, ("a", 3)),
    ],
)
def test_descriptors_map_indexes(text: str, t: int, expected: tuple[str, int]) -> None:
    assert reads(text, t) == [(*expected, 0)]


def test_x_is_mapped_too() -> None:
    assert reads("Offset(a, 1, -2)", 5, 7) == [("a", 6, 5)]
    assert reads("ReplaceIndex(a, x, 4)", 5, 7) == [("a", 5, 4)]
    assert reads("Round(a, 3)", 5, 7) == [("a", 3, 7)]


@given(descriptor_texts())
def test_dependencies_equal_the_slow_ones(text: str) -> None:
    descriptor, expression, table = parse_descriptor(text), expression_of(text), indexes()
    nodes, mapped = descriptor.get_dependencies(table, NUMBER)
    assert mapped.dtype == np.int32
    for row, index in enumerate(map(tuple, table.tolist())):
        found = {(NAMES[n], tuple(i)) for n, i in zip(nodes[row].tolist(), mapped[row].tolist(), strict=True)}
        assert found == wanted(expression, index)


@settings(max_examples=draws(60))
@given(descriptor_texts(), st.integers(0, 2**32 - 1), st.sampled_from([0.2, 0.5, 0.9]))
def test_computability_and_use_equal_the_slow_ones(text: str, seed: int, share: float) -> None:
    descriptor, expression, table = parse_descriptor(text), expression_of(text), indexes(range(-4, 5), (0,))
    nodes, mapped = descriptor.get_dependencies(table, NUMBER)
    rng = np.random.default_rng(seed)
    given_cindexes: dict[Cindex, bool] = {}

    def available(cindex: Cindex) -> bool:
        return given_cindexes.setdefault(cindex, bool(rng.random() < share))

    slots = [
        [(NAMES[n], tuple(i)) for n, i in zip(row_nodes, row_indexes, strict=True)]
        for row_nodes, row_indexes in zip(nodes.tolist(), mapped.tolist(), strict=True)
    ]
    mask = np.array([[available(cindex) for cindex in row] for row in slots], bool).reshape(nodes.shape)
    computable, used_slots = descriptor.is_computable(mask)
    for row, index in enumerate(map(tuple, table.tolist())):
        want = used(expression, index, available)
        assert computable[row] == (want is not None), (text, index)
        found = {cindex for cindex, is_used in zip(slots[row], used_slots[row].tolist(), strict=True) if is_used}
        assert found == (want or set()), (text, index)


@given(descriptor_texts())
def test_what_is_printed_parses_to_the_same(text: str) -> None:
    descriptor = parse_descriptor(text)
    again = parse_descriptor(str(descriptor))
    assert again == descriptor
    assert str(again) == str(descriptor)


@given(descriptor_texts())
def test_the_modulus_is_a_period_of_the_dependencies(text: str) -> None:
    descriptor = parse_descriptor(text)
    table = indexes(range(-3, 4), (0,))
    later = table + np.array([0, descriptor.modulus, 0], np.int32)
    nodes, mapped = descriptor.get_dependencies(table, NUMBER)
    later_nodes, later_mapped = descriptor.get_dependencies(later, NUMBER)
    moves = later_mapped[:, :, 1] - mapped[:, :, 1]
    assert (nodes == later_nodes).all() or "Switch" in text
    if "ReplaceIndex" not in text and "Round(" not in str(descriptor) and "Switch" not in text:
        assert (moves == descriptor.modulus).all()


@pytest.mark.parametrize(
    ("text", "modulus"),
    [
        ("a", 1),
        ("Const(1, 2)", 1),
        ("Offset(a, 3)", 1),
        ("Round(a, 6)", 6),
        ("Offset(Round(a, 6), 1)", 6),
        ("Round(Switch(a, b, c, a), 6)", 6),
        ("ReplaceIndex(Round(a, 4), t, 0)", 1),
        ("Switch(a, b)", 2),
        ("Switch(a)", 1),
        ("Switch(Round(a, 3), b)", 6),
        ("Sum(Round(a, 4), Round(b, 6))", 12),
        ("Failover(Round(a, 4), Switch(a, b, c))", 12),
        ("IfDefined(Round(a, 5))", 5),
        ("Append(Round(a, 2), b, Round(c, 3))", 6),
    ],
)
def test_the_modulus_is_the_common_period(text: str, modulus: int) -> None:
    assert parse_descriptor(text).modulus == modulus


@pytest.mark.parametrize(
    ("text", "dim"),
    [
        ("a", 2),
        ("Append(a, b, d)", 9),
        ("Sum(a, b)", 2),
        ("Sum(Append(a, d), Append(b, d))", 7),
        ("Offset(Round(ReplaceIndex(IfDefined(Scale(2, d)), t, 0), 2), 1)", 5),
        ("Switch(d, d)", 5),
        ("Append(Const(1, 4), a)", 6),
        ("Sum(a, Const(1, 2))", 2),
        ("Failover(a, b)", 2),
    ],
)
def test_dimensions_follow_from_the_parts(text: str, dim: int) -> None:
    assert parse_descriptor(text).dim({**NODES, "d": 5}.__getitem__) == dim


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Sum(a, d)", "Sum of different dimensions: a has 2, d has 5"),
        ("Failover(Offset(a, 1), d)", "Failover of different dimensions: Offset(a, 1) has 2, d has 5"),
        ("Sum(a, Const(1, 3))", "Sum of different dimensions: a has 2, Const(1, 3) has 3"),
        ("IfDefined(Sum(a, d))", "Sum of different dimensions: a has 2, d has 5"),
    ],
)
def test_dimensions_that_differ(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_descriptor(text).dim({**NODES, "d": 5}.__getitem__)
    assert caught.value.message == message


def test_constants_add_up() -> None:
    assert parse_descriptor("Sum(a, Const(1, 2), Const(-3, 2))").parts[0].constant == -2.0
    assert parse_descriptor("Failover(Sum(a, Const(1, 2)), Sum(b, Const(1, 2)))").parts[0].constant == 1.0


def test_renaming_reaches_every_part() -> None:
    text = (
        "Append(Sum(a, Failover(b, IfDefined(Switch(c, Round(a, 2))))), ReplaceIndex(Offset(a, 1), t, 0), Const(1, 2))"
    )
    assert str(parse_descriptor(text).rename({"a": "z"})) == text.replace("a,", "z,").replace("Sum(a", "Sum(z")


def test_a_node_is_taken_once_unless_a_scale_is_given() -> None:
    assert str(NodeReference("a")) == "a"
    assert NodeReference("a") == NodeReference("a", 1.0) != NodeReference("a", 2.0)
    assert str(NodeReference("a", 2.0)) == "Scale(2, a)"
