"""The kinds of calls in plans, and how each is bound to views and kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from nnet3.runtime.link import Linker

#: A call made ready to run: without arguments.
BoundCall = Callable[[], object]

#: From a call's integers (mostly numbers of views) and its number to what runs; None if there is nothing to run.
CallKind = Callable[["Linker", Sequence[int], float], BoundCall | None]

CALLS: dict[str, CallKind] = {}


def call_kind(name: str) -> Callable[[CallKind], CallKind]:
    """Register a kind of call under the name by which plans refer to it."""

    def register(function: CallKind) -> CallKind:
        CALLS[name] = function
        return function

    return register


# ---- filling ----


@call_kind("zero")
def _zero(link: Linker, args: Sequence[int], number: float) -> BoundCall:
    return link.views[args[0]].zero_


@call_kind("undefined")
def _undefined(link: Linker, args: Sequence[int], number: float) -> BoundCall | None:
    return partial(link.views[args[0]].fill_, float("nan")) if link.fill_undefined else None


@call_kind("fill")
def _fill(link: Linker, args: Sequence[int], number: float) -> BoundCall:
    return partial(link.views[args[0]].fill_, number)


@call_kind("zero rows")
def _zero_rows(link: Linker, args: Sequence[int], number: float) -> BoundCall:
    return partial(link.views[args[0]].index_fill_, 0, link.index(args[1]), 0.0)


@call_kind("scale")
def _scale(link: Linker, args: Sequence[int], number: float) -> BoundCall:
    return partial(link.views[args[0]].mul_, number)


# ---- copying: dest, source ----


@call_kind("copy")
def _copy(link: Linker, args: Sequence[int], number: float) -> BoundCall:
    dest, source = args
    return partial(link.views[dest].copy_, link.views[source])


@call_kind("scaled copy")
def _scaled_copy(link: Linker, args: Sequence[int], number: float) -> BoundCall:
    dest, source = args
    return partial(torch.mul, link.views[source], number, out=link.views[dest])


@call_kind("positive")
def _positive(link: Linker, args: Sequence[int], number: float) -> BoundCall:
    dest, source = args
    return partial(torch.gt, link.views[source], 0.0, out=link.views[dest])


@call_kind("cat")
def _cat(link: Linker, args: Sequence[int], number: float) -> BoundCall:
    return partial(torch.cat, [link.views[source] for source in args[1:]], out=link.views[args[0]])


@call_kind("copy each")
def _copy_each(link: Linker, args: Sequence[int], number: float) -> BoundCall:
    return partial(torch._foreach_copy_, *_halves(link, args))


@call_kind("select rows")
def _select_rows(link: Linker, args: Sequence[int], number: float) -> BoundCall:
    dest, source, rows = args
    return partial(torch.index_select, link.views[source], 0, link.index(rows), out=link.views[dest])


@call_kind("copy to rows")
def _copy_to_rows(link: Linker, args: Sequence[int], number: float) -> BoundCall:
    dest, rows, source = args
    return partial(link.views[dest].index_copy_, 0, link.index(rows), link.views[source])


# ---- adding: dest, source ----


@call_kind("add")
def _add(link: Linker, args: Sequence[int], number: float) -> BoundCall:
    dest, source = args
    return partial(link.views[dest].add_, link.views[source])


@call_kind("scaled add")
def _scaled_add(link: Linker, args: Sequence[int], number: float) -> BoundCall:
    dest, source = args
    return partial(link.views[dest].add_, link.views[source], alpha=number)


@call_kind("add each")
def _add_each(link: Linker, args: Sequence[int], number: float) -> BoundCall:
    return partial(torch._foreach_add_, *_halves(link, args), alpha=number)


@call_kind("add to rows")
def _add_to_rows(link: Linker, args: Sequence[int], number: float) -> BoundCall:
    dest, rows, source = args
    return partial(link.views[dest].index_add_, 0, link.index(rows), link.views[source], alpha=number)


@call_kind("sum")
def _sum(link: Linker, args: Sequence[int], number: float) -> BoundCall:
    """dest = sum over the second axis of (dest rows, terms, columns)."""
    dest, terms = args
    return partial(torch.sum, link.views[terms], 1, out=link.views[dest])


def _halves(link: Linker, args: Sequence[int]) -> tuple[list[Tensor], list[Tensor]]:
    half = len(args) // 2
    return [link.views[view] for view in args[:half]], [link.views[view] for view in args[half:]]


# ---- kernels ----


@call_kind("propagate")
def _propagate(link: Linker, args: Sequence[int], number: float) -> BoundCall:
    kernel, precomputed, output, *inputs = args
    return link.forward(kernel, precomputed, output, inputs)


@call_kind("propagate and keep")
def _propagate_and_keep(link: Linker, args: Sequence[int], number: float) -> BoundCall:
    """Keep the memo unless its number is negative; with `stores` take statistics."""
    kernel, precomputed, output, memo_number, stores, *inputs = args
    forward, memos = link.forward(kernel, precomputed, output, inputs), link.memos
    store_stats = link.kernels.for_statistics(link.plan.kernels[kernel]).run_stats if stores else None
    values, result = [link.views[view] for view in inputs], link.views[output]

    def propagate() -> None:
        memo = forward()
        if store_stats is not None:
            store_stats(values, result, memo)
        if memo_number >= 0:
            memos[memo_number] = memo

    return propagate


@call_kind("backprop")
def _backprop(link: Linker, args: Sequence[int], number: float) -> BoundCall:
    number_of_kernel, precomputed, update, memo_number, is_last_use, output, output_deriv, count, *operands = args
    planned = link.plan.kernels[number_of_kernel]
    run = link.kernels.find(planned).run_backward
    to_update = link.kernels.for_update(planned, link.plan.need_model_derivative) if update else None
    inputs = [link.views[view] for view in operands[:count]]
    derivs = [link.views[view] if view >= 0 else None for view in operands[count : 2 * count]]
    accumulate = [bool(added) for added in operands[2 * count :]]
    value, deriv = link.views[output], link.views[output_deriv]
    indexes, memos = link.loaded(number_of_kernel, precomputed), link.memos
    if memo_number < 0:
        return partial(run, inputs, value, deriv, None, to_update, derivs, accumulate, indexes)

    def backprop() -> None:
        memo = memos[memo_number]
        if is_last_use:
            memos[memo_number] = None
        run(inputs, value, deriv, memo, to_update, derivs, accumulate, indexes)

    return backprop


# ---- the outside world ----


@call_kind("accept")
def _accept(link: Linker, args: Sequence[int], number: float) -> BoundCall:
    view, name = args
    return link.accept(link.views[view], link.plan.texts[name])


@call_kind("provide")
def _provide(link: Linker, args: Sequence[int], number: float) -> BoundCall:
    view, name = args
    return link.provide(link.views[view], link.plan.texts[name])
