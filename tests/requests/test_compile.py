"""`compile` and its stages, and what its options do."""

from __future__ import annotations

import sys
from collections.abc import Collection

import pytest
import torch

from nnet3 import CompileOptions, ComputationRequest, IoSpecification, Nnet, NnetComputer, compile
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.passes.pipeline import PIPELINE, optimize
from nnet3.errors import ArgumentError
from nnet3.model.requests import build_graph, generate, schedule

CONFIG = """
input-node name=input dim=2
component name=affine type=AffineComponent input-dim=4 output-dim=3
component name=tanh type=TanhComponent dim=3
component-node name=affine component=affine input=Append(Offset(input, -1), input)
component-node name=tanh component=tanh input=affine
output-node name=output input=tanh
"""
MODULE = sys.modules["nnet3.engine.driver.task"]
REQUEST = ComputationRequest(
    [IoSpecification("input", [(0, t) for t in range(-1, 4)])], [IoSpecification("output", [(0, t) for t in range(4)])]
)


def test_compile_is_its_stages_in_a_row() -> None:
    nnet = Nnet.from_config(CONFIG)
    plain = generate(nnet, REQUEST, schedule(nnet, build_graph(nnet, REQUEST)))
    assert str(compile(nnet, REQUEST, CompileOptions(optimize=False))) == str(plain)
    assert str(compile(nnet, REQUEST)) == str(optimize(plain)) != str(plain)
    assert compile(nnet, REQUEST).fingerprint == nnet.fingerprint()


def test_passes_that_are_left_out() -> None:
    nnet = Nnet.from_config(CONFIG)
    names = [each.name for each in PIPELINE]
    plain = compile(nnet, REQUEST, CompileOptions(optimize=False))
    assert str(compile(nnet, REQUEST, CompileOptions(disabled_passes=frozenset(names)))) == str(plain)
    without = CompileOptions(disabled_passes=["work_in_place"])  # type: ignore[arg-type]
    assert without.disabled_passes == frozenset(["work_in_place"])
    assert str(compile(nnet, REQUEST, without)) != str(compile(nnet, REQUEST))


def test_levels() -> None:
    nnet = Nnet.from_config(CONFIG)
    programs = [compile(nnet, REQUEST, CompileOptions(level=level)) for level in range(4)]
    assert str(programs[0]) == str(compile(nnet, REQUEST, CompileOptions(optimize=False)))
    assert str(programs[3]) == str(compile(nnet, REQUEST))
    assert len(programs[0].commands) >= len(programs[1].commands) > len(programs[2].commands)


@pytest.mark.parametrize(
    ("options", "times", "between"),
    [(None, 0, False), (CompileOptions(check=True), 1, True), (CompileOptions(optimize=False, check=True), 1, None)],
)
def test_programs_are_checked_when_asked(
    options: CompileOptions | None, times: int, between: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked: list[NnetComputation] = []
    asked: list[bool] = []

    def note(
        computation: NnetComputation, disabled: Collection[str], check_between: bool, level: int, prove: bool
    ) -> NnetComputation:
        asked.append(check_between)
        return computation

    monkeypatch.setattr(MODULE, "check_computation", checked.append)
    monkeypatch.setattr(MODULE, "optimize", note)
    compile(Nnet.from_config(CONFIG), REQUEST, options)
    assert (len(checked), asked) == (times, [] if between is None else [between])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"optimize": 1}, "optimize"),
        ({"check": "yes"}, "check"),
        ({"level": 5}, r"level.* must be within \[0, 4\]"),
        ({"level": -1}, "level"),
        ({"disabled_passes": "dead_code"}, "disabled_passes must be a set of names of passes, got 'dead_code'"),
        ({"disabled_passes": b"dead_code"}, "disabled_passes must be a set"),
        ({"disabled_passes": [1]}, "disabled_passes must be a set"),
        ({"disabled_passes": 1}, "disabled_passes must be a set"),
    ],
)
def test_options_that_cannot_be_meant(options: dict[str, object], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        CompileOptions(**options)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="the options of compile"):
        compile(Nnet.from_config(CONFIG), REQUEST, options)  # type: ignore[arg-type]


def test_derivatives_of_parts_that_overlap() -> None:
    """Two ranges of columns, one row of each, next to each other in the output: they have columns in common."""
    nnet = Nnet.from_config("""
        input-node name=input dim=4
        component name=copy type=NoOpComponent dim=4
        component-node name=copy component=copy input=input
        dim-range-node name=low input-node=copy dim=3 dim-offset=0
        dim-range-node name=high input-node=copy dim=3 dim-offset=1
        output-node name=output input=Switch(low, Offset(high, -1))
    """)
    rows = [(0, t) for t in range(4)]
    request = ComputationRequest([IoSpecification("input", rows, True)], [IoSpecification("output", rows, True)])
    computer = NnetComputer(compile(nnet, request, CompileOptions(check=True)), nnet)
    computer.accept_input("input", torch.arange(16.0).reshape(4, 4))
    computer.run()
    assert computer.get_output("output").tolist() == [[0, 1, 2], [1, 2, 3], [8, 9, 10], [9, 10, 11]]
    computer.accept_input("output", torch.tensor([[1.0, 2, 3], [10, 20, 30], [4, 5, 6], [40, 50, 60]]))
    computer.run()
    assert computer.get_output("input").tolist() == [[1, 12, 23, 30], [0] * 4, [4, 45, 56, 60], [0] * 4]
