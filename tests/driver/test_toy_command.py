"""A pass and a command that nobody knows: declared here alone, they work at all lengths, or are refused by name.

Pass `clone_copies` puts command `Clone` in the place of each MatrixCopy, those in loops too; pass `clone_values` adds
one behind each Propagate, from its output to its output. Only the class, its rule and its kind of call are written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch

import nnet3
from nnet3.base.native.library import library
from nnet3.engine.ir.commands import MatrixCopy, Propagate
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.declarations import Command, Reads, Real, Writes
from nnet3.engine.ir.passes import pipeline
from nnet3.engine.ir.passes.pipeline import Pass
from nnet3.engine.ir.program_tables import ProgramTables
from nnet3.engine.ir.proof.field import scaled
from nnet3.engine.ir.shape_rules import Problems, same_shape
from nnet3.engine.runtime.calls import opcode
from nnet3.engine.runtime.rules import rule
from nnet3.errors import ExportError
from tests.driver.ragged_requests import ragged_request
from tests.effort import at_night
from tests.families.networks import compiled, request_for, results_of
from tests.own_commands import forgotten_after

if TYPE_CHECKING:
    from nnet3.engine.ir.proof.machine import Machine
    from nnet3.engine.runtime.linker import Linker
    from nnet3.engine.runtime.planner import Planner

RECURRENCE = """
    input-node name=input dim=6
    component name=a type=NaturalGradientAffineComponent input-dim=10 output-dim=4
    component name=s type=SigmoidComponent dim=4
    component-node name=a component=a input=Append(input, IfDefined(Offset(s, -1)))
    component-node name=s component=s input=a
    output-node name=output input=s
"""


def register() -> type[Any]:
    """The command, with its rule."""

    @dataclass(frozen=True)
    class Clone(Command):
        dest: Writes
        source: Reads
        scale: Real = 1.0

        line = "{dest} clones {scale:{} * }{source}"

        def problems(self, computation: ProgramTables) -> Problems:
            return same_shape(computation, dest=self.dest, source=self.source)

        def evaluate(self, machine: Machine) -> None:
            machine.write(self.dest, scaled(machine.read(self.source), self.scale))

        def in_place_pairs(self, computation: ProgramTables) -> list[tuple[int, int]]:
            return [(self.source, self.dest)]

    @rule(Clone)
    def plan_clone(command: Clone, planner: Planner) -> None:
        planner.call("clone", planner.view(command.dest), planner.view(command.source), number=command.scale)

    @opcode("clone")
    def bind_clone(link: Linker, args: Sequence[int], number: float) -> Any:
        def clone(dest: torch.Tensor, source: torch.Tensor) -> None:
            torch.mul(source, number, out=dest)

        return link.each(clone, *map(link.view, args))

    return Clone


def with_clones(computation: NnetComputation, clone: type[Any], *, of_values: bool) -> NnetComputation:
    result = computation.copy()
    result.commands = []
    for command in computation.commands:
        if isinstance(command, MatrixCopy) and not of_values:
            command = clone(command.dest, command.source, command.scale)
        result.commands.append(command)
        if of_values and isinstance(command, Propagate):
            result.commands.append(clone(command.output, command.output))
    return result


@pytest.fixture(params=["clone_copies"])
def toy(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Any]]:
    with forgotten_after():
        clone, of_values = register(), request.param == "clone_values"
        clones = Pass(request.param, lambda computation: with_clones(computation, clone, of_values=of_values))
        monkeypatch.setattr(pipeline, "PIPELINE", (*pipeline.PIPELINE, clones))
        yield clone


both_passes = pytest.mark.parametrize("toy", ["clone_copies", "clone_values"], indirect=True)


def network() -> nnet3.Nnet:
    return nnet3.Nnet.from_config(RECURRENCE)


def plain_program(nnet: nnet3.Nnet, request: nnet3.ComputationRequest) -> NnetComputation:
    own = frozenset({pipeline.PIPELINE[-1].name})
    return compiled(nnet, request, nnet3.CompileOptions(disabled_passes=own))


def check(nnet: nnet3.Nnet, request: nnet3.ComputationRequest, program: NnetComputation, clone: type[Any]) -> None:
    """It has the command, and gives what the network gives without the pass."""
    assert any(isinstance(command, clone) for command in program.commands)
    plain = plain_program(nnet, request)
    for mine, other in zip(results_of(nnet, request, program), results_of(nnet, request, plain), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-9, atol=1e-9)


@both_passes
@pytest.mark.parametrize("sequences", [1, 5])
def test_all_lengths_and_numbers_of_sequences(toy: type[Any], sequences: int) -> None:
    """All are of one family; the plan of the last is had by arithmetic, without its commands."""
    nnet, cache = network(), nnet3.ComputationCache()
    requests = [request_for(nnet, frames, sequences, train=True) for frames in (60, 63, 80)]
    programs = [cache.compile(nnet, request) for request in requests]
    assert cache.counts.compiled == 0
    assert not cache.refusals
    for program in programs:
        nnet3.NnetComputer(program, nnet, nnet.gradient_copy())
    assert programs[-1].is_lazy
    for request, program in zip(requests[1:], programs[1:], strict=True):
        check(nnet, request, program, toy)


def test_a_family_prints_it(toy: type[Any]) -> None:
    nnet = network()
    assert "m2(:, 6:9) clones m4(0:N - 1 + Ni, :)" in str(nnet3.compile_family(nnet, request_for(nnet, 60, 5)))


@both_passes
def test_sets_of_lengths(toy: type[Any]) -> None:
    """A command whose operands are of one time has its programs; others are refused, and compiled for the lengths."""
    nnet, cache = network(), nnet3.ComputationCache()
    sets = ((40, 35, 20, 20, 7, 1), *at_night((59, 58, 31, 20, 8, 2)), (37, 31, 30, 12, 5, 3))
    for lengths in sets:
        request = ragged_request(nnet, lengths, train=True)
        check(nnet, request, cache.compile(nnet, request), toy)
    if pipeline.PIPELINE[-1].name == "clone_values":
        assert cache.counts.restricted == len(sets)
        assert not cache.refusals
    else:
        assert cache.counts.restricted == 0
        assert "command Clone works on rows of several times: only MatrixCopy" in cache.refusals[0]


def test_programs_and_members_are_proved(toy: type[Any]) -> None:
    nnet, cache = network(), nnet3.ComputationCache()
    for frames in (60, 63):
        request = request_for(nnet, frames, train=True)
        cache.compile(nnet, request, nnet3.CompileOptions(prove=True, check=True))
    assert cache.counts.continued == 2


@pytest.mark.skipif(library() is None, reason="needs a C compiler")
def test_native_code_runs_what_stands_around_it(toy: type[Any]) -> None:
    packed, cache = network().pack(), nnet3.ComputationCache()
    for frames in (60, 63):
        request = request_for(packed, frames)
        program = cache.compile(packed, request)
        assert any(isinstance(command, toy) for command in program.commands)
        mine, other = (
            results_of(packed, request, each, torch.float32)[0] for each in (program, plain_program(packed, request))
        )
        torch.testing.assert_close(mine, other)


def test_onnx_refuses_it_by_name(toy: type[Any], tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="export needs nnet3[onnx]")
    with pytest.raises(ExportError, match=r"Clone cannot be exported: nnet3\.export\.translate has no rule for it"):
        nnet3.export_onnx(network(), tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())
