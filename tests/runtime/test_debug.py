"""Debug mode: what is printed, and which command is named when numbers go wrong."""

from __future__ import annotations

import dataclasses
import io
import re
from typing import Any

import numpy as np
import pytest
import torch

import nnet3
from nnet3.base.index import NO_TIME
from nnet3.engine.ir import commands as cmd
from nnet3.engine.runtime import NnetComputer
from nnet3.engine.runtime.debug import describe_rows
from nnet3.errors import NumericalError
from tests.runtime.programs import Program
from tests.runtime.scale_program import FEATURES, forward, scale_program
from tests.runtime.toy_kernels import Scale, net

RECURRENCE = """
    input-node name=input dim=2
    component name=f type=AffineComponent input-dim=5 output-dim=3
    component name=r type=TanhComponent dim=3
    component-node name=f component=f input=Append(input, IfDefined(Offset(r, -1)))
    component-node name=r component=r input=f
    output-node name=output input=r
"""


def debugging(nnet: Any, **options: Any) -> tuple[NnetComputer, io.StringIO]:
    stream = io.StringIO()
    return NnetComputer(scale_program(), nnet, debug=True, debug_file=stream, **options), stream


def test_each_command_is_printed_with_what_it_wrote() -> None:
    computer, stream = debugging(net(scale=Scale(2.0)), nnet_to_update=net(scale=Scale()))
    plain = NnetComputer(scale_program(), net(scale=Scale(2.0)), net(scale=Scale()))
    np.testing.assert_array_equal(forward(computer), forward(plain))
    assert stream.getvalue().splitlines() == [
        "c0: m1 = undefined(2, 3)",
        "c1: m1 = user input [for node: 'input']  |m1|=7.4162",
        "c2: m2 = undefined(2, 3)",
        "c3: scale.Propagate(m1, &m2) [node output]  |m2|=14.8324",
        "c4: output m2 to user [for node: 'output']",
        "c5: [end of segment]",
    ]


def test_stderr_is_the_default(capsys: pytest.CaptureFixture[str]) -> None:
    forward(NnetComputer(scale_program(), net(scale=Scale()), net(scale=Scale()), debug=True))
    assert "c1: m1 = user input" in capsys.readouterr().err


@pytest.mark.parametrize(("value", "kind"), [(np.nan, "NaN"), (np.inf, "Inf")])
def test_the_command_that_wrote_it_is_named(value: float, kind: str) -> None:
    computer, _ = debugging(net(scale=Scale(value)), nnet_to_update=net(scale=Scale()))
    where = "written to node 'output' (value), t=0..1 of n=0, rows 0..1 (2 of them)"
    message = f"{kind} in c3: scale.Propagate(m1, &m2) [node output]: {where}"
    with pytest.raises(NumericalError, match=re.escape(message)):
        forward(computer, FEATURES + 1)


def test_a_bad_input_is_named_as_such() -> None:
    computer, _ = debugging(net(scale=Scale()), nnet_to_update=net(scale=Scale()))
    features = FEATURES.copy()
    features[1, 0] = np.nan
    with pytest.raises(
        NumericalError, match=r"NaN in c1: m1 = user input .* node 'input' \(value\), t=1 of n=0, row 1"
    ):
        forward(computer, features)


def test_a_bad_update_is_named() -> None:
    """The input derivative is fine, the gradient overflows."""
    computer, _ = debugging(net(scale=Scale(1.0)), nnet_to_update=net(scale=Scale()))
    forward(computer, np.full((2, 3), 1e30))
    computer.accept_input("output", np.full((2, 3), 1e30))
    with pytest.raises(NumericalError, match=r"Inf in c9: scale\.Backprop.*: in the update of factor of 'scale'"):
        computer.run()


def test_a_bad_update_of_one_number_among_many_is_named() -> None:
    """The first gradient is finite, the second one overflows."""

    class Two(Scale):
        def run_backward(self, *arguments: Any) -> None:
            super().run_backward(*arguments)
            arguments[4].factor = torch.tensor([1.0, torch.inf])

    delta = net(scale=Two())
    computer, _ = debugging(net(scale=Two(1.0)), nnet_to_update=delta)
    forward(computer)
    computer.accept_input("output", np.zeros((2, 3)))
    with pytest.raises(NumericalError, match="in the update of factor of 'scale'"):
        computer.run()


def test_reading_an_undefined_matrix_shows() -> None:
    program = Program()
    source, dest = program.matrix(2, 2), program.matrix(2, 2)
    program.add(cmd.MatrixCopy(dest, source))
    NnetComputer(program.computation, net()).run()
    with pytest.raises(NumericalError, match=r"NaN in c2: m2 = m1: written to m2, rows 0\.\.1"):
        NnetComputer(program.computation, net(), debug=True, debug_file=io.StringIO()).run()


def test_many_norms_are_cut() -> None:
    program = Program()
    steps = [program.matrix(1, 2, zeroed=True) for _ in range(6)]
    source = program.matrix(6, 2, zeroed=True)
    program.add(cmd.AddToRowsMulti(source, program.multi_table([(step, 0) for step in steps])))
    stream = io.StringIO()
    NnetComputer(program.computation, net(), debug=True, debug_file=stream).run()
    last = stream.getvalue().splitlines()[-1]
    assert last.endswith("|m1|=0  |m2|=0  |m3|=0  |m4|=0  ...")


def test_rows_of_a_block_are_described_by_their_own_indexes() -> None:
    program = Program()
    matrix = program.matrix(10, 4, "tdnn2.relu", is_deriv=True)
    info = program.computation.matrix_info[1]
    info.indexes[:, 0] = np.arange(10) // 2
    part = program.part(matrix, 4, 5)
    described = describe_rows(program.computation, part, np.array([0, 3]))
    assert described == "node 'tdnn2.relu' (derivative), t=4..7 of n=2, 3, rows 0..3 (2 of them)"
    assert describe_rows(program.computation, matrix, np.arange(10)).startswith(
        "node 'tdnn2.relu' (derivative), t=0..9 of n=0, 1, 2, 3, ..."
    )


def test_debug_mode_gives_the_same_numbers() -> None:
    computer, _ = debugging(net(scale=Scale(2.0)), nnet_to_update=net(scale=Scale()))
    forward(computer)
    computer.accept_input("output", torch.ones(2, 3))
    computer.run()
    np.testing.assert_array_equal(computer.get_output("input"), np.full((2, 3), 2.0))


def test_so_many_are_shown_whole() -> None:
    """4 norms, 4 sequences."""
    program = Program()
    steps = [program.matrix(1, 2, zeroed=True) for _ in range(4)]
    source = program.matrix(4, 2, zeroed=True)
    program.add(cmd.AddToRowsMulti(source, program.multi_table([(step, 0) for step in steps])))
    stream = io.StringIO()
    NnetComputer(program.computation, net(), debug=True, debug_file=stream).run()
    assert stream.getvalue().splitlines()[-1].endswith("|m1|=0  |m2|=0  |m3|=0  |m4|=0")
    matrix = program.matrix(4, 2, "relu")
    program.computation.matrix_info[matrix].indexes[:, 0] = range(4)
    described = describe_rows(program.computation, matrix, np.arange(4))
    assert described == "node 'relu' (value), t=0..3 of n=0, 1, 2, 3, rows 0..3 (4 of them)"


def test_rows_without_times_or_indexes() -> None:
    program = Program()
    ivector, other = program.matrix(2, 3, "ivector"), program.matrix(2, 3, "other")
    infos = program.computation.matrix_info
    infos[ivector].indexes[:, 1] = NO_TIME
    infos[other] = dataclasses.replace(infos[other], indexes=None)
    rows = np.array([1])
    assert describe_rows(program.computation, ivector, rows) == "node 'ivector' (value), one time step of n=0, row 1"
    assert describe_rows(program.computation, other, rows) == "node 'other' (value), row 1"


def test_what_a_kernel_computes_is_of_its_node() -> None:
    """A matrix may have the times of another node, as products that were taken out of a recurrence have."""
    nnet = nnet3.Nnet.from_config(RECURRENCE, seed=1)
    nnet.components["f"].linear_params[0, 0] = torch.nan
    frames = [(0, t) for t in range(40)]
    request = nnet3.ComputationRequest(
        [nnet3.IoSpecification("input", frames)], [nnet3.IoSpecification("output", frames)]
    )
    computer = NnetComputer(nnet3.compile(nnet, request), nnet, debug=True, debug_file=io.StringIO())
    with pytest.raises(NumericalError, match=r"f\[0:2\].* \[node f\]: written to node 'f' \(value\), rows 0\.\.39"):
        computer.compute({"input": torch.ones(40, 2)})


def test_outside_memory_is_looked_at_where_it_lies() -> None:
    program = Program()
    outside = program.computation.new_outside("W", 2, 3, True)
    program.add(cmd.SetConst(program.part(outside, 1, 1, 0, 2), 2.0))
    stream, memory = io.StringIO(), torch.zeros(2, 3)
    NnetComputer(program.computation, net(), debug=True, debug_file=stream, outside={"W": memory}).run()
    assert memory.tolist() == [[0, 0, 0], [2, 2, 0]]
    assert stream.getvalue().splitlines()[-1].endswith("=2.82843")
