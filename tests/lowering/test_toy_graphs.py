"""Random graphs of a third front-end, lowered and run by two machines: values and derivatives as autograd has them."""

from __future__ import annotations

import ast
import os
from pathlib import Path

import pytest

from lowering.random_toy_graphs import random_toy_case
from lowering.toy_checks import check_case

PER_BLOCK = int(os.environ.get("RANDOM_GRAPHS", "300")) // 10


@pytest.mark.parametrize("block", range(10))
def test_values_and_derivatives_agree_with_autograd(block: int) -> None:
    for seed in range(PER_BLOCK * block, PER_BLOCK * (block + 1)):
        check_case(random_toy_case(seed))


def test_a_kernel_some_of_whose_rows_are_given_learns_from_the_others() -> None:
    case = random_toy_case(2850)
    assert case.request is not None
    names = [case.graph.nodes[rows.node].name for rows in case.request.inputs]
    assert names == ["input0", "window5"]
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
