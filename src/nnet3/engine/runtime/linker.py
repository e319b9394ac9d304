"""Linker: binds the calls of a plan to memory and kernels, so that they run without arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import repeat
from typing import Any, TypeAlias

from torch import Tensor

from nnet3.engine.ir.objects import many_objects
from nnet3.engine.runtime.constants import Constants
from nnet3.engine.runtime.kernels import Kernels
from nnet3.engine.runtime.memory import Arena
from nnet3.engine.runtime.plan import Plan
from nnet3.engine.runtime.view_tensors import StandIns, ViewTensors
from nnet3.errors import ExecutionError

_TURNS_ATONCE = 256  # of a loop are bound together


#: A call made ready to run: without arguments.
BoundCall = Callable[[], object]

#: From a call's integers (mostly numbers of views) and its number to what runs in each iteration; None if nothing runs.
CallBinder = Callable[["Linker", Sequence[int], float], Iterable[BoundCall] | None]

#: The iterations of what is in no loop.
ONCE = range(1)

#: Some iterations, calls, and what runs for each of these in each iteration.
BoundRun: TypeAlias = tuple[range, list[int], list[Iterable[BoundCall]]]


@dataclass
class RunState:
    """The state of a run outside the arena."""

    accepted: dict[str, Tensor] = field(default_factory=dict)
    provided: dict[str, Tensor] = field(default_factory=dict)
    memos: list[Any] = field(default_factory=list)

    def clear(self) -> None:
        self.accepted.clear()
        self.provided.clear()
        self.memos[:] = [None] * len(self.memos)


class Linker:
    """Everything that calls need for binding, once for each of the present `iterations`."""

    def __init__(
        self,
        plan: Plan,
        kernels: Kernels,
        arena: Arena,
        state: RunState,
        constants: Constants,
        outside: Mapping[str, Tensor],
        binders: Mapping[str, CallBinder],
        fill_undefined: bool,
    ) -> None:
        """`binders`: of calls, by opcode. Raises ExecutionError for a call of an unknown opcode."""
        self.plan, self.kernels, self.constants, self.binders = plan, kernels, constants, binders
        self.arena, self.outside, self.fill_undefined = arena, outside, fill_undefined
        self.used_tables = set[tuple[int, int]]()  # that calls are bound to, as in `Constants.loaded`
        self.used = set[int]()  # the views that calls are bound to
        self.accepted, self.provided, self.memos = state.accepted, state.provided, state.memos
        self.tensors: Any = ViewTensors(plan, arena, outside)  # or `StandIns`, for a while
        self.iterations, self._steps = ONCE, (0, 0)
        self._run_forward: dict[int, Callable[..., Any]] = {}
        self._accepts = {port.name: port.bound_name for segment in plan.segments for port in segment.accepts}
        self._provides = {port.name: name for each in plan.segments for name, port in each.bound_results().items()}
        for name in plan.opcodes:
            if name not in binders:
                raise ExecutionError(
                    f"the plan has a call of opcode '{name}', which this version does not know: plan it again"
                )
        self._binders = [binders[name] for name in plan.opcodes]
        self._args, self._starts = plan.call_args.tolist(), plan.call_start.tolist()
        self._opcode_and_number = list(zip(plan.call_opcode.tolist(), plan.call_number.tolist(), strict=True))

    def anew(self) -> Linker:
        """Returns a fresh linker of the plan to the linked memory, with nothing bound yet."""
        state = RunState(self.accepted, self.provided, self.memos)
        return Linker(
            *(self.plan, self.kernels, self.arena, state, self.constants, self.outside, self.binders),
            fill_undefined=self.fill_undefined,
        )

    def move(self, plan: Plan, constants: Constants) -> bool:
        """Move views to the addresses in a plan that differs in numbers alone; calls bound to views stay bound.

        Returns False, and changes nothing, where moving is impossible. Calls bound from now on have the plan's tables.
        """
        if not self.tensors.move(plan):
            return False
        if plan.call_args is not self.plan.call_args:
            self._args = plan.call_args.tolist()
        self.plan, self.constants = plan, constants
        return True

    # ---- binding ----

    def bind(self, call: int) -> Iterable[BoundCall] | None:
        """Returns what runs for a call outside of loops; None if nothing does."""
        if self.iterations is not ONCE:  # samples of a loop were bound, or it has failed
            self._begin(ONCE, (0, 0))
        return self._bind(call)

    def bind_loop(self, calls: Iterable[int], iterations: range, steps: tuple[int, int]) -> Iterator[BoundRun]:
        """Yields some iterations, the calls in them, and the bound calls for each iteration, until all iterations are
        bound.

        `steps` of memos and of precomputed entries.
        """
        for start in range(iterations.start, iterations.stop, _TURNS_ATONCE):
            some = range(start, min(start + _TURNS_ATONCE, iterations.stop))
            with many_objects():
                self._begin(some, steps)
                bound = {call: each for call in calls if (each := self._bind(call)) is not None}
            yield some, list(bound), list(bound.values())
        self._begin(ONCE, (0, 0))

    def bind_stand_ins(
        self, calls: Iterable[int], steps: tuple[int, int] = (0, 0)
    ) -> tuple[StandIns, dict[int, BoundCall]]:
        """Returns tensors in the place of all views, and the bound call on them for each running call."""
        tensors, made = self.tensors, self.tensors.stand_ins()
        self._begin(ONCE, steps)
        self.tensors = made
        try:
            return made, {call: each for call in calls for each in self._bind(call) or ()}
        finally:
            self.tensors = tensors
            self._begin(ONCE, (0, 0))

    def _begin(self, iterations: range, steps: tuple[int, int]) -> None:
        """Bind for these iterations from now on."""
        self.iterations, self._steps = iterations, steps
        self.tensors.forget_iterations()

    def _bind(self, call: int) -> Iterable[BoundCall] | None:
        opcode, number = self._opcode_and_number[call]
        return self._binders[opcode](self, self._args[self._starts[call] : self._starts[call + 1]], number)

    def each(self, function: Callable[..., Any], *columns: Iterable[Any]) -> Iterable[BoundCall]:
        """Binds a function to the operands of every iteration."""
        return map(partial, self.always(function), *columns)

    # ---- operands, for each iteration ----

    def always(self, value: Any) -> Iterable[Any]:
        """Returns the same value for all iterations."""
        return repeat(value, len(self.iterations))

    def view(self, number: int) -> Iterable[Tensor]:
        """Returns the tensor of a view for each iteration."""
        self.used.add(number)
        return self.tensors.of(number, self.iterations)

    def views(self, numbers: Sequence[int]) -> Iterable[list[Tensor | None]]:
        """Returns the tensors of several views for each iteration, None for -1."""
        self.used.update(numbers)
        fixed = [None if number < 0 else self.tensors.fixed[number] for number in numbers]
        if all(number < 0 or tensor is not None for number, tensor in zip(numbers, fixed, strict=True)):
            return map(list, self.always(fixed))
        return map(list, zip(*[self.always(None) if n < 0 else self.view(n) for n in numbers], strict=True))

    def memo(self, number: int) -> Iterable[int]:
        """Returns the number of a memo in each iteration."""
        return [number + iteration * self._steps[0] for iteration in self.iterations]

    def index(self, number: int) -> Tensor:
        """Returns a table of row numbers on the device."""
        self.used_tables.add((-1, number))
        return self.constants.index(self.plan, number)

    def loaded(self, kernel: int, precomputed: int) -> Iterable[Any]:
        """Returns a kernel's precomputed arrays for each iteration, loaded for the device."""
        step = self._steps[1] if precomputed else 0
        if not step:
            return self.always(self._load(kernel, precomputed))
        return [self._load(kernel, precomputed + iteration * step) for iteration in self.iterations]

    def _load(self, kernel: int, precomputed: int) -> Any:
        if self.plan.precomputed[precomputed] is None:
            return None
        self.used_tables.add((kernel, precomputed))
        return self.constants.load(self.plan, self.kernels, kernel, precomputed)

    def forward(self, kernel: int, precomputed: int, output: int, inputs: Sequence[int]) -> tuple[Any, ...]:
        """Returns a kernel's forward function, and the operands in each iteration: inputs, output, precomputed
        arrays."""
        run = self._run_forward.get(kernel)
        if run is None:
            run = self._run_forward[kernel] = self.kernels.find(self.plan.kernels[kernel]).run_forward
        return run, self.views(inputs), self.view(output), self.loaded(kernel, precomputed)

    def accept(self, view: int, name: str) -> Iterable[BoundCall]:
        bound = self.outside.get(self._accepts[name])
        if bound is not None:
            return self.each(Tensor.copy_, self.view(view), self.always(bound))
        accepted = self.accepted
        return self.each(lambda dest: dest.copy_(accepted[name]), self.view(view))

    def provide(self, view: int, name: str) -> Iterable[BoundCall]:
        bound, provided = self.outside.get(self._provides[name]), self.provided
        if bound is not None:
            return self.each(Tensor.copy_, self.always(bound), self.view(view))

        def provide(source: Tensor) -> None:
            provided[name] = source.clone()

        return self.each(provide, self.view(view))
