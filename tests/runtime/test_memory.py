"""Arenas: shared by what runs one after the other, apart for what runs at the same time."""

from __future__ import annotations

import copy
import gc
import pickle
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from nnet3.engine.ir import commands as cmd
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.runtime import NnetComputer, memory, release_memory
from nnet3.engine.runtime.memory import ArenaPool, Lease, checked_device, pool_of
from nnet3.errors import ExecutionError
from tests.patience import PATIENCE
from tests.runtime.free_bytes import free_bytes
from tests.runtime.programs import Program
from tests.runtime.scale_program import FEATURES, forward, scale_program
from tests.runtime.toy_kernels import Scale, net

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def _pool_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_POOLS", {})


def chain(rows: int) -> NnetComputation:
    """output = 2 * input, through a matrix of its own."""
    program = Program()
    value = program.input("input", rows, 4)
    doubled = program.matrix(rows, 4)
    program.add(cmd.MatrixCopy(doubled, value, 2.0)).output("output", doubled)
    return program.computation


def training() -> NnetComputer:
    return NnetComputer(scale_program(), net(scale=Scale(2.0)), net(scale=Scale(0.0)))


class User:
    """Somebody who needs memory."""


def test_a_pool_hands_out_what_fits() -> None:
    pool, user = ArenaPool(CPU), User()
    small, large = Lease(pool, 100, user), Lease(pool, 1000, user)
    assert small.arena is not large.arena
    arenas = {100: small.arena, 1000: large.arena}
    small.release()
    large.release()
    for need, expected in ((50, 100), (100, 100), (101, 1000)):
        lease = Lease(pool, need, user)
        assert lease.arena is arenas[expected]
        lease.release()
        lease.release()  # a second time does nothing
    assert free_bytes(pool) == 1100


@pytest.mark.parametrize(
    ("dtype", "count"), [(torch.float64, 12), (torch.float32, 25), (torch.bfloat16, 50), (torch.bool, 100)]
)
def test_all_of_an_arena_in_numbers(dtype: torch.dtype, count: int) -> None:
    """A last number that is not whole is left out."""
    arena = memory.Arena(100, torch.device("cpu"))
    lane = arena.lane(dtype)
    assert (lane.dtype, tuple(lane.shape), lane.data_ptr()) == (dtype, (count,), arena.storage.data_ptr())


def test_the_largest_grows() -> None:
    pool, user = ArenaPool(CPU), User()
    for need in (100, 300, 200):
        Lease(pool, need, user).release()
    assert free_bytes(pool) == 300


def test_a_user_gets_the_arena_it_is_linked_to() -> None:
    pool, user = ArenaPool(CPU), User()
    one, two = Lease(pool, 100, user), Lease(pool, 100, user)
    arena = two.arena
    arena.links[user] = "link"
    one.release()
    two.release()
    assert Lease(pool, 100, user).arena is arena


@pytest.mark.usefixtures("only_own_garbage")
def test_a_lease_that_is_forgotten_gives_back() -> None:
    pool = ArenaPool(CPU)
    lease = Lease(pool, 100, User())
    assert free_bytes(pool) == 0
    del lease
    gc.collect()
    assert free_bytes(pool) == 100


@pytest.mark.usefixtures("only_own_garbage")
def test_a_lease_that_is_forgotten_while_another_is_taken() -> None:
    """The garbage collector may run anywhere, also where the pool is locked."""
    pool = ArenaPool(CPU)
    lease = Lease(pool, 100, User())
    with pool._lock:
        del lease
        gc.collect()
    assert free_bytes(pool) == 100


def test_computers_share_one_arena_that_grows_to_the_largest() -> None:
    computers = {rows: NnetComputer(chain(rows), net()) for rows in (10, 1000, 100)}
    for _ in range(2):
        for rows, computer in computers.items():
            np.testing.assert_array_equal(forward(computer, np.full((rows, 4), rows)), np.full((rows, 4), 2 * rows))
    assert free_bytes(pool_of(CPU)) == max(computer.plan.num_bytes for computer in computers.values())


@pytest.mark.usefixtures("only_own_garbage")
def test_links_to_memory_that_has_been_replaced_are_dropped() -> None:
    small, large = NnetComputer(chain(10), net()), NnetComputer(chain(1000), net())
    forward(small, np.ones((10, 4)))
    (arena,) = pool_of(CPU)._free
    assert small in arena.links
    forward(large, np.ones((1000, 4)))
    (arena,) = pool_of(CPU)._free
    assert small not in arena.links
    del large
    gc.collect()
    assert list(arena.links) == []


def test_memory_is_held_between_forward_and_backward() -> None:
    """Values that the backward part needs are not overwritten by others, who get another arena."""
    first, second = training(), training()
    forward(first, FEATURES)
    assert free_bytes(pool_of(CPU)) == 0
    forward(second, FEATURES + 100)
    for computer in (first, second):
        computer.accept_input("output", torch.ones(2, 3))
        computer.run()
    gradients = [computer._nnets[1].components["scale"].factor for computer in (first, second)]
    assert gradients == [FEATURES.sum(), (FEATURES + 100).sum()]
    assert free_bytes(pool_of(CPU)) == 2 * first.plan.num_bytes


@pytest.mark.usefixtures("only_own_garbage")
@pytest.mark.parametrize("end", ["reset", "forget", "fail"])
def test_memory_is_given_back(end: str) -> None:
    computer = training()
    forward(computer)
    size = computer.plan.num_bytes
    if end == "reset":
        computer.reset()
    elif end == "fail":
        computer.accept_input("output", torch.ones(2, 3))
        computer._nnets[0].components["scale"].factor.resize_(2)
        with pytest.raises(RuntimeError):
            computer.run()
    else:
        del computer
        gc.collect()
    assert free_bytes(pool_of(CPU)) == size
    release_memory()
    assert free_bytes(pool_of(CPU)) == 0


def run_in_threads(functions: list[Callable[[], Any]]) -> list[Any]:
    results: list[Any] = [None] * len(functions)

    def work(number: int) -> None:
        try:
            results[number] = functions[number]()
        except Exception as error:
            results[number] = error

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(functions))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def test_several_computers_of_one_computation_in_several_threads() -> None:
    computation = scale_program()
    computation.attachments = {}  # all use one plan

    def work(seed: int) -> tuple[np.ndarray, float]:
        nnet, gradient = net(scale=Scale(2.0)), net(scale=Scale(0.0))
        computer = NnetComputer(computation, nnet, gradient)
        rng, sums = np.random.default_rng(seed), np.zeros((2, 3), np.float32)
        for _ in range(50):
            sums += forward(computer, rng.standard_normal((2, 3))).numpy()
            computer.accept_input("output", rng.standard_normal((2, 3)))
            computer.run()
            sums += computer.get_output("input").numpy()
        return sums, float(gradient.components["scale"].factor)

    expected = [work(seed) for seed in range(6)]
    got = run_in_threads([lambda seed=seed: work(seed) for seed in range(6)])  # type: ignore[misc]
    for one, other in zip(got, expected, strict=True):
        np.testing.assert_array_equal(one[0], other[0])
        assert one[1] == other[1]
    assert (
        free_bytes(pool_of(CPU)) <= 6 * NnetComputer(computation, net(scale=Scale()), net(scale=Scale())).plan.num_bytes
    )


@pytest.mark.parametrize("call", ["accept_input", "run", "get_output", "reset"])
def test_two_threads_in_one_computer(call: str) -> None:
    entered, leave = threading.Event(), threading.Event()

    class Slow(Scale):
        def run_forward(self, *args: Any) -> Any:
            entered.set()
            assert leave.wait(PATIENCE)
            return super().run_forward(*args)

    computer = NnetComputer(scale_program(), net(scale=Slow(2.0)), net(scale=Scale()))
    computer.accept_input("input", FEATURES)
    thread = threading.Thread(target=computer.run)
    thread.start()
    assert entered.wait(PATIENCE)
    arguments = {"accept_input": ("input", FEATURES), "get_output": ("output",)}
    with pytest.raises(ExecutionError, match="two threads use one NnetComputer at the same time: make one for each"):
        getattr(computer, call)(*arguments.get(call, ()))
    leave.set()
    thread.join()
    np.testing.assert_array_equal(computer.get_output("output"), 2 * FEATURES)


@pytest.mark.parametrize(
    "twin_of", [copy.deepcopy, lambda c: pickle.loads(pickle.dumps(c))], ids=["deepcopy", "pickle"]
)
def test_copies_begin_with_the_first_run(twin_of: Callable[[NnetComputer], NnetComputer]) -> None:
    computer = training()
    forward(computer)
    twin = twin_of(computer)
    np.testing.assert_array_equal(forward(twin, FEATURES + 1), 2 * FEATURES + 2)
    for one, value in ((computer, 1.0), (twin, 3.0)):
        one.accept_input("output", np.full((2, 3), value))
        one.run()
        np.testing.assert_array_equal(one.get_output("input"), np.full((2, 3), 2 * value))
    assert computer._nnets[1].components["scale"].factor == FEATURES.sum()


def test_components_put_in_the_place_of_others_are_used() -> None:
    nnet = net(scale=Scale(2.0))
    computer = NnetComputer(scale_program(), nnet, net(scale=Scale()))
    forward(computer)
    computer.reset()
    nnet.components["scale"] = Scale(5.0)
    np.testing.assert_array_equal(forward(computer), 5 * FEATURES)


def test_the_largest_free_arena_gives_way_to_a_larger_one() -> None:
    pool = ArenaPool(torch.device("cpu"))
    for arena in [pool.acquire(size, object()) for size in (1000, 5000, 3000)]:
        pool.release(arena)
    assert pool.acquire(9000, object()).num_bytes == 9000
    assert free_bytes(pool) == 4000
    assert pool.acquire(2000, object()).num_bytes == 3000  # the smallest that is large enough
    assert free_bytes(pool) == 1000


def test_cuda_devices_by_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if there were two, the second of which is the present one."""
    for name, value in (("is_available", True), ("current_device", 1), ("device_count", 2)):
        monkeypatch.setattr(torch.cuda, name, lambda value=value: value)
    assert checked_device("cuda") == torch.device("cuda", 1)
    assert checked_device("cuda:0") == torch.device("cuda", 0)
    with pytest.raises(ExecutionError, match="device 'cuda:2' was asked for, but there are 2"):
        checked_device("cuda:2")


def test_streams_have_memory_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """What runs on another stream may run at the same time."""
    monkeypatch.setattr(memory, "_POOLS", {})
    stream = 7
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: SimpleNamespace(cuda_stream=stream))
    cuda, cpu = torch.device("cuda", 0), torch.device("cpu")
    first = pool_of(cuda)
    stream = 8
    second = pool_of(cuda)
    assert second is not first
    assert (first.device, second.device) == (cuda, cuda)
    stream = 7
    assert pool_of(cuda) is first
    assert pool_of(torch.device("cuda", 1)) is not first
    pool = pool_of(cpu)
    stream = 8
    assert pool_of(cpu) is pool


def test_an_arena_that_is_too_small_grows_by_a_quarter() -> None:
    pool, user = ArenaPool(CPU), User()
    sizes = list[int]()
    for wanted in (1000, 1100, 1250, 900, 1300, 4000):
        arena = pool.acquire(wanted, user)
        sizes.append(arena.num_bytes)
        pool.release(arena)
    assert sizes == [1000, 1250, 1250, 1250, 1562, 4000]
