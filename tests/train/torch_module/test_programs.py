"""Programs of a module: compiled once for each shape; memory of forwards that wait for their backward."""

from __future__ import annotations

import copy
import gc
import threading

import pytest
import torch

import nnet3
from nnet3.engine.runtime.memory import pool_of
from nnet3.errors import ArgumentError
from nnet3.training.train.torch_module.programs import Programs, ProgramWorker
from tests.call_count import count_calls_of
from tests.effort import EFFORT
from tests.runtime.free_bytes import free_bytes
from tests.train.torch_module.comparing import assert_alike, gradients
from tests.train.torch_module.networks import LSTM, TDNN, features, network

POOL = pool_of(torch.device("cpu"))


def _leased() -> int:
    """How many arenas are in use, counted by those that tests made and that are not free."""
    return len([each for each in gc.get_objects() if type(each).__name__ == "Lease" and each.is_held])


def test_programs_come_from_the_cache_by_shape():
    cache = nnet3.ComputationCache()
    module = nnet3.TorchModule(network(TDNN), cache=cache)
    for _ in range(3):
        module(features(2, 5)).sum().backward()
    assert len(cache) == 1
    (program,) = module._programs._programs.values()
    (worker,) = program.idle
    module(features(2, 5)).sum().backward()
    assert program.idle[0] is worker, "made once, as long as nothing changes"
    module(features(2, 6)).sum().backward()
    with torch.no_grad():
        module(features(2, 6))
    assert len(cache) == 3
    nnet3.TorchModule(network(TDNN, seed=3), cache=cache)(features(2, 6)).sum().backward()
    assert len(cache) == 3


def test_batches_of_all_shapes_share_a_worker():
    """One view of the network and one collector, whatever the lengths; one computer serves shapes that come once."""
    module, other = (nnet3.TorchModule(network(LSTM)) for _ in range(2))
    longest = 40 if EFFORT > 1 else 16
    shapes = [(2, 5), (1, 7), (3, 6), (2, 5), *((1, length) for length in range(8, longest + 1)), (2, 5)]

    def step() -> None:
        for each in (module, other):
            each.zero_grad()
        for shape in shapes:
            module(features(*shape)).square().sum().backward()
            other(features(*shape)).square().sum().backward()
            other._programs.clear()

    assert count_calls_of(ProgramWorker.__init__, step) == 1 + len(shapes)
    (program,) = module._programs._programs.values()
    assert [shape.num_frames for shape in program.idle[0].computers] == [5, longest]
    for mine, theirs in zip(module.parameters(), other.parameters(), strict=True):
        assert torch.equal(mine.grad, theirs.grad)


def test_flights_of_several_shapes_at_once():
    """Each has a worker to itself, if possible one that has a computer for its shape."""
    module, batches = nnet3.TorchModule(network(LSTM)), [features(2, 6), features(1, 9), features(3, 4)]
    for _ in range(3):
        losses = [module(batch).square().sum() for batch in batches]
        for loss in losses[::-1]:
            loss.backward()
    (program,) = module._programs._programs.values()
    assert [len(list(worker.computers)) for worker in program.idle] == [1, 1, 1]


@pytest.mark.filterwarnings("ignore:a batch-norm component in test mode has no statistics")
def test_lengths_make_no_new_programs_where_rows_are_independent():
    cache = nnet3.ComputationCache()
    module = nnet3.TorchModule(network(TDNN), cache=cache).eval()
    for lengths in ([6, 6], [6, 3], [2, 5]):
        module(features(2, 6), lengths=lengths)
    assert len(cache) == 1


def test_several_forwards_in_flight():
    module = nnet3.TorchModule(network(LSTM))
    before = _leased()
    outputs = [module(features(2, 6, seed=seed)) for seed in range(5)]
    assert _leased() == before + 5
    (program,) = module._programs._programs.values()
    assert not program.idle
    outputs[3].sum().backward()
    assert _leased() == before + 4
    del outputs  # never followed by a backward
    gc.collect()
    assert _leased() == before
    assert len(program.idle) == 5


def test_memory_does_not_grow_with_forwards_that_nobody_follows():
    module = nnet3.TorchModule(network(TDNN))
    module(features(2, 6))
    gc.collect()
    free, arenas = free_bytes(POOL), len(POOL._free)
    gc.disable()  # it goes without the search for cycles
    try:
        for _ in range(20):
            module(features(2, 6))
            loss = module(features(2, 6)).sum()
            loss.backward()
    finally:
        gc.enable()
    assert (free_bytes(POOL), len(POOL._free)) == (free, arenas)


def test_what_is_kept_has_bounds():
    """The programs used last, and a few computers of each."""
    programs, made = Programs(), []

    def make(key):
        made.append(key)
        return object()

    for key in [*range(32), 0, 32, *range(2, 33), 0, 1]:
        programs.get(key, lambda key=key: make(key))
    assert made == [*range(33), 1], "the one that was not used for longest goes first"
    module = nnet3.TorchModule(network(TDNN))
    outputs = [module(features(1, 1, seed=seed)) for seed in range(10)]
    (program,) = module._programs._programs.values()
    del outputs
    assert len(program.idle) == 8


def test_gradients_have_memory_of_their_own():
    module = nnet3.TorchModule(network(TDNN))
    module(features(2, 6)).sum().backward()
    kept = [parameter.grad for parameter in module.parameters()]
    values = [gradient.clone() for gradient in kept]
    module.zero_grad()
    module(features(2, 6, seed=9)).square().sum().backward()
    torch.testing.assert_close(kept, values, atol=0, rtol=0)


def test_an_error_in_the_middle_leaves_a_usable_module(monkeypatch):
    module = nnet3.TorchModule(network(TDNN))
    x = features(2, 6)
    expected = module(x)
    leased = _leased()
    component = type(module.nnet.components["tdnn2"])
    forward = component.forward
    monkeypatch.setattr(component, "forward", lambda *arguments: 1 / 0)
    module._programs.clear()  # calls are bound when a computer is made
    with pytest.raises(ZeroDivisionError):
        module(x)
    monkeypatch.setattr(component, "forward", forward)
    module._programs.clear()
    assert torch.equal(module(x), expected)
    assert _leased() <= leased + 1


def test_settings_that_programs_depend_on():
    cache = nnet3.ComputationCache()
    nnet = network(TDNN)
    module = nnet3.TorchModule(nnet, cache=cache)
    x = features(2, 6)
    before = module(x)
    nnet.components["tdnn2"].time_offsets = (-1, 0, 1)
    assert not torch.equal(module(x), before)
    assert len(cache) == 2
    nnet.components["tdnn2"].time_offsets = (-2, 0, 2)
    assert torch.equal(module(x), before)


def test_threads_have_computers_of_their_own():
    module = nnet3.TorchModule(network(LSTM))
    batches = [features(2, 6, seed=seed) for seed in range(4)]
    expected = [torch.autograd.grad(module(x).square().sum(), module.parameters()) for x in batches]
    found: dict[int, object] = {}

    def work(number: int) -> None:
        for _ in range(10):
            found[number] = torch.autograd.grad(module(batches[number]).square().sum(), module.parameters())

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in range(4):
        torch.testing.assert_close(found[number], expected[number], atol=0, rtol=0)


@pytest.mark.parametrize("config", [TDNN, LSTM])
@pytest.mark.parametrize("options", [{"level": 0}, {"optimize": False}, {"disabled_passes": {"work_in_place"}}])
def test_a_choice_of_passes_makes_other_programs_of_the_same_numbers(config: str, options: dict):
    plain, cache = nnet3.TorchModule(network(config)), nnet3.ComputationCache()
    module = nnet3.TorchModule(
        network(config), cache=cache, compile_options=nnet3.CompileOptions(check=True, **options)
    )
    x = features(2, 6)
    twin = copy.deepcopy(module)
    expected = gradients(plain, x)
    for each in (module, twin):
        assert_alike(gradients(each, x), expected)
    assert _last_program(module) == _last_program(twin) != _last_program(plain)
    module.compile_options = None
    assert_alike(gradients(module, x), expected)
    assert _last_program(module) == _last_program(plain)
    assert len(cache) == 2


def _last_program(module: nnet3.TorchModule) -> str:
    """The commands that ran last."""
    program = list(module._programs._programs.values())[-1]
    return str(program.idle[0].computer.computation)


def test_wrong_compile_options():
    for wrong in (0, "level=0", {"level": 0}):
        with pytest.raises(ArgumentError, match="compile_options of a TorchModule must be CompileOptions"):
            nnet3.TorchModule(network(TDNN), compile_options=wrong)
