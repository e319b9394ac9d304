"""What a kernel learns from several steps together comes from one Backprop; what does not merge, from each step."""

from __future__ import annotations

import pytest

from nnet3.engine.ir.commands import Backprop
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.lowering.lower import lower
from tests.lowering.toy_checks import check_case
from tests.lowering.toy_front_end import Look, Part, Term
from tests.lowering.toy_loops import LOOPS, WIDTH, LoopCase, own_weights, shared_kernel, shared_matrix, simple
from tests.lowering.toy_operations import Affine
from tests.lowering.toy_requests import ToyCase


def program_of(case: ToyCase) -> NnetComputation:
    assert case.request is not None
    return lower(case.graph, case.request)


def learning(computation: NnetComputation, kernel: str) -> int:
    """How many commands a kernel learns by: they update it, or write the derivative of something without samples."""

    def learns(command: Backprop) -> bool:
        derivs = [number for number in (*command.input_derivs, *command.added_derivs) if number]
        of_matrices = any(not computation.has_samples(computation.submatrices[number].matrix) for number in derivs)
        return of_matrices or (command.update and computation.kernels[command.kernel].updatable)

    return sum(
        isinstance(command, Backprop) and computation.kernels[command.kernel].name == kernel and learns(command)
        for command in computation.commands
    )


def nodes_of_updates(computation: NnetComputation, kernel: str) -> list[str]:
    """What the backward commands of a kernel say of whose rows they work on."""
    commands = [command for command in computation.commands if isinstance(command, Backprop)]
    return [command.node for command in commands if computation.kernels[command.kernel].name == kernel]


def test_a_matrix_in_a_loop_learns_once() -> None:
    computation = program_of(simple())
    assert (learning(computation, "below"), learning(computation, "around")) == (1, 1)
    assert set(nodes_of_updates(computation, "around")) == {"mergingmatmul5"}
    matrices = [(info.node, info.is_deriv) for info in computation.matrix_info.values()]
    assert len(set(matrices)) == len(matrices)  # what it learns from is read where it lies
    assert learning(program_of(simple(merges=False)), "around") == 40


@pytest.mark.parametrize("name", LOOPS)
def test_a_backprop_reads_what_its_kernel_needs_and_nothing_else(name: str) -> None:
    computation = program_of(LOOPS[name]())
    backprops = [command for command in computation.commands if isinstance(command, Backprop)]
    for command in backprops:
        info = computation.kernels[command.kernel]
        assert [number > 0 for number in command.inputs] == [each.backprop_needs_value for each in info.inputs]
        assert (command.output > 0) == info.backprop_needs_output
    assert backprops


def test_one_kernel_and_two_matrices_learn_apart() -> None:
    assert learning(program_of(shared_kernel()), "product") == 2


@pytest.mark.parametrize("second", ["product", "other"])
def test_two_products_of_one_matrix_learn_together_if_one_kernel_makes_them(second: str) -> None:
    computation = program_of(shared_matrix("product", second))
    assert learning(computation, "product") == 1
    assert ("product" in nodes_of_updates(computation, "product")) == (second == "product")  # what goes for no one node
    assert learning(computation, "other") == (second == "other")


def test_weights_of_a_kernel_learn_once_if_it_says_so() -> None:
    computation = program_of(own_weights())
    assert learning(computation, "merged") == 1
    assert learning(computation, "stepwise") > 30


def test_a_kernel_learns_from_parts_of_a_wider_value_together() -> None:
    case = LoopCase()
    wide = case.graph.gather(*(Part((Term((Look(case.input, move),)),), WIDTH) for move in (0, -1)))
    kernel = Affine("kernel", True, case.random(WIDTH, WIDTH), True)
    asked = case.ask(*(case.compute(kernel, case.graph.view(wide, first, WIDTH)) for first in (0, 1)), lengths=(4,))
    assert learning(program_of(asked), "kernel") == 1
    check_case(asked)
