"""Random graphs of a third front-end, lowered and run by two machines: values and derivatives as autograd has them."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path

import pytest

from tests.effort import EFFORT
from tests.lowering.random_toy_graphs import random_toy_case
from tests.lowering.toy_checks import check_case
from tests.lowering.toy_loops import WIDTH, LoopCase
from tests.lowering.toy_operations import Affine, Window

PER_BLOCK = 4 * EFFORT


@pytest.mark.parametrize("block", range(10))
def test_values_and_derivatives_agree_with_autograd(block: int) -> None:
    for seed in range(PER_BLOCK * block, PER_BLOCK * (block + 1)):
        check_case(random_toy_case(seed))


@pytest.mark.parametrize("kind", ["affine", "merged affine", "window"])
def test_a_kernel_some_of_whose_rows_are_given_learns_from_the_others(kind: str) -> None:
    """Nobody asks for derivatives of what is given: only the weights need any."""
    loop = LoopCase()
    if kind == "window":
        weight = loop.random(3 * WIDTH, WIDTH)
        node = loop.graph.window(loop.input, Window(kind, True, weight, False, [-2, 0, 2]), WIDTH)
    else:
        node = loop.compute(Affine(kind, True, loop.random(WIDTH, WIDTH), kind == "merged affine"), loop.input)
    loop.case.given[node] = {(n, t, 0): loop.random(1, WIDTH).requires_grad_() for n in range(3) for t in (-1, 3, 4)}
    case = loop.ask(node, lengths=(9,))
    assert case.request is not None
    inputs = [replace(rows, has_deriv=False) for rows in case.request.inputs]
    case.request = replace(case.request, inputs=inputs)
    check_case(case)


def test_the_front_end_knows_no_other() -> None:
    for path in Path(__file__).parent.glob("*toy*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            for name in names:
                room = name.split(".")[1] if name.startswith("nnet3.") else name
                assert room not in ("nnet3", "nnet", "components", "compiler", "cn"), f"{path.name} imports {name}"
