"""What lowering and passes are told of a component."""

from __future__ import annotations

import itertools

import pytest

from nnet3.components import Properties, Properties as P
from nnet3.components.kernel_info import kernel_info


@pytest.mark.parametrize("flags", list(itertools.product([False, True], repeat=3)))
def test_updates_are_merged_where_rows_are_all_that_matters(flags: tuple[bool, bool, bool]) -> None:
    updatable, simple, memo = flags
    chosen = [p for p, has in zip((P.UPDATABLE, P.SIMPLE, P.USES_MEMO), flags, strict=True) if has]
    info = kernel_info("k", Properties(sum(chosen)), 1, False, False, False, False)
    assert info.merges_updates == (updatable and simple and not memo)
    assert (info.updatable, info.row_by_row, info.uses_memo) == flags


@pytest.mark.parametrize(
    ("flag", "place"),
    [
        (P.UPDATABLE, "updatable"),
        (P.SIMPLE, "row_by_row"),
        (P.USES_MEMO, "uses_memo"),
        (P.STORES_STATS, "stores_stats"),
        (P.BACKPROP_NEEDS_OUTPUT, "backprop_needs_output"),
        (P.BACKPROP_NEEDS_INPUT, "backprop_needs_value"),
        (P.PROPAGATE_IN_PLACE, "propagate_in_place"),
        (P.BACKPROP_IN_PLACE, "backprop_in_place"),
        (P.RANDOM, ""),
        (P.REORDERS_INDEXES, ""),
    ],
)
def test_each_promise_has_its_place(flag: Properties, place: str) -> None:
    info = kernel_info("k", flag, 1, False, False, False, False)
    names = ("updatable", "row_by_row", "uses_memo", "stores_stats", "backprop_needs_output", "merges_updates")
    promised = {name for name in (*names, "needs_indexes", "backprop_needs_sign_only") if getattr(info, name)}
    (of_input,) = info.inputs
    names_of_input = ("backprop_needs_value", "propagate_in_place", "backprop_in_place", "accumulates_deriv")
    promised |= {name for name in names_of_input if getattr(of_input, name)}
    assert promised == ({place} if place else set())


def test_what_else_a_kernel_says() -> None:
    info = kernel_info("k", P.NONE, 0, True, True, False, False)
    assert (info.name, info.inputs, info.needs_indexes, info.backprop_needs_sign_only) == ("k", (), True, False)
    assert kernel_info("k", P.NONE, 1, False, False, True, False).backprop_needs_sign_only
    assert kernel_info("k", P.NONE, 1, False, False, False, True).has_parts
    assert kernel_info("k", P.NONE, 1, False, False, False, False, True).backprop_takes_input
