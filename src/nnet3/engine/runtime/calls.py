"""The opcodes of calls in plans, and their binding to views and kernels.

An opcode names a function and its operands: `link.each(function, *columns)` binds the function once for every iteration
of a loop, and once outside of loops. A column gives an operand for each iteration: `link.view(number)`,
`link.always(value)`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from nnet3.engine.runtime.linker import BoundCall, CallBinder, Linker

CALLS: dict[str, CallBinder] = {}

#: Opcodes of calls that work on their views alone, apart from what kernels name in `replay_state`.
REPLAYABLE: set[str] = set()


def opcode(name: str, replayable: bool = True) -> Callable[[CallBinder], CallBinder]:
    """Register what binds the calls of an opcode."""

    def register(function: CallBinder) -> CallBinder:
        CALLS[name] = function
        if replayable:
            REPLAYABLE.add(name)
        return function

    return register


#: Opcodes of calls `function(*views)`. The first view is written; `copy`, `add` and `positive` read the second.
_ON_VIEWS: dict[str, Callable[..., object]] = {
    "zero": Tensor.zero_,
    "copy": Tensor.copy_,
    "add": Tensor.add_,
    "positive": lambda dest, source: torch.gt(source, 0.0, out=dest),
    "sum": lambda dest, terms: torch.sum(terms, 1, out=dest),  # terms: (dest rows, terms, columns)
}


def scaled_copy(dest: Tensor, source: Tensor, number: float) -> None:
    torch.mul(source, number, out=dest)


#: Opcodes of calls `function(*views, number)`.
_WITH_NUMBER: dict[str, Callable[..., object]] = {
    "fill": Tensor.fill_,
    "scale": Tensor.mul_,
    "scaled copy": scaled_copy,
}


def _call_on_views(name: str, function: Callable[..., object], with_number: bool) -> None:
    @opcode(name)
    def bind(link: Linker, args: Sequence[int], number: float) -> Iterable[BoundCall]:
        return link.each(function, *map(link.view, args), *([link.always(number)] if with_number else []))


for _group in (_ON_VIEWS, _WITH_NUMBER):
    for _name, _function in _group.items():
        _call_on_views(_name, _function, _group is _WITH_NUMBER)


@opcode("scaled add")
def _scaled_add(link: Linker, args: Sequence[int], number: float) -> Iterable[BoundCall]:
    return link.each(partial(Tensor.add_, alpha=number), *map(link.view, args))


@opcode("undefined")
def _undefined(link: Linker, args: Sequence[int], number: float) -> Iterable[BoundCall] | None:
    return CALLS["fill"](link, args, float("nan")) if link.fill_undefined else None


# ---- several views, and rows by index ----


@opcode("cat")
def _cat(link: Linker, args: Sequence[int], number: float) -> Iterable[BoundCall]:
    return link.each(_join, link.view(args[0]), link.views(args[1:]))


def _join(dest: Tensor, sources: list[Tensor]) -> None:
    torch.cat(sources, out=dest)


@opcode("copy each")
def _copy_each(link: Linker, args: Sequence[int], number: float) -> Iterable[BoundCall]:
    return link.each(torch._foreach_copy_, *_halves(link, args))


@opcode("add each")
def _add_each(link: Linker, args: Sequence[int], number: float) -> Iterable[BoundCall]:
    return link.each(partial(torch._foreach_add_, alpha=number), *_halves(link, args))


def _halves(link: Linker, args: Sequence[int]) -> tuple[Iterable[Any], Iterable[Any]]:
    half = len(args) // 2
    return link.views(args[:half]), link.views(args[half:])


@opcode("zero rows")
def _zero_rows(link: Linker, args: Sequence[int], number: float) -> Iterable[BoundCall]:
    dest, rows = args
    return link.each(Tensor.index_fill_, link.view(dest), *_by_index(link, rows), link.always(0.0))


@opcode("select rows")
def _select_rows(link: Linker, args: Sequence[int], number: float) -> Iterable[BoundCall]:
    dest, source, rows = args
    return link.each(_select, link.view(dest), link.view(source), *_by_index(link, rows))


def _select(dest: Tensor, source: Tensor, axis: int, rows: Tensor) -> None:
    torch.index_select(source, axis, rows, out=dest)


@opcode("copy to rows")
def _copy_to_rows(link: Linker, args: Sequence[int], number: float) -> Iterable[BoundCall]:
    dest, rows, source = args
    return link.each(Tensor.index_copy_, link.view(dest), *_by_index(link, rows), link.view(source))


@opcode("add to rows")
def _add_to_rows(link: Linker, args: Sequence[int], number: float) -> Iterable[BoundCall]:
    dest, rows, source = args
    add = partial(Tensor.index_add_, alpha=number)
    return link.each(add, link.view(dest), *_by_index(link, rows), link.view(source))


def _by_index(link: Linker, rows: int) -> tuple[Iterable[int], Iterable[Tensor]]:
    """Returns the axis and the rows, as PyTorch's functions on rows by index take them."""
    return link.always(0), link.always(link.index(rows))


# ---- kernels ----


@opcode("propagate")
def _propagate(link: Linker, args: Sequence[int], number: float) -> Iterable[BoundCall]:
    kernel, precomputed, output, *inputs = args
    return link.each(*link.forward(kernel, precomputed, output, inputs))


@opcode("propagate and keep", replayable=False)
def _propagate_and_keep(link: Linker, args: Sequence[int], number: float) -> Iterable[BoundCall]:
    """Keep the memo unless its number is negative; with `stores` take statistics."""
    kernel, precomputed, output, memo, stores, *inputs = args
    run, *columns = link.forward(kernel, precomputed, output, inputs)
    store_stats = link.kernels.for_statistics(link.plan.kernels[kernel]).run_stats if stores else None
    propagate = partial(_run_forward, run, store_stats, link.memos)
    return link.each(propagate, link.memo(memo) if memo >= 0 else link.always(-1), *columns)


def _run_forward(
    run: Any, store_stats: Any, memos: list[Any], number: int, inputs: Any, output: Any, rows: Any
) -> None:
    memo = run(inputs, output, rows)
    if store_stats is not None:
        store_stats(inputs, output, memo)
    if number >= 0:
        memos[number] = memo


@opcode("propagate again", replayable=False)
def _propagate_again(link: Linker, args: Sequence[int], number: float) -> Iterable[BoundCall]:
    kernel, precomputed, memo, output, *inputs = args
    run = partial(_run_again, link.kernels.find(link.plan.kernels[kernel]).run_again, link.memos)
    columns = link.views(inputs), link.view(output), link.loaded(kernel, precomputed)
    return link.each(run, link.memo(memo) if memo >= 0 else link.always(-1), *columns)


def _run_again(run: Any, memos: list[Any], number: int, inputs: Any, output: Any, rows: Any) -> None:
    run(inputs, output, memos[number] if number >= 0 else None, rows)


@opcode("backprop", replayable=False)
def _backprop(link: Linker, args: Sequence[int], number: float) -> Iterable[BoundCall]:
    kernel, precomputed, update, memo, is_last_use, output, output_deriv, count, *operands = args
    planned = link.plan.kernels[kernel]
    run = link.kernels.find(planned).run_backward
    to_update = link.kernels.for_update(planned, link.plan.need_model_derivative) if update else None
    columns = [link.views(operands[:count]), link.view(output), link.view(output_deriv)]
    derivs = link.views(operands[count : 2 * count])
    added = link.always([bool(each) for each in operands[2 * count :]])
    rest = derivs, added, link.loaded(kernel, precomputed)
    if memo < 0:
        return link.each(run, *columns, link.always(None), link.always(to_update), *rest)
    backprop = partial(_run_backward, run, to_update, link.memos, is_last_use)
    return link.each(backprop, link.memo(memo), *columns, *rest)


def _run_backward(
    run: Any, to_update: Any, memos: list[Any], is_last_use: int, number: int, inputs: Any, output: Any, *operands: Any
) -> None:
    output_deriv, *derivs_and_rows = operands
    memo = memos[number]
    if is_last_use:
        memos[number] = None
    run(inputs, output, output_deriv, memo, to_update, *derivs_and_rows)


# ---- the outside world ----


@opcode("accept", replayable=False)
def _accept(link: Linker, args: Sequence[int], number: float) -> Iterable[BoundCall]:
    view, name = args
    return link.accept(view, link.plan.texts[name])


@opcode("provide", replayable=False)
def _provide(link: Linker, args: Sequence[int], number: float) -> Iterable[BoundCall]:
    view, name = args
    return link.provide(view, link.plan.texts[name])
