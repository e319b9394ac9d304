"""The cache of computations: what is found again, what is made anew, in memory and in a folder."""

from __future__ import annotations

import copy
import pickle
import threading
from concurrent.futures import Future
from dataclasses import dataclass, make_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnet3
from nnet3 import CompileOptions
from nnet3.engine.driver import cache as cache_module
from nnet3.engine.driver.cache import ComputationCache, default_cache, key_digest
from nnet3.engine.driver.cache_file import num_bytes
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.runtime import NnetComputer, plan_of
from nnet3.errors import ArgumentError, ExecutionError, RequestError
from nnet3.model.requests.io_specification import IoSpecification
from nnet3.model.requests.request import ComputationRequest
from tests.driver.counting_maker import Maker, run
from tests.patience import PATIENCE
from tests.runtime.scale_program import FEATURES, forward, scale_program
from tests.runtime.toy_kernels import Scale, net

# ---- memory ----


def test_equal_keys_are_made_once() -> None:
    cache, make = ComputationCache(), Maker()
    first = cache.get_or_compile({"a": 1, "b": b"x"}, make)
    assert cache.get_or_compile({"b": b"x", "a": 1}, make) is first
    assert cache.get_or_compile({"a": 1, "b": b"y"}, make) is not first
    assert (make.count, len(cache)) == (2, 2)
    run(first)
    cache.clear()
    assert (len(cache), cache.num_bytes) == (0, 0)


def test_the_one_that_was_not_used_for_longest_goes() -> None:
    make = Maker()
    size = num_bytes(make())
    cache = ComputationCache(max_bytes=3 * size)
    made = [cache.get_or_compile(number, make) for number in range(3)]
    assert cache.get_or_compile(0, make) is made[0]
    cache.get_or_compile(3, make)
    assert cache.num_bytes <= 3 * size
    assert cache.get_or_compile(0, make) is made[0]
    assert cache.get_or_compile(1, make) is not made[1]


def test_one_that_is_too_large_is_not_kept() -> None:
    cache, make = ComputationCache(max_bytes=10), Maker()
    run(cache.get_or_compile(0, make))
    run(cache.get_or_compile(0, make))
    assert (make.count, len(cache)) == (2, 0)


def test_copies_begin_empty(tmp_path: Path) -> None:
    cache = ComputationCache(tmp_path / "cache", max_bytes=10**6)
    cache.get_or_compile(1, Maker())
    for twin in (copy.deepcopy(cache), pickle.loads(pickle.dumps(cache))):
        assert (len(twin), twin.folder, twin.max_bytes) == (0, cache.folder, 10**6)


def test_plans_count_among_the_bytes() -> None:
    cache = ComputationCache()
    computation = cache.get_or_compile(0, Maker())
    before = cache.num_bytes
    plan_of(computation, "float32")
    assert cache.num_bytes > before
    assert cache.num_bytes == num_bytes(computation)


def test_a_plan_is_made_once_for_each_dtype() -> None:
    computation = ComputationCache().get_or_compile(0, Maker())
    assert plan_of(computation, "float32").views is plan_of(computation, "float32").views
    assert plan_of(computation, "float64").dtype == "float64"
    assert computation.attachments is not None
    assert sorted(computation.attachments) == ["plan float32", "plan float64"]


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch) -> threading.Semaphore:
    """Released by each thread that waits for what another one makes."""
    waits = threading.Semaphore(0)

    class Watched(Future):
        def result(self, timeout: float | None = None) -> Any:
            waits.release()
            return super().result(timeout)

    monkeypatch.setattr(cache_module, "Future", Watched)
    return waits


def test_equal_requests_of_several_threads_are_made_once(waiting: threading.Semaphore) -> None:
    cache, results = ComputationCache(), list[Any]()

    class Slow(Maker):
        def __call__(self) -> NnetComputation:
            assert all(waiting.acquire(timeout=PATIENCE) for _ in range(4))
            return super().__call__()

    make = Slow()
    threads = [threading.Thread(target=lambda: results.append(cache.get_or_compile(0, make))) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert make.count == 1
    assert all(result is results[0] for result in results)
    assert len(results) == 5


def test_an_error_is_not_kept() -> None:
    cache = ComputationCache()

    def fail() -> NnetComputation:
        raise ValueError("not now")

    for _ in range(2):
        with pytest.raises(ValueError, match="not now"):
            cache.get_or_compile(0, fail)
    run(cache.get_or_compile(0, Maker()))


def test_others_try_again_after_an_interrupt(waiting: threading.Semaphore) -> None:
    cache, entered, results = ComputationCache(), threading.Event(), list[Any]()

    def interrupted() -> NnetComputation:
        entered.set()
        assert waiting.acquire(timeout=PATIENCE)
        raise KeyboardInterrupt

    def other() -> None:
        assert entered.wait(PATIENCE)
        results.append(cache.get_or_compile(0, Maker()))

    thread = threading.Thread(target=other)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        cache.get_or_compile(0, interrupted)
    thread.join()
    run(results[0])


def test_the_cache_of_the_process() -> None:
    assert default_cache() is default_cache()


# ---- keys ----


@dataclass(frozen=True)
class Options:
    level: int = 1
    names: frozenset[str] = frozenset()


DIFFERENT = [
    *(
        None,
        True,
        False,
        0,
        1,
        1.0,
        "",
        "1",
        b"",
        b"1",
        (),
        ("",),
        ((),),
        ("a", "b"),
        ("ab",),
        {},
        {"a": 1},
        {"a": "1"},
    ),
    *(Options(), Options(2), Options(1, frozenset({"a"})), {"level": 1}, frozenset(), frozenset({"a", "b"})),
    *(np.zeros(2), np.zeros(2, np.float32), np.zeros((1, 2)), np.zeros(3), np.zeros(0), (1, (2, 3)), (1, 2, 3)),
]


def test_different_keys_have_different_digests() -> None:
    digests = [key_digest(key) for key in DIFFERENT]
    assert len(set(digests)) == len(digests)
    assert digests == [key_digest(copy.deepcopy(key)) for key in DIFFERENT]


def test_digests_are_the_same_in_all_processes() -> None:
    assert key_digest({"b": {"x", "y"}, "a": (1, None)}) == "6591215d5d5030bf0cebb40cfcc4323624e1156c"


def test_what_keys_cannot_be_made_of() -> None:
    with pytest.raises(TypeError, match="a key of the cache cannot contain a object"):
        key_digest({"a": object()})


def test_names_of_fields_are_part_of_a_key() -> None:
    one, other = (make_dataclass("Options", [name], frozen=True)(1) for name in ("optimize", "check"))
    assert key_digest(one) != key_digest(other)
    assert key_digest(one) == key_digest(make_dataclass("Options", ["optimize"])(1))


def test_how_much_may_be_kept() -> None:
    assert ComputationCache(max_bytes=0).max_bytes == 0
    for wrong in (-1, float("nan"), "1"):
        with pytest.raises(ArgumentError, match="max_bytes of a cache must be"):
            ComputationCache(max_bytes=wrong)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="the folder of a cache must be a path or None"):
        ComputationCache(folder=3)  # type: ignore[arg-type]


# ---- folders ----


# ---- networks that change ----


class Network:
    """Kernels with a fingerprint."""

    def __init__(self, **fingerprint: str) -> None:
        self.components = {"scale": Scale(2.0)}
        self.aspects = fingerprint

    def fingerprint(self) -> dict[str, str]:
        return self.aspects


def test_a_stale_computation_is_an_error() -> None:
    computation = scale_program()
    computation.fingerprint = {"structure": "a", "component scale": "b"}
    network = Network(**computation.fingerprint)
    computer = NnetComputer(computation, network, net(scale=Scale()))
    forward(computer)
    computer.reset()
    network.aspects = {"structure": "a", "component scale": "c", "test mode": "on"}
    message = "is not what the computation was compiled for, .*: component scale, test mode; compile again"
    with pytest.raises(ExecutionError, match=message):
        forward(computer)
    with pytest.raises(ExecutionError, match=message):
        NnetComputer(computation, network, net(scale=Scale()))
    network.aspects = computation.fingerprint
    np.testing.assert_array_equal(forward(computer), 2 * FEATURES)


def test_many_changes_are_counted() -> None:
    computation = scale_program()
    computation.fingerprint = {f"component {n}": "a" for n in range(8)}
    with pytest.raises(ExecutionError, match="component 3, component 4, 3 more; compile again"):
        NnetComputer(computation, Network(), net(scale=Scale()))


# ---- real networks ----

CONFIG = """
input-node name=input dim=3
component name=affine type=NaturalGradientAffineComponent input-dim=6 output-dim=4
component name=norm type=BatchNormComponent dim=4
component-node name=affine component=affine input=Append(Offset(input, -1), input)
component-node name=norm component=norm input=affine
output-node name=output input=norm
"""


def request(frames: int = 5) -> ComputationRequest:
    at = [[(0, t, 0) for t in range(first, frames)] for first in (-1, 0)]
    return ComputationRequest([IoSpecification("input", at[0])], [IoSpecification("output", at[1])])


def test_networks_are_compiled_again_when_they_have_changed(tmp_path: Path) -> None:
    nnet = nnet3.Nnet.from_config(CONFIG)
    for cache in (ComputationCache(), ComputationCache(tmp_path)):
        first = cache.compile(nnet, request())
        assert cache.compile(nnet, request()) is first
        assert cache.compile(nnet.copy(), request(), CompileOptions()) is first
        assert cache.compile(nnet, request(6)) is not first
        assert cache.compile(nnet, request(), CompileOptions(optimize=False)) is not first
        nnet.set_test_mode(True)
        with pytest.raises(ExecutionError, match="has changed since, in: component norm; compile again"):
            NnetComputer(first, nnet)
        assert cache.compile(nnet, request()) is not first
        nnet.set_test_mode(False)
        assert cache.compile(nnet, request()) is first


def test_results_are_the_same_from_the_folder(tmp_path: Path) -> None:
    nnet = nnet3.Nnet.from_config(CONFIG)
    features, results = np.random.default_rng(0).standard_normal((6, 3)), []
    for _ in range(3):
        computation = ComputationCache(tmp_path).compile(nnet, request())
        results.append(forward(NnetComputer(computation, nnet), features))
    assert computation.is_lazy
    assert results[0].equal(results[1])
    assert results[0].equal(results[2])


def test_a_wrong_request_is_an_error_every_time() -> None:
    cache = ComputationCache()
    wrong = ComputationRequest(request().inputs, [IoSpecification("outptu", [(0, 0, 0)])])
    for _ in range(2):
        with pytest.raises(RequestError, match="did you mean 'output'"):
            cache.compile(nnet3.Nnet.from_config(CONFIG), wrong)


def test_an_edit_of_the_nodes_is_noticed() -> None:
    nnet, cache = nnet3.Nnet.from_config(CONFIG), ComputationCache()
    first = cache.compile(nnet, request())
    nnet.apply_config("output-node name=output input=Scale(2.0, norm)")
    with pytest.raises(ExecutionError, match="has changed since, in: nodes; compile again"):
        NnetComputer(first, nnet)
    assert cache.compile(nnet, request()) is not first
