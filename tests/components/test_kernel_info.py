"""What lowering, passes and proofs are told of a component."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from nnet3 import components
from nnet3.components import Properties, Properties as P
from nnet3.engine.ir.kernel import KernelInfo
from nnet3.model.components.kernel_info import kernel_info


def info_of(properties: Properties, num_inputs: int = 1, **declared: Any) -> KernelInfo:
    """Returns what is told of a component with these properties and declarations."""
    base = type(components.create("TanhComponent", "dim=2"))
    made = type("OwnComponent", (base,), {"properties": properties, **declared})(2)
    return kernel_info("k", made, num_inputs)


@pytest.mark.parametrize("flags", list(itertools.product([False, True], repeat=3)))
def test_updates_are_merged_where_rows_are_all_that_matters(flags: tuple[bool, bool, bool]) -> None:
    updatable, simple, memo = flags
    chosen = [p for p, has in zip((P.UPDATABLE, P.SIMPLE, P.USES_MEMO), flags, strict=True) if has]
    info = info_of(Properties(sum(chosen)))
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
        (P.RANDOM, "is_random"),
        (P.REORDERS_INDEXES, ""),
    ],
)
def test_each_promise_has_its_place(flag: Properties, place: str) -> None:
    info = info_of(flag)
    names = ("updatable", "row_by_row", "uses_memo", "stores_stats", "backprop_needs_output", "merges_updates")
    promised = {
        name for name in (*names, "needs_indexes", "backprop_needs_sign_only", "is_random") if getattr(info, name)
    }
    (of_input,) = info.inputs
    names_of_input = ("backprop_needs_value", "propagate_in_place", "backprop_in_place", "accumulates_deriv")
    promised |= {name for name in names_of_input if getattr(of_input, name)}
    assert promised == ({place} if place else set())


def test_what_else_a_kernel_says() -> None:
    info = info_of(P.NONE, 0, needs_indexes=True, indexes_go_on=True)
    assert (info.name, info.inputs, info.needs_indexes, info.indexes_go_on) == ("k", (), True, True)
    names = (
        "backprop_needs_sign_only",
        "has_slices",
        "backprop_takes_input",
        "repeats_forward",
        "counts_backward",
        "learns_last",
    )
    for name in (*names, "rows_apart", "backprop_rows_apart", "backprop_is_linear"):
        for value in (True, False):
            assert getattr(info_of(P.SIMPLE, **{name: value}), name) is value
    assert info_of(P.SIMPLE, is_linear=True).inputs[0].is_linear
    assert not info_of(P.SIMPLE, is_linear=False).inputs[0].is_linear
    whole = components.create("AffineComponent", "input-dim=3 output-dim=2")
    assert kernel_info("k", whole, 1).has_slices
    assert not kernel_info("k", whole, 1, has_slices=False).has_slices


def test_a_composite_promises_what_all_its_parts_promise() -> None:
    def composite(*parts: str) -> KernelInfo:
        keys = " ".join(f"component{n}='type={part} dim=4'" for n, part in enumerate(parts, 1))
        made = components.create("CompositeComponent", f"num-components={len(parts)} {keys}")
        return kernel_info("k", made, 1)

    plain = composite("NoOpComponent", "FixedScaleComponent")
    assert plain.inputs[0].is_linear
    assert plain.rows_apart
    assert not plain.counts_backward
    clipping = composite("NoOpComponent", "ClipGradientComponent")
    assert not clipping.backprop_is_linear
    assert clipping.counts_backward
    assert not composite("NoOpComponent", "TanhComponent").inputs[0].is_linear
    assert composite("NoOpComponent", "TanhComponent").learns
    mixing = composite("NoOpComponent", "BatchNormComponent")
    assert not mixing.rows_apart
    assert not mixing.backprop_rows_apart
