"""Values that are cheap are made again for the backward pass, where that lowers the peak of memory."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

import nnet3
from nnet3.ir import commands as cmd
from nnet3.ir.checker import check_computation
from nnet3.ir.computation import NnetComputation
from nnet3.ir.kernel import KernelInfo
from nnet3.ir.passes.rematerialize import rematerialize
from nnet3.ir.program_tables import IoInfo
from nnet3.ir.proof.equal import PassResult, prove_equal
from nnet3.options import HIGHEST_LEVEL
from tests.differential.memory import peak_bytes
from tests.ir.programs import lines, node_matrix, run
from tests.ir.toy_kernels import AFFINE, DEVIATION, DIM, KERNELS

_AGAIN = KernelInfo(**{**vars(DEVIATION), "repeats_forward": True})
_DEVIATION = len(KERNELS)


def chain(links: int = 4, rows: int = 8) -> NnetComputation:
    """s_i = deviation(a_i) + s_{i-1} / 2 with a_i = affine(s_{i-1}), s_0 the input; backward all a_i and s_i are read.

    Derivatives are of one row, so that memory is scarcest where the backward pass begins.
    """
    c = NnetComputation(kernels=[*KERNELS, _AGAIN], need_model_derivative=True, num_memos=links)
    s, s_d = node_matrix(c, "input", rows), c.new_matrix(1, DIM)
    c.inputs, forward, values = [IoInfo("input", s, s_d)], list[cmd.Command](), [s]
    begins: list[cmd.Command] = [cmd.AllocMatrix(s, zeroed=False), cmd.AcceptInput(s, "input")]
    backward: list[cmd.Command] = []
    for i in range(links):
        a, after = node_matrix(c, f"a{i}", rows), node_matrix(c, f"s{i}", rows)
        forward += [cmd.AllocMatrix(a, zeroed=False), cmd.Propagate(AFFINE, "affine", (s,), a)]
        forward += [cmd.AllocMatrix(after, zeroed=False), cmd.Propagate(_DEVIATION, "d", (a,), after, memo=i)]
        forward += [cmd.MatrixAdd(after, s, 0.5)]
        read = [c.new_submatrix(each, i, 1) for each in (after, a)]
        backward[:0] = [*(cmd.MatrixAdd(s_d, each, 2.0 + i) for each in read), *map(cmd.DeallocMatrix, (after, a))]
        values.append(s := after)
    c.outputs = [IoInfo("output", out := c.new_matrix(1, DIM), 0)]
    c.commands = [
        *(*begins, *forward, cmd.AllocMatrix(out, zeroed=False), cmd.MatrixCopy(out, c.new_submatrix(s, 0, 1))),
        *(cmd.ProvideOutput(out, "output"), cmd.SegmentMarker(), cmd.AllocMatrix(s_d, zeroed=True), *backward),
        *(cmd.ProvideOutput(s_d, "input"), cmd.DeallocMatrix(s_d), cmd.DeallocMatrix(out)),
        cmd.DeallocMatrix(values[0]),
    ]
    return c


def made_again(c: NnetComputation) -> list[str]:
    return [line.split(".")[0] for line, command in zip(lines(c), c.commands, strict=True)
            if isinstance(command, cmd.PropagateAgain)]  # fmt: skip


def test_a_sum_is_made_again_before_its_first_use() -> None:
    before = chain(3)
    after = rematerialize(before)
    check_computation(before)
    check_computation(after)
    text, (marker,) = lines(after), [n for n, c in enumerate(after.commands) if isinstance(c, cmd.SegmentMarker)]
    assert text.index("m4 = []") < marker
    place = text.index("m10 = undefined(8, 3)")
    assert text[place : place + 4] == [
        "m10 = undefined(8, 3)",
        "deviation.Propagate(m3, &m10) [node d, memo 0] again",
        "m10 += 0.5 * m1",
        "m2 += 2 * m10(0, :)",
    ]
    run(after).check_equals(run(before))
    assert run(after).peak_elements < run(before).peak_elements
    assert rematerialize(after) is after


def test_of_a_chain_most_are_made_again_from_what_is_kept() -> None:
    before = chain(6)
    after = rematerialize(before)
    check_computation(after)
    run(after).check_equals(run(before))
    assert len(made_again(after)) >= 3
    assert peak_bytes(after) < 0.8 * peak_bytes(before)


def without_promise(c: NnetComputation) -> None:
    c.kernels[_DEVIATION] = DEVIATION


def source_is_changed(c: NnetComputation) -> None:
    """What all sums but the first read is overwritten as soon as it has been read."""
    for a in [command.inputs[0] for command in c.commands if isinstance(command, cmd.Propagate)][1::2]:
        c.commands.insert(lines(c).index("[end of segment]") - 1, cmd.SetConst(a, 0.5))


def source_is_gone(c: NnetComputation) -> None:
    """The memory of what the sums are made of ends before the backward pass."""
    for command in [command for command in c.commands if isinstance(command, cmd.Propagate)][1::2]:
        (a,) = command.inputs
        whole = c.submatrices[a].matrix
        c.commands = [x for x in c.commands if not (isinstance(x, cmd.DeallocMatrix) and x.matrix == a)]
        c.commands = [x for x in c.commands
                      if not (isinstance(x, cmd.MatrixAdd) and c.submatrices[x.source].matrix == whole)]  # fmt: skip
        c.commands.insert(c.commands.index(command) + 1, cmd.DeallocMatrix(a))


def another_segment(c: NnetComputation) -> None:
    c.commands.insert(-2, cmd.SegmentMarker())


@pytest.mark.parametrize("change", [without_promise, source_is_changed, source_is_gone, another_segment])
def test_else_values_are_kept(change: Callable[[NnetComputation], None]) -> None:
    c = chain(3)
    change(c)
    check_computation(c)
    assert rematerialize(c) is c


@pytest.mark.parametrize("written_later", [False, True])
def test_what_is_read_between_its_writes_is_made_again_alone(written_later: bool) -> None:
    """b is made of the left half of a, before or after the right half is written; both are read going backward."""
    c, rows = NnetComputation(need_model_derivative=True), 8
    x, a, b = c.new_matrix(rows, DIM), c.new_matrix(rows, 2 * DIM), c.new_matrix(rows, DIM)
    large, out, deriv = c.new_matrix(rows, 4 * DIM), c.new_matrix(1, DIM), c.new_matrix(1, DIM)
    left, right = (c.new_submatrix(a, col_offset=first, num_cols=DIM) for first in (0, DIM))
    first_of_b, first_of_a, first_of_large = (c.new_submatrix(m, 0, 1, 0, DIM) for m in (b, right, large))
    c.inputs, c.outputs = [IoInfo("input", x, deriv)], [IoInfo("output", out, 0)]
    reads, writes = [cmd.AllocMatrix(b, zeroed=False), cmd.MatrixCopy(b, left, 0.5)], [cmd.MatrixCopy(right, x, 2.0)]
    c.commands = [
        *(cmd.AllocMatrix(x, zeroed=False), cmd.AcceptInput(x, "input")),
        *(cmd.AllocMatrix(a, zeroed=False), cmd.MatrixCopy(left, x)),
        *(reads + writes if written_later else writes + reads),
        *(cmd.AllocMatrix(large, zeroed=True), cmd.AllocMatrix(out, zeroed=False), cmd.MatrixCopy(out, first_of_large)),
        *(cmd.DeallocMatrix(large), cmd.ProvideOutput(out, "output"), cmd.SegmentMarker()),
        *(cmd.AllocMatrix(deriv, zeroed=True), cmd.MatrixAdd(deriv, first_of_b), cmd.DeallocMatrix(b)),
        *(cmd.MatrixAdd(deriv, first_of_a), cmd.DeallocMatrix(a), cmd.ProvideOutput(deriv, "input")),
        *map(cmd.DeallocMatrix, (deriv, out, x)),
    ]
    check_computation(c)
    after = rematerialize(c)
    check_computation(after)
    prove_equal([PassResult("", c), PassResult("rematerialize", after)])
    assert len(after.matrices) - len(c.matrices) == (1 if written_later else 2)


def test_where_the_peak_is_elsewhere_nothing_changes() -> None:
    c = chain(3)
    large = c.new_matrix(1000, DIM)
    c.commands[:0] = [cmd.AllocMatrix(large, zeroed=False), cmd.DeallocMatrix(large)]
    assert rematerialize(c) is c


CONFIG = (
    """
input-node name=input dim=8
component name=a1 type=NaturalGradientAffineComponent input-dim=8 output-dim=40
component name=r1 type=RectifiedLinearComponent dim=40
component name=b1 type=BatchNormComponent dim=40
component name=d1 type=GeneralDropoutComponent dim=40 dropout-proportion=0.2 continuous=true
component-node name=a1 component=a1 input=input
component-node name=r1 component=r1 input=a1
component-node name=b1 component=b1 input=r1
component-node name=d1 component=d1 input=b1
"""
    + "".join(
        f"""
component name=a{i} type=TdnnComponent input-dim=40 output-dim=40 time-offsets=-1,0
component name=r{i} type=RectifiedLinearComponent dim=40
component name=b{i} type=BatchNormComponent dim=40
component name=d{i} type=GeneralDropoutComponent dim=40 dropout-proportion=0.2 continuous=true
component name=s{i} type=NoOpComponent dim=40
component-node name=a{i} component=a{i} input={"s" if i > 2 else "d"}{i - 1}
component-node name=r{i} component=r{i} input=a{i}
component-node name=b{i} component=b{i} input=r{i}
component-node name=d{i} component=d{i} input=b{i}
component-node name=s{i} component=s{i} input=Sum(Scale(0.66, {"s" if i > 2 else "d"}{i - 1}), d{i})
"""
        for i in range(2, 7)
    )
    + "output-node name=output input=s6\n"
)


def request(sequences: int, frames: int) -> nnet3.ComputationRequest:
    def at(times: range) -> np.ndarray:
        return np.array([(n, t, 0) for t in times for n in range(sequences)])

    inputs = [nnet3.IoSpecification("input", at(range(-5, frames)), has_deriv=True)]
    outputs = [nnet3.IoSpecification("output", at(range(frames)), has_deriv=True)]
    return nnet3.ComputationRequest(inputs, outputs, need_model_derivative=True, store_component_stats=True)


def test_a_network_with_dropout_learns_to_the_same_bits() -> None:
    """Masks are those of the forward pass, and statistics are stored once."""
    nnet, wanted = nnet3.Nnet.from_config(CONFIG), request(3, 20)
    x, y_deriv = torch.randn(75, 8), torch.randn(60, 40)
    found, peaks = [], []
    for level in (HIGHEST_LEVEL - 1, HIGHEST_LEVEL):
        program = nnet3.compile(nnet, wanted, nnet3.CompileOptions(level=level, check=True))
        network, target = nnet.copy(), nnet.gradient_copy()
        for number, component in enumerate(network.components.values()):
            component.seed_random(number)
        computer = nnet3.NnetComputer(program, network, target)
        computer.accept_input("input", x)
        computer.run()
        given = [computer.get_output("output").clone()]
        computer.accept_input("output", y_deriv)
        computer.run()
        given.append(computer.get_output("input").clone())
        for component in target.components.values():
            given += [torch.as_tensor(each) for each in (*component.parameters().values(),)]
            given += [torch.as_tensor(getattr(component, name)) for name in component.statistic_names]
        found.append(given)
        peaks.append(peak_bytes(program))
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))
    assert peaks[1] < 0.85 * peaks[0]


def test_members_of_a_family_are_the_programs_compiled_for_their_lengths() -> None:
    nnet, cache = nnet3.Nnet.from_config(CONFIG), nnet3.ComputationCache()
    options = nnet3.CompileOptions(level=HIGHEST_LEVEL)
    for sequences, frames in ((6, 30), (6, 37), (7, 90)):
        member = cache.compile(nnet, request(sequences, frames), options)
        compiled = nnet3.compile(nnet, request(sequences, frames), options)
        assert made_again(compiled)
        assert str(member) == str(compiled)
    assert cache.counts.continued == 2


def test_values_of_a_computational_network_are_made_again() -> None:
    h = nnet3.cn.input("x", 16)
    for layer in range(6):
        w, b = nnet3.cn.parameter(f"W{layer}", (16, 16)), nnet3.cn.parameter(f"b{layer}", (16, 1))
        h = nnet3.cn.sigmoid(w @ h + b) + 0.5 * h
    criterion = nnet3.cn.square_error(h, nnet3.cn.input("y", 16))
    given = {name: np.random.default_rng(0).standard_normal((16, 50)) for name in ("x", "y")}
    programs, gradients = [], []
    for level in (HIGHEST_LEVEL - 1, HIGHEST_LEVEL):
        network = nnet3.cn.Network(criterion=criterion, compile_options=nnet3.CompileOptions(level=level, check=True))
        gradients.append(network.gradients(given))
        programs.append(network.program(given))
    kept, again = programs
    assert isinstance(kept, NnetComputation)
    assert isinstance(again, NnetComputation)
    assert "plus2.Propagate" in "".join(line for line in lines(again) if line.endswith("again"))
    assert peak_bytes(again) < peak_bytes(kept)
    for name, gradient in gradients[0].items():
        np.testing.assert_array_equal(gradients[1][name], gradient)
