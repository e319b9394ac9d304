"""Programs that native code runs: what it makes at once, addresses that move, what is left to Python."""

from __future__ import annotations

import io
import pickle
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import nnet3
from nnet3.base.native.operations import ADDRESSES
from nnet3.base.native.ranges import ReachableMemory
from nnet3.decode import UtteranceComputer
from nnet3.engine.driver.proving import PROVE
from nnet3.engine.runtime import native_bound_runs, native_runs
from nnet3.engine.runtime.native_runs import NativeRun, NativeRuns
from nnet3.engine.runtime.profile import profile
from nnet3.engine.runtime.view_operations import ViewOperations
from nnet3.engine.runtime.view_tensors import ViewAddresses
from nnet3.errors import ExecutionError
from nnet3.model.nnet import Nnet
from tests.call_count import count_calls_of
from tests.effort import EFFORT, at_night, nightly, third
from tests.native.native_code import needs_native_code
from tests.networks.golden_network import BOUNDS, check_run, run_case
from tests.random_cases import forward_cases
from tests.shared_data import golden_cases

pytestmark = [
    needs_native_code,
    pytest.mark.filterwarnings("ignore:a batch-norm component in test mode has no statistics"),
]

LSTM = """
input dim=6 name=input
relu-layer name=first dim=10
fast-lstmp-layer name=loop cell-dim=12 recurrent-projection-dim=6 non-recurrent-projection-dim=6 delay=-1
output-layer name=output dim=5
"""
GRUS = """
input dim=6 name=input
gru-layer name=one cell-dim=10
pgru-layer name=two cell-dim=12 recurrent-projection-dim=4 non-recurrent-projection-dim=4
norm-opgru-layer name=three cell-dim=8 recurrent-projection-dim=4 non-recurrent-projection-dim=4
output-layer name=output dim=5
"""
FAST_GRUS = """
input dim=6 name=input
fast-gru-layer name=one cell-dim=10
fast-pgru-layer name=two cell-dim=12 recurrent-projection-dim=4 non-recurrent-projection-dim=4
fast-opgru-layer name=three cell-dim=12 recurrent-projection-dim=8 non-recurrent-projection-dim=4
output-layer name=output dim=5
"""
#: The averages are of kernels with tables, which are others for each length: Python binds them anew.
AVERAGES_AND_LSTMS = """
input dim=6 name=input
stats-layer name=stats config=mean+stddev(-6:1:3:6)
relu-layer name=first dim=10 input=Append(input, stats)
fast-lstmp-layer name=one cell-dim=12 recurrent-projection-dim=6 non-recurrent-projection-dim=6 delay=-1
fast-lstmp-layer name=two cell-dim=12 recurrent-projection-dim=6 non-recurrent-projection-dim=6 delay=2
output-layer name=output dim=5
"""
LSTM_OF_PARTS = """
input dim=6 name=input
lstm-layer name=one cell-dim=10 delay=-2
lstmp-layer name=two cell-dim=8 recurrent-projection-dim=4 non-recurrent-projection-dim=4 delay=3
output-layer name=output dim=5
"""


def network(xconfig: str = LSTM) -> Nnet:
    nnet = Nnet.from_xconfig(xconfig, seed=1)
    for component in nnet.components.values():
        for value in component.parameters().values():
            value.normal_(std=0.4, generator=torch.Generator().manual_seed(value.numel()))
    nnet.set_test_mode()
    return nnet


def as_native(nnet: Nnet) -> Nnet:
    """A copy all of whose components native code may compute."""
    twin = nnet.copy()
    for component in twin.components.values():
        component.is_native = True
    return twin


def by_pytorch(nnet: Nnet, rows: Tensor) -> Tensor:
    """Returns the outputs of a network without native code."""
    with pytest.MonkeyPatch.context() as context:
        context.setattr(native_runs, "library", lambda: None)
        return nnet.copy().compute(rows)


def features(frames: int, sequences: int = 1) -> Tensor:
    return torch.randn(sequences * frames, 6, generator=torch.Generator().manual_seed(frames))


def computer_of(nnet: Nnet, frames: int, sequences: int = 1) -> nnet3.NnetComputer:
    indexes = [(n, t) for t in range(frames) for n in range(sequences)]
    io = [nnet3.IoSpecification("input", indexes)], [nnet3.IoSpecification("output", indexes)]
    computation = nnet3.ComputationCache().compile(nnet, nnet3.ComputationRequest(*io))
    return nnet3.NnetComputer(computation, nnet)


@contextmanager
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[int, int]]]:
    """The iterations of each run of native code."""
    iterations: list[tuple[int, int]] = []
    run = native_runs.NativeRun.__call__

    def count(self: native_runs.NativeRun, start: int, stop: int) -> None:
        iterations.append((start, stop))
        run(self, start, stop)

    with monkeypatch.context() as context:
        context.setattr(native_runs.NativeRun, "__call__", count)
        yield iterations


def assert_close(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_a_loop_is_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    nnet = network()
    computer = computer_of(as_native(nnet), 50)
    for _ in range(3):
        with counted(monkeypatch) as iterations:
            found = computer.compute({"input": features(50)})["output"]
        assert max(stop - start for start, stop in iterations) >= 40
        assert len(iterations) <= 10
        assert_close(found, by_pytorch(nnet, features(50)))


def test_memory_is_checked_once_for_each_link() -> None:
    computer = computer_of(as_native(network()), 50)
    looks = [count_calls_of(ReachableMemory.check, lambda: computer.compute({"input": features(50)})) for _ in range(4)]
    assert looks[0] >= 1
    assert looks[2:] == [0, 0]


def test_a_run_that_would_use_other_memory_does_not_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if a row of a loop began elsewhere in each iteration."""
    bound_to = ViewOperations.bound_to

    def bound_wrong(self: ViewOperations, addresses: ViewAddresses) -> Any:
        rows, moves = bound_to(self, addresses) or ((), np.zeros((0, 1)))
        moves[:, 0] = 10**9
        return rows, moves

    monkeypatch.setattr(ViewOperations, "bound_to", bound_wrong)
    with counted(monkeypatch) as iterations, pytest.raises(ExecutionError, match="none of this program"):
        computer_of(as_native(network()), 50).compute({"input": features(50)})
    assert all(stop - start == 1 for start, stop in iterations)


def test_another_length_that_would_use_other_memory_does_not_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the last operation began far behind the program's memory."""
    _, computer = another_length(LSTM, monkeypatch)
    bound_to = ViewOperations.bound_to

    def bound_wrong(self: ViewOperations, addresses: ViewAddresses) -> Any:
        found = bound_to(self, addresses)
        assert found is not None
        found.rows[-1, ADDRESSES.start] += 10**9
        return found

    monkeypatch.setattr(ViewOperations, "bound_to", bound_wrong)
    with counted(monkeypatch) as iterations, pytest.raises(ExecutionError, match="none of this program"):
        computer.compute(features(150))
    assert all(stop - start == 1 for start, stop in iterations)


@pytest.mark.parametrize("xconfig", [LSTM, GRUS, FAST_GRUS, LSTM_OF_PARTS])
@pytest.mark.parametrize("sequences", [1, 8, 9, *at_night(3, 20)])
def test_all_recurrent_layers_and_numbers_of_rows(
    xconfig: str, sequences: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With more rows than native code multiplies, products are PyTorch's."""
    nnet = network(xconfig)
    given = {"input": features(40, sequences)}
    expected = computer_of(nnet, 40, sequences).compute(given)["output"]
    assert expected.std(0).min() > 0.01
    with counted(monkeypatch) as iterations:
        assert_close(computer_of(as_native(nnet), 40, sequences).compute(given)["output"], expected)
    assert iterations


FOLDERS = (golden_cases("random") + golden_cases("recipe"))[:: 3 if EFFORT == 1 else 1]


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_golden_networks(folder: Path) -> None:
    """Their forward passes are native where that can be, in training programs too."""
    nnet = as_native(nnet3.load(folder / "model.raw"))
    check_run(folder, run_case(folder, nnet, nnet.gradient_copy(), nnet3.CompileOptions()), BOUNDS[folder.parent.name])


@nightly
@pytest.mark.parametrize("block", range(EFFORT))
def test_random_networks(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    native, compared = 0, 0
    for _, nnet, request, given in forward_cases(range(9000 + 15 * block, 9000 + 15 * block + third(15))):
        computation = nnet3.compile(nnet, request)
        expected = nnet3.NnetComputer(computation, nnet, check_finite=False).compute(given)
        with counted(monkeypatch) as iterations:
            found = nnet3.NnetComputer(computation, as_native(nnet), check_finite=False).compute(given)
        native += bool(iterations)
        for name, rows in expected.items():
            torch.testing.assert_close(found[name], rows, rtol=1e-4, atol=1e-4)
            compared += 1
    assert min(compared, native) > third(5)


def test_new_lengths_streams_and_minibatches_of_any_lengths() -> None:
    nnet = network(LSTM)
    native = as_native(nnet)
    whole = UtteranceComputer(native)
    for frames in (30, 31, 64, 30, 5, 97):
        assert_close(whole.compute(features(frames)), by_pytorch(nnet, features(frames)))
    stream = nnet3.StreamComputer(native, frames_per_chunk=7, frame_subsampling_factor=1).open()
    parts = [stream.accept(features(64)[:10]), stream.accept(features(64)[10:]), stream.finish()]
    assert_close(torch.cat(parts), by_pytorch(nnet, features(64)))
    batch = nnet3.BatchComputer(native, frame_subsampling_factor=1)
    utterances = [(str(frames), features(frames), None) for frames in (40, 33, 52)]
    for key, rows in batch.compute(utterances):
        assert_close(rows, by_pytorch(nnet, features(int(key))))


def another_length(xconfig: str, monkeypatch: pytest.MonkeyPatch) -> tuple[Nnet, UtteranceComputer]:
    """A network, and a computer that has run some lengths, equal to 0 modulo 6.

    From now on no link is proved: a proof asks native code what these tests count or make wrong.
    """
    monkeypatch.setenv(PROVE, "forms")
    nnet = network(xconfig)
    computer = UtteranceComputer(as_native(nnet))
    for frames in (90, 96, 198, 102, 108):
        computer.compute(features(frames))
    return nnet, computer


def test_all_native_code_moves_to_another_length_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """No operations are asked for again, and calls on new tables take the place of those before."""
    nnet, computer = another_length(AVERAGES_AND_LSTMS, monkeypatch)
    monkeypatch.setattr(native_bound_runs, "operations_of", lambda call: pytest.fail("it was asked for before"))
    for frames in range(114, 180, 24):
        looked_at = ViewOperations.bound_to, NativeRuns.move, NativeRun.move
        looks = [
            count_calls_of(each, computer.compute, features(frames + 6 * number))
            for number, each in enumerate(looked_at)
        ]
        assert looks == [1, 1, 0]
        assert_close(computer.compute(features(frames + 18)), by_pytorch(nnet, features(frames + 18)))


def test_native_code_that_cannot_move_at_once_moves_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    nnet, computer = another_length(AVERAGES_AND_LSTMS, monkeypatch)
    monkeypatch.setattr(NativeRuns, "move", lambda *_: False)
    for frames in (114, 144):
        assert count_calls_of(NativeRun.move, computer.compute, features(frames)) > 1
        assert_close(computer.compute(features(frames + 6)), by_pytorch(nnet, features(frames + 6)))


def test_backward_recurrences_of_several_lengths() -> None:
    nnet = network(LSTM.replace("delay=-1", "delay=2"))
    batch = nnet3.BatchComputer(as_native(nnet), frame_subsampling_factor=1)
    utterances = [(str(frames), features(frames), None) for frames in (40, 33, 52, 41)]
    for key, rows in batch.compute(utterances):
        assert_close(rows, by_pytorch(nnet, features(int(key))))


def test_parameters_that_change_or_move_are_followed() -> None:
    nnet = network()
    native = as_native(nnet)
    computer = computer_of(native, 40)

    def check() -> None:
        for _ in range(3):
            assert_close(computer.compute({"input": features(40)})["output"], by_pytorch(nnet, features(40)))

    check()
    for change in (
        lambda each: each.scale_(0.5),
        lambda each: each.flat_parameters(),  # moves the memory
        lambda each: _replace_parameters(each),
        lambda each: each.components["loop.W_rp"].to(torch.float64).to(torch.float32),
        lambda each: _transpose(each.components["loop.W_rp"]),  # its memory stays where it is
        lambda each: [setattr(c, "scale", 0.5) for name, c in each.components.items() if "trunc" in name],
    ):
        change(nnet)
        change(native)
        check()


def _transpose(component: Any) -> None:
    component.linear_params.data = component.linear_params.data.t()


def _replace_parameters(nnet: Nnet) -> None:
    for component in nnet.components.values():
        for value in component.parameters().values():
            value.data = value.flip(0).contiguous()


def test_copies_and_pickles_stay_native(monkeypatch: pytest.MonkeyPatch) -> None:
    packed = network().pack()
    native = {name for name, component in packed.components.items() if component.is_native}
    assert native == {"loop.W_all", "loop.lstm_nonlin", "loop.cr_trunc", "loop.W_rp"}
    expected = packed.compute(features(30))
    for twin in (packed.copy(), packed.pack(), packed.in_test_mode(), pickle.loads(pickle.dumps(packed))):
        with counted(monkeypatch) as iterations:
            assert torch.equal(twin.compute(features(30)), expected)
        assert iterations
    assert packed.fingerprint()["component loop.W_all"] == network().fingerprint()["component loop.W_all"]


def test_other_dtypes_are_computed_by_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    nnet = network().to(torch.float64)
    with counted(monkeypatch) as iterations:
        found = as_native(nnet).compute(features(40))
    assert not iterations
    torch.testing.assert_close(found, by_pytorch(nnet, features(40)))


def test_without_native_code_all_is_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    nnet = network()
    native = as_native(nnet)
    monkeypatch.setattr(native_runs, "library", lambda: None)
    with counted(monkeypatch) as iterations:
        assert_close(native.compute(features(40)), by_pytorch(nnet, features(40)))
    assert not iterations


def test_networks_are_native_where_they_are_only_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """`compute` reads a network; a computer made of it may train it. Changed parameters are seen."""
    nnet = network()
    with counted(monkeypatch) as iterations:
        computer_of(nnet, 40).compute({"input": features(40)})
        assert not iterations
        for _ in range(3):
            assert_close(nnet.compute(features(40)), by_pytorch(nnet, features(40)))
            for component in nnet.components.values():
                for value in component.parameters().values():
                    value.mul_(0.9)
    assert iterations


def test_debug_mode_and_profiles_see_each_command(monkeypatch: pytest.MonkeyPatch) -> None:
    nnet = network()
    plain, native = (computer_of(each, 30) for each in (nnet, as_native(nnet)))
    expected = plain.compute({"input": features(30)})["output"]
    printed = io.StringIO()
    traced = nnet3.NnetComputer(native.computation, as_native(nnet), debug=True, debug_file=printed)
    assert_close(traced.compute({"input": features(30)})["output"], expected)
    assert printed.getvalue().count("lstm_nonlin.Propagate") == 30
    with counted(monkeypatch) as iterations:
        report = profile(native, {"input": features(30)}, repeats=1)
    assert {stop - start for start, stop in iterations} == {1}
    assert sum(row.calls for row in report.rows(by=["type"]) if row.keys == ("LstmNonlinearityComponent",)) == 30


def test_two_threads_compute_side_by_side() -> None:
    native = as_native(network())
    expected = native.compute(features(60))
    found: list[Any] = []

    def compute() -> None:
        computer = computer_of(native, 60)
        found.extend(computer.compute({"input": features(60)})["output"] for _ in range(10))

    threads = [threading.Thread(target=compute) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 30
    assert all(torch.equal(each, expected) for each in found)
