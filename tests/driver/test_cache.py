"""The cache of computations: what is found again, what is made anew, in memory and in a folder."""

from __future__ import annotations

import copy
import pickle
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import MISSING, dataclass, fields, make_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnet3
from nnet3 import CompileOptions
from nnet3.compiler.request import ComputationRequest, IoSpecification
from nnet3.driver import cache as cache_module
from nnet3.driver.cache import ComputationCache, default_cache, key_digest
from nnet3.driver.cached_computation import _KNOWN, StoredComputation, num_bytes
from nnet3.errors import ArgumentError, ExecutionError, RequestError
from nnet3.ir import serialize
from nnet3.ir.computation import NnetComputation
from nnet3.runtime import NnetComputer, plan_of
from tests.patience import PATIENCE
from tests.runtime.scale_program import FEATURES, forward, scale_program
from tests.runtime.toy_kernels import Scale, net


class Maker:
    """Makes computations and counts them."""

    def __init__(self, **fingerprint: str) -> None:
        self.count = 0
        self.fingerprint = fingerprint

    def __call__(self) -> NnetComputation:
        self.count += 1
        computation = scale_program()
        computation.fingerprint = dict(self.fingerprint)
        return computation


def run(computation: NnetComputation) -> None:
    computer = NnetComputer(computation, net(scale=Scale(2.0)), net(scale=Scale(0.0)))
    np.testing.assert_array_equal(forward(computer), 2 * FEATURES)


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


def test_plans_count() -> None:
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


def entry_of(folder: Path) -> Path:
    (path,) = folder.iterdir()
    return path


def test_another_process_finds_what_is_in_the_folder(tmp_path: Path) -> None:
    make = Maker(structure="abc")
    made = ComputationCache(tmp_path).get_or_compile(0, make)
    found = ComputationCache(tmp_path).get_or_compile(0, make)
    assert make.count == 1
    assert isinstance(found, StoredComputation)
    assert found.fingerprint == {"structure": "abc"}
    assert str(found) == str(made)
    assert type(found) is NnetComputation
    assert num_bytes(found) == pytest.approx(num_bytes(made), rel=0.1)
    run(found)


def test_a_plan_in_the_folder_runs_without_the_program(tmp_path: Path) -> None:
    run(ComputationCache(tmp_path).get_or_compile(0, Maker()))
    found = ComputationCache(tmp_path).get_or_compile(0, Maker())
    run(found)
    assert isinstance(found, StoredComputation)
    assert "commands" not in vars(found)


def test_two_threads_read_a_program_at_once(tmp_path: Path) -> None:
    ComputationCache(tmp_path).get_or_compile(0, Maker())
    found = ComputationCache(tmp_path).get_or_compile(0, Maker())
    commands = found.commands
    # As in a thread that found no commands yet, and goes on when another has read them.
    assert StoredComputation.__getattr__(found, "commands") is commands  # type: ignore[arg-type]


def test_a_plan_for_another_dtype_is_added_to_the_folder(tmp_path: Path) -> None:
    plan_of(ComputationCache(tmp_path).get_or_compile(0, Maker()), "float32")
    plan_of(ComputationCache(tmp_path).get_or_compile(0, Maker()), "float64")
    found = ComputationCache(tmp_path).get_or_compile(0, Maker())
    assert found.attachments is not None
    assert sorted(found.attachments) == ["plan float32", "plan float64"]
    assert [plan_of(found, dtype).dtype for dtype in ("float32", "float64")] == ["float32", "float64"]
    assert isinstance(found, StoredComputation)


@pytest.mark.parametrize("twin_of", [copy.deepcopy, lambda c: pickle.loads(pickle.dumps(c)), lambda c: c.copy()])
def test_copies_of_what_is_in_a_folder(twin_of: Callable[[NnetComputation], NnetComputation], tmp_path: Path) -> None:
    plan_of(ComputationCache(tmp_path).get_or_compile(0, Maker(a="b")), "float32")
    twin = twin_of(ComputationCache(tmp_path).get_or_compile(0, Maker()))
    assert type(twin) is NnetComputation
    assert twin.fingerprint == {"a": "b"}
    run(twin)


def test_fields_that_are_known_before_the_file_is_read() -> None:
    """A default of the class would be taken for the value in the file."""
    with_default = {field.name for field in fields(NnetComputation) if field.default is not MISSING}
    assert with_default - {"attachments"} <= set(_KNOWN)


def damage(path: Path, how: str) -> None:
    data = path.read_bytes()
    if how == "foreign":
        path.write_bytes(b"GIF89a" + data)
    elif how == "of something else":
        ComputationCache(path.parent).get_or_compile(1, Maker())
        other = next(p for p in path.parent.iterdir() if p != path)
        other.replace(path)
    else:
        changed = {
            "cut": data[: len(data) // 2],
            "empty": b"",
            "only magic": data[:30],
            "changed": data[:-40] + bytes([data[-40] ^ 1]) + data[-39:],
        }
        path.write_bytes(changed[how])


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("foreign", "it does not begin as a file of this version"),
        ("empty", "it does not begin"),
        ("only magic", "it ends too early"),
        ("cut", "its checksum is wrong"),
        ("changed", "its checksum is wrong"),
        ("of something else", "it is the file of something else"),
    ],
)
def test_files_that_are_damaged_are_written_anew(how: str, message: str, tmp_path: Path) -> None:
    make = Maker()
    ComputationCache(tmp_path).get_or_compile(0, make)
    damage(entry_of(tmp_path), how)
    with pytest.warns(RuntimeWarning, match=f"is not used: {message}.*; compiling again"):
        run(ComputationCache(tmp_path).get_or_compile(0, make))
    assert make.count == 2
    assert isinstance(ComputationCache(tmp_path).get_or_compile(0, make), StoredComputation)
    assert make.count == 2


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    cache = ComputationCache(tmp_path / "folder")
    (tmp_path / "folder").write_text("in the way")
    with pytest.warns(RuntimeWarning, match="not kept there|cannot be read"):
        computation = cache.get_or_compile(0, Maker())
    with pytest.warns(RuntimeWarning, match="not kept there"):
        run(computation)


def test_the_folder_is_bounded(tmp_path: Path) -> None:
    ComputationCache(tmp_path).get_or_compile(0, Maker())
    size = entry_of(tmp_path).stat().st_size
    cache = ComputationCache(tmp_path, max_bytes=3 * size + 10)
    for number in range(6):
        cache.get_or_compile(number, Maker())
    assert len(list(tmp_path.iterdir())) == 3


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
    assert isinstance(computation, StoredComputation)
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


def _name_in_file(key: object) -> bytes:
    return key_digest((cache_module.PROGRAM_VERSION, serialize.VERSION, key)).encode()


def test_a_file_with_all_that_is_in_memory(tmp_path: Path) -> None:
    cache, path = ComputationCache(), tmp_path / "cache"
    for number in range(3):
        cache.get_or_compile(number, Maker(number=str(number)))
    cache.save(path)
    other = ComputationCache()
    other.load(path)
    assert len(other) == 3
    for number in range(3):
        make = Maker()
        found = other.get_or_compile(number, make)
        assert (make.count, found.fingerprint) == (0, {"number": str(number)})
        run(found)
    assert sorted(tmp_path.iterdir()) == [path]
    with pytest.raises(FileNotFoundError):
        other.load(tmp_path / "none")


@pytest.mark.parametrize(
    ("damage", "left", "message"),
    [
        (lambda data: b"", 0, "it does not begin as a file of this version"),
        (lambda data: b"x" + data, 0, "it does not begin as a file of this version"),
        (lambda data: data[:-1], 1, "it ends too early"),
        (lambda data: data + b"x", 2, "it ends too early"),
        (lambda data: data[:-1] + bytes([data[-1] ^ 1]), 1, "its checksum is wrong"),
        (lambda data: data.replace(_name_in_file(1), b"0" * 40, 1), 1, "it is the file of something else"),
    ],
)  # fmt: skip
def test_a_file_that_is_damaged_is_read_so_far(
    tmp_path: Path, damage: Callable[[bytes], bytes], left: int, message: str
) -> None:
    cache, path = ComputationCache(), tmp_path / "cache"
    for number in range(2):
        cache.get_or_compile(number, Maker(number=str(number)))
    cache.save(path)
    path.write_bytes(damage(path.read_bytes()))
    other = ComputationCache()
    with pytest.warns(RuntimeWarning, match=f"cache: the rest is not used: {message}"):
        other.load(path)
    assert len(other) == left
