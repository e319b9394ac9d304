"""What would not do as the plan's calls do is noticed before it runs: moved tensors, loops of native code,
iterations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from nnet3 import cn
from nnet3.base.native.operations import ADDRESSES, FLOAT_BYTES, OF_TURN
from nnet3.base.native.ranges import ReachableMemory
from nnet3.engine.driver import ComputationCache
from nnet3.engine.runtime import native_bound_runs
from nnet3.engine.runtime.link import LinkedComputation
from nnet3.engine.runtime.link_proof import LinkProof
from nnet3.engine.runtime.native_bound_runs import NativeBoundRuns
from nnet3.engine.runtime.native_runs import Group, NativeRun, NativeRuns
from nnet3.engine.runtime.view_operations import ViewOperations
from nnet3.engine.runtime.view_tensors import ViewTensors
from nnet3.errors import ProofError
from tests.call_count import count_calls_of
from tests.effort import at_night
from tests.families.minibatches import minibatch, recurrence
from tests.native.native_code import needs_native_code

#: A longest sequence each, and less of all than in the first two sets.
SETS = [(19, *[18 - number] * 5) for number in range(9)]

Patch = pytest.MonkeyPatch


@pytest.fixture(autouse=True)
def links_are_proved(monkeypatch: Patch) -> None:
    """Links alone: programs and plans are proved elsewhere."""
    monkeypatch.setenv("NNET3_PROVE", "0")
    begin = LinkedComputation.__init__
    monkeypatch.setattr(LinkedComputation, "__init__", lambda *args, **_: begin(*args, prove=True))


@pytest.fixture(scope="module")
def cache() -> ComputationCache:
    """The programs of all tests; each network links them anew."""
    return ComputationCache()


def run_all(cache: ComputationCache, kind: str = "plain", lag: int = 1) -> None:
    net = cn.Network(*recurrence(lag, kind), cache=cache)
    for lengths in SETS:
        net.gradients(minibatch(net, lengths))


@pytest.mark.parametrize("kind", ["plain", *at_night("both ways")])
def test_sets_of_lengths(cache: ComputationCache, kind: str) -> None:
    """The loops of all of them are proved: those that are made, and those that take other iterations over."""
    assert count_calls_of(LinkProof.proved, lambda: run_all(cache, kind)) >= 2 * len(SETS)


# ---- planted mistakes ----


def with_patch(kind: type, name: str, change: Callable[[Callable[..., Any]], Callable[..., Any]]) -> Any:
    return lambda patch: patch.setattr(kind, name, change(getattr(kind, name)))


def move_one_matrix(bound_to: Callable[..., Any]) -> Callable[..., Any]:
    """The first matrix of the last operation begins further on than it should, in all iterations but the first."""

    def moved(self: ViewOperations, addresses: Any) -> Any:
        found = bound_to(self, addresses)
        if found is not None:
            found[1][-1, OF_TURN.start] += 1
        return found

    return moved


def move_nothing(move: Callable[..., Any]) -> Callable[..., Any]:
    """Operations stay those of the lengths before."""

    def moved(self: NativeRun, num_iterations: int, addresses: Any) -> bool:
        self._num_iterations = num_iterations
        return True

    return moved


def keep_tables(move: Callable[..., Any]) -> Callable[..., Any]:
    def moved(self: NativeRun, num_iterations: int, addresses: Any) -> bool:
        tables = self._arrays[3:]
        done: bool = move(self, num_iterations, addresses)
        if done and all(len(before) >= len(after) for before, after in zip(tables, self._arrays[3:], strict=True)):
            self._arrays[3:] = tables
            self._arrays[2][:] = [table.ctypes.data for table in tables]
        return done

    return moved


def without_pointers(move: Callable[..., Any]) -> Callable[..., Any]:
    """The tables are new, and native code reads the old ones."""

    def moved(self: NativeRun, num_iterations: int, addresses: Any) -> bool:
        pointers = self._arrays[2].copy()
        self.kept = self._arrays[3:]  # type: ignore[attr-defined]
        done: bool = move(self, num_iterations, addresses)
        self._arrays[2][:] = pointers
        return done

    return moved


def leave_tensors(move: Callable[..., Any]) -> Callable[..., Any]:
    """Views that begin elsewhere, or have other rows, stay what they were."""

    def moved(self: ViewTensors, plan: Any) -> bool:
        fixed, self.fixed = self.fixed, [None if each is None else each.view(each.shape) for each in self.fixed]
        done: bool = move(self, plan)
        self.fixed = fixed
        return done

    return moved


def an_address_off(patch: Patch) -> None:
    """Outside of loops."""
    in_groups = native_bound_runs.in_groups

    def moved(calls: Any, operations: Any, addresses: Any, *iterations: int, **shared: Any) -> list[Group]:
        groups = in_groups(calls, operations, addresses, *iterations, **shared)
        for group in groups:
            if group.run is not None and not iterations:
                group.run._arrays[0][-1, ADDRESSES.start] += FLOAT_BYTES
        return groups

    patch.setattr(native_bound_runs, "in_groups", moved)


def a_iteration_less(patch: Patch) -> None:
    as_bound_run = native_bound_runs._as_bound_run
    patch.setattr(native_bound_runs, "_as_bound_run", lambda whole, iterations: as_bound_run(whole, iterations[:-1]))


def a_iteration_more(patch: Patch) -> None:
    as_bound_run = native_bound_runs._as_bound_run
    patch.setattr(
        native_bound_runs,
        "_as_bound_run",
        lambda whole, iterations: as_bound_run(whole, range(iterations.start, iterations.stop + 1)),
    )


def a_call_less(patch: Patch) -> None:
    """Of each loop, and of the calls that stand outside of loops."""
    loop = NativeBoundRuns.loop

    def shorter(self: NativeBoundRuns, calls: range, *args: Any) -> Any:
        return loop(self, calls[:-1], *args)

    patch.setattr(NativeBoundRuns, "loop", shorter)


def calls_in_another_order(patch: Patch) -> None:
    straight = NativeBoundRuns.straight

    def turned(self: NativeBoundRuns, *args: Any) -> Any:
        iterations, calls, each = straight(self, *args)
        return iterations, calls, [each[1], each[0], *each[2:]] if len(each) > 1 else each

    patch.setattr(NativeBoundRuns, "straight", turned)


MISTAKES: dict[str, Callable[[Patch], None]] = {
    "a matrix moves too far": with_patch(ViewOperations, "bound_to", move_one_matrix),
    "operations of the lengths before": with_patch(NativeRun, "move", move_nothing),
    "all runs stay where they were": with_patch(NativeRuns, "move", lambda move: lambda *_: True),
    "tables of the lengths before": with_patch(NativeRun, "move", keep_tables),
    "tables that are forgotten": with_patch(NativeRun, "move", without_pointers),
    "tensors stay": with_patch(ViewTensors, "move", leave_tensors),
    "an address is one float off": an_address_off,
    "an iteration less": a_iteration_less,
    "an iteration more": a_iteration_more,
    "a call less": a_call_less,
    "calls in another order": calls_in_another_order,
}


@needs_native_code
@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_noticed(cache: ComputationCache, mistake: Callable[[Patch], None], monkeypatch: Patch) -> None:
    mistake(monkeypatch)
    with pytest.raises(ProofError, match="It is not"):
        run_all(cache)


@needs_native_code
def test_packed_weights_lie_in_memory_that_the_program_only_reads(monkeypatch: Patch) -> None:
    x, labels = cn.input("x", 12), cn.input("labels", 2)
    out = cn.macros.affine(cn.macros.lstm(x, 48, lag=1).h, 2, name="out")
    net = cn.Network(cn.cross_entropy_with_softmax(labels, out, name="J"), [out], cache=ComputationCache())
    monkeypatch.setattr(
        "nnet3.engine.runtime.native_runs._goes",
        lambda each, addresses, iterations: bool(each and each.bound_to(addresses)),
    )
    packed = list[int]()
    in_iterations = NativeRun.in_iterations

    def counted(self: NativeRun, iterations: range) -> Any:
        packed.append(len(self.packed))
        return in_iterations(self, iterations)

    monkeypatch.setattr(NativeRun, "in_iterations", counted)
    given = minibatch(net, (19,) * 12)
    net.gradients(given)
    assert max(packed) >= 1
    monkeypatch.setattr("nnet3.engine.runtime.link_proof.ReachableMemory", lambda *args: ReachableMemory([], []))
    with pytest.raises(ProofError, match="weights are packed that the program may change"):
        net.gradients(minibatch(net, (18,) * 12))
