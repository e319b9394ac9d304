"""Regular gathers: rows that follow each other, but of different nodes, are no single range."""

from __future__ import annotations

import numpy as np
import pytest

import nnet3


@pytest.mark.parametrize("optimize", [True, False])
@pytest.mark.parametrize("descriptor", ["Switch(input, second)", "Sum(Switch(second, input), Const(2, 2))"])
def test_rows_of_two_nodes_by_turns(descriptor: str, optimize: bool) -> None:
    nnet = nnet3.Nnet.from_config(
        f"""
        input-node name=input dim=2
        input-node name=second dim=2
        output-node name=output input={descriptor}
        """
    )
    rows = [(0, t, 0) for t in range(6)]
    inputs = [nnet3.IoSpecification(name, rows) for name in ("input", "second")]
    request = nnet3.ComputationRequest(inputs, [nnet3.IoSpecification("output", rows)])
    computer = nnet3.NnetComputer(nnet3.compile(nnet, request, nnet3.CompileOptions(optimize=optimize)), nnet)
    given = {name: np.arange(12.0).reshape(6, 2) + 100 * number for number, name in enumerate(("input", "second"))}
    for name, matrix in given.items():
        computer.accept_input(name, matrix)
    computer.run()
    turns = ("input", "second") if descriptor.startswith("Switch") else ("second", "input")
    expected = [given[turns[t % 2]][t] + (0 if descriptor.startswith("Switch") else 2) for t in range(6)]
    np.testing.assert_array_equal(computer.get_output("output"), np.array(expected))
