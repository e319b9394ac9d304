"""Replay: recorded calls give what the calls give, and are recorded again when kernels change."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import Tensor

import nnet3
from nnet3.engine.runtime.linker import BoundCall
from nnet3.engine.runtime.replay import Replay
from tests.device import DEVICE
from tests.families.networks import BLSTM, TDNN, request_for

DROPOUT = """
    input-node name=input dim=3
    component name=a type=NaturalGradientAffineComponent input-dim=3 output-dim=4
    component name=d type=DropoutComponent dim=4 dropout-proportion=0.5
    component-node name=a component=a input=input
    component-node name=d component=d input=a
    output-node name=output input=d
"""


@dataclass
class Recorder:
    """Keeps calls in the place of a CUDA graph, and counts."""

    fails: bool = False
    recorded: int = 0
    replayed: int = 0
    largest: int = 0
    kept: list[Sequence[BoundCall]] = field(default_factory=list)

    def __call__(self, calls: Sequence[BoundCall]) -> BoundCall:
        if self.fails:
            raise RuntimeError("operation not permitted when stream is capturing")
        self.recorded, self.largest = self.recorded + 1, max(self.largest, len(calls))

        def replay() -> None:
            self.replayed += 1
            for call in calls:
                call()

        return replay


class Case:
    """A network that runs in two computers: one records, the other never does."""

    def __init__(self, config: str, frames: int = 20, fails: bool = False) -> None:
        self.nnet = nnet3.Nnet.from_config(config, seed=1)
        self.nnet.set_test_mode()
        if "n" in self.nnet.components:
            normalize: Any = self.nnet.components["n"]
            normalize.stats_sumsq += 1.0
            normalize.count = 1.0
        request = request_for(self.nnet, frames)
        computation = nnet3.compile(self.nnet, request)
        self.computer, self.plain = (nnet3.NnetComputer(computation, self.nnet) for _ in range(2))
        self.generator = torch.Generator().manual_seed(0)
        self.recorder = Recorder(fails)
        links = self.computer._linked()
        links._replay = Replay(links, self.recorder)
        self.ports = {port.name: (port.num_rows, port.num_cols) for port in self.computer.wanted()}

    def inputs(self) -> dict[str, Tensor]:
        return {name: torch.randn(*shape, generator=self.generator) for name, shape in self.ports.items()}

    def run(self) -> tuple[int, int]:
        """Runs both on new inputs and compares; returns how often was recorded and replayed for this."""
        before = self.recorder.recorded, self.recorder.replayed
        inputs = self.inputs()
        torch.testing.assert_close(
            self.computer.compute(inputs)["output"], self.plain.compute(inputs)["output"], rtol=0, atol=0
        )
        return self.recorder.recorded - before[0], self.recorder.replayed - before[1]


@pytest.mark.parametrize("config", [TDNN, BLSTM])
def test_it_records_at_the_second_run_and_replays_from_then_on(config: str) -> None:
    case = Case(config)
    assert case.run() == (0, 0)
    recorded, replayed = case.run()
    assert recorded == replayed >= 1
    assert [case.run() for _ in range(3)] == [(0, recorded)] * 3


def test_all_iterations_of_a_loop_are_in_one_recording() -> None:
    case = Case(BLSTM, frames=200)
    assert len(case.computer.plan.loops)
    case.run()
    case.run()
    assert case.recorder.largest > 200


def _replace_parameter(nnet: nnet3.Nnet, name: str = "a") -> None:
    component: Any = nnet.components[name]
    component.linear_params = component.linear_params * 2


def _change_storage(nnet: nnet3.Nnet) -> None:
    component: Any = nnet.components["a"]
    component.linear_params.data = component.linear_params * 2


def _change_statistics(nnet: nnet3.Nnet) -> None:
    component: Any = nnet.components["n"]
    component.stats_sum += 3.0  # in place: the tensor stays


def _change_setting(nnet: nnet3.Nnet) -> None:
    component: Any = nnet.components["n"]
    component.epsilon = 0.5


@pytest.mark.parametrize("change", [_replace_parameter, _change_storage, _change_statistics, _change_setting])
def test_it_records_again_when_a_kernel_has_changed(change: Callable[[nnet3.Nnet], None]) -> None:
    case = Case(TDNN)
    case.run()
    recorded, _ = case.run()
    change(case.nnet)
    assert case.run() == (0, 0)
    assert case.run() == (recorded, recorded)
    assert case.run() == (0, recorded)


def test_values_of_parameters_change_without_a_new_recording() -> None:
    case = Case(TDNN)
    case.run()
    _, replayed = case.run()
    component: Any = case.nnet.components["a"]
    component.linear_params += 1.0
    assert case.run() == (0, replayed)


def test_calls_that_cannot_be_recorded_run_as_before() -> None:
    case = Case(TDNN, fails=True)
    assert [case.run() for _ in range(4)] == [(0, 0)] * 4


def test_random_numbers_are_never_recorded() -> None:
    case = Case(DROPOUT)
    case.run()
    assert case.run()[0] == 1
    component: Any = case.nnet.components["d"]
    component.set_test_mode(False)
    assert component.replay_state() is None
    component.set_test_mode(True)
    assert component.replay_state() is not None


@pytest.mark.skipif(DEVICE.type != "cuda", reason="CUDA graphs need a GPU: TEST_DEVICE=cuda")
@pytest.mark.parametrize("config", [TDNN, BLSTM])
@pytest.mark.parametrize("frames", [20, 200])
def test_cuda_graphs_give_what_calls_give(config: str, frames: int) -> None:
    case = Case(config, frames)
    nnet = case.nnet.copy().to(DEVICE)
    computer = nnet3.NnetComputer(case.computer.computation, nnet, device=DEVICE)
    replay = computer._linked()._replay
    assert replay is not None
    recorded = []
    for run in range(7):
        inputs = case.inputs()
        on_device = computer.compute({name: value.to(DEVICE) for name, value in inputs.items()})["output"].cpu()
        torch.testing.assert_close(on_device, case.plain.compute(inputs)["output"], rtol=1e-4, atol=1e-5)
        recorded.append(bool(replay._recorded))
        if run == 3:
            for each in (nnet, case.nnet):
                _replace_parameter(each, "a" if config is TDNN else "f")
    assert recorded == [False, True, True, True, False, True, True]
