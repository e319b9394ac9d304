"""Forwarding descriptors: the row that each refers to, its period, and names that change."""

from __future__ import annotations

import numpy as np
import pytest

from nnet3.structure.forwarding import ForwardingDescriptor, NodeReference, Offset, ReplaceIndex, Round, Switch

A, B = NodeReference("a"), NodeReference("b", 2.0)
NUMBER = {"a": 0, "b": 1}


def _refers(descriptor: ForwardingDescriptor, *indexes: tuple[int, int, int]) -> list[tuple[int, int, int, int]]:
    nodes, mapped = descriptor.map_to_input(np.array(indexes, np.int32), NUMBER)
    assert mapped.dtype == np.int32
    return [(node, *index) for node, index in zip(nodes.tolist(), mapped.tolist(), strict=True)]


@pytest.mark.parametrize(
    ("descriptor", "text", "modulus", "refers"),
    [
        (A, "a", 1, (0, 3, -7, 5)),
        (B, "Scale(2, b)", 1, (1, 3, -7, 5)),
        (Offset(A, 2), "Offset(a, 2)", 1, (0, 3, -5, 5)),
        (Offset(A, -2, 1), "Offset(a, -2, 1)", 1, (0, 3, -9, 6)),
        (Round(A, 4), "Round(a, 4)", 4, (0, 3, -8, 5)),
        (ReplaceIndex(A, "t", 9), "ReplaceIndex(a, t, 9)", 1, (0, 3, 9, 5)),
        (ReplaceIndex(A, "x", 9), "ReplaceIndex(a, x, 9)", 1, (0, 3, -7, 9)),
        (Switch((A, B)), "Switch(a, Scale(2, b))", 2, (1, 3, -7, 5)),
        (Switch((A, Offset(B, 1), A)), "Switch(a, Offset(Scale(2, b), 1), a)", 3, (0, 3, -7, 5)),
        (Switch((Round(A, 4), A, A)), "Switch(Round(a, 4), a, a)", 12, (0, 3, -7, 5)),
    ],
)
def test_each_kind_refers_to_its_index(
    descriptor: ForwardingDescriptor, text: str, modulus: int, refers: tuple[int, ...]
) -> None:
    assert (str(descriptor), descriptor.modulus) == (text, modulus)
    assert _refers(descriptor, (3, -7, 5)) == [refers]


def test_the_outer_one_is_applied_first() -> None:
    assert _refers(Offset(Round(A, 10), -1), (0, 10, 0)) == [(0, 0, 0, 0)]
    assert _refers(Round(Offset(A, -1), 10), (0, 19, 0)) == [(0, 0, 9, 0)]


def test_a_switch_turns_by_the_time_also_below_zero() -> None:
    times = [(0, t, 0) for t in range(-3, 3)]
    assert [node for node, *_ in _refers(Switch((A, B)), *times)] == [1, 0, 1, 0, 1, 0]


def test_nodes_come_in_the_order_in_which_they_are_written() -> None:
    descriptor = Switch((Offset(A, 1), Round(B, 2), ReplaceIndex(A, "t", 0)))
    assert [reference.node for reference in descriptor.nodes()] == ["a", "b", "a"]


def test_renamed_nodes_keep_all_else() -> None:
    descriptor = Switch((Offset(A, 1, 2), Round(B, 2), ReplaceIndex(A, "t", 0)))
    renamed = descriptor.rename({"a": "z"})
    assert str(renamed) == str(descriptor).replace("a,", "z,")
    assert renamed.rename({"z": "a"}) == descriptor
