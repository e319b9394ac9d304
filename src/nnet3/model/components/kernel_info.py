"""kernel_info: a component's promises as lowering, passes and proofs see them."""

from __future__ import annotations

from functools import lru_cache

from nnet3.engine.ir.kernel import InputPromises, KernelInfo
from nnet3.model.components.base import Component, Properties


def kernel_info(name: str, component: Component, num_inputs: int, *, has_slices: bool = True) -> KernelInfo:
    """Returns the present promises of a component with the given number of inputs, one or none.

    With `has_slices` it may be computed in slices if the component can.
    """
    flags = {
        "needs_indexes": component.needs_indexes,
        "indexes_go_on": component.indexes_go_on,
        "backprop_needs_sign_only": component.backprop_needs_sign_only,
        "has_slices": has_slices and component.has_slices,
        "slices_pack": has_slices and component.has_slices and component.slices_pack,
        "backprop_takes_input": component.backprop_takes_input,
        "repeats_forward": component.repeats_forward,
        "rows_apart": component.rows_apart,
        "backprop_rows_apart": component.backprop_rows_apart,
        "backprop_is_linear": component.backprop_is_linear,
        "counts_backward": component.counts_backward,
        "learns_last": component.learns_last,
    }
    return _kernel_info(name, component.properties, num_inputs, component.is_linear, tuple(flags.items()))


@lru_cache(maxsize=10_000)
def _kernel_info(
    name: str, properties: Properties, num_inputs: int, is_linear: bool, flags: tuple[tuple[str, bool], ...]
) -> KernelInfo:
    has = properties.__contains__
    promises = InputPromises(
        backprop_needs_value=has(Properties.BACKPROP_NEEDS_INPUT),
        propagate_in_place=has(Properties.PROPAGATE_IN_PLACE),
        backprop_in_place=has(Properties.BACKPROP_IN_PLACE),
        is_linear=is_linear,
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
        is_random=has(Properties.RANDOM),
        **dict(flags),
    )
