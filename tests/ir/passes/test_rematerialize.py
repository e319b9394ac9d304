"""Values that are cheap are made again for the backward pass, where that lowers the peak of memory."""

from __future__ import annotations

import numpy as np
import torch

import nnet3
from nnet3.engine.ir import commands as cmd
from nnet3.engine.ir.checker import check_computation
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.kernel import KernelInfo
from nnet3.engine.ir.passes.rematerialize import rematerialize
from nnet3.engine.ir.program_tables import IoInfo
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


def test_of_a_chain_most_are_made_again_from_what_is_kept() -> None:
    before = chain(6)
    after = rematerialize(before)
    check_computation(after)
    run(after).check_equals(run(before))
    assert len(made_again(after)) >= 3
    assert peak_bytes(after) < 0.8 * peak_bytes(before)


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
