"""kernel_info: a component's promises as lowering and passes see them."""

from __future__ import annotations

from functools import lru_cache

from nnet3.components.base import Properties
from nnet3.ir.kernel import InputPromises, KernelInfo


@lru_cache(maxsize=10_000)
def kernel_info(
    name: str,
    properties: Properties,
    num_inputs: int,
    needs_indexes: bool,
    indexes_go_on: bool,
    needs_sign_only: bool,
    has_parts: bool,
    takes_input: bool = False,
    repeats_forward: bool = False,
) -> KernelInfo:
    """Returns what lowering and passes may know of a component that has this many inputs, one or none."""
    has = properties.__contains__
    promises = InputPromises(
        backprop_needs_value=has(Properties.BACKPROP_NEEDS_INPUT),
        propagate_in_place=has(Properties.PROPAGATE_IN_PLACE),
        backprop_in_place=has(Properties.BACKPROP_IN_PLACE),
    )
    return KernelInfo(
        name=name,
        inputs=(promises,) * num_inputs,
        updatable=has(Properties.UPDATABLE),
        row_by_row=has(Properties.SIMPLE),
        merges_updates=has(Properties.UPDATABLE) and has(Properties.SIMPLE) and not has(Properties.USES_MEMO),
        backprop_needs_output=has(Properties.BACKPROP_NEEDS_OUTPUT),
        uses_memo=has(Properties.USES_MEMO),
        stores_stats=has(Properties.STORES_STATS),
        needs_indexes=needs_indexes,
        indexes_go_on=indexes_go_on,
        backprop_needs_sign_only=needs_sign_only,
        has_parts=has_parts,
        backprop_takes_input=takes_input,
        repeats_forward=repeats_forward,
    )
