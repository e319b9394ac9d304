"""NnetComputer: what goes in, what comes out, in which order, and who is updated."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import nnet3
from nnet3.engine.ir import commands as cmd
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.kernel import InputPromises, KernelInfo
from nnet3.engine.runtime import NnetComputer
from nnet3.errors import ExecutionError
from tests.runtime.programs import Program
from tests.runtime.scale_program import FEATURES, forward, scale_program
from tests.runtime.toy_kernels import Scale, net


def test_forward_and_backward() -> None:
    nnet, gradient = net(scale=Scale(2.0)), net(scale=Scale(0.0))
    computer = NnetComputer(scale_program(), nnet, gradient)
    np.testing.assert_array_equal(forward(computer), 2 * FEATURES)
    computer.accept_input("output", torch.ones(2, 3))
    computer.run()
    np.testing.assert_array_equal(computer.get_output("input"), np.full((2, 3), 2.0))
    np.testing.assert_array_equal(computer.get_output("output"), 2 * FEATURES)
    assert gradient.components["scale"].factor == FEATURES.sum()
    assert nnet.components["scale"].factor == 2


def test_all_of_a_run_at_once() -> None:
    computer = NnetComputer(scale_program(), net(scale=Scale(2.0)), net(scale=Scale(0.0)))
    features = torch.from_numpy(FEATURES)
    for _ in range(2):
        np.testing.assert_array_equal(computer.compute({"input": features})["output"], 2 * FEATURES)
        np.testing.assert_array_equal(computer.compute({"output": torch.ones(2, 3)})["input"], np.full((2, 3), 2.0))
    with pytest.raises(
        ExecutionError, match=r"input 'input': expected a matrix of \(rows, columns\) \(2, 3\), got \(1, 3\)"
    ):
        computer.compute({"input": features[:1]})
    with pytest.raises(ExecutionError, match="there is no input 'inputs'"):
        computer.compute({"inputs": features})
    with pytest.raises(ExecutionError, match=r"missing before run\(\): 'input'"):
        computer.compute({})
    np.testing.assert_array_equal(computer.compute({"input": features})["output"], 2 * FEATURES)


def test_the_same_computer_takes_the_next_minibatch() -> None:
    computer = NnetComputer(scale_program(), net(scale=Scale(2.0)), net(scale=Scale(0.0)))
    results = []
    for _ in range(2):
        results.append(forward(computer))
        computer.accept_input("output", torch.ones(2, 3))
        computer.run()
        results.append(computer.get_output("input"))
    np.testing.assert_array_equal(results[0], results[2])
    np.testing.assert_array_equal(results[1], results[3])


def test_outputs_stay_as_they_are() -> None:
    computer = NnetComputer(scale_program(), net(scale=Scale(2.0)), net(scale=Scale(0.0)))
    first = forward(computer)
    computer.reset()
    forward(computer, FEATURES + 1)
    np.testing.assert_array_equal(first, 2 * FEATURES)


def test_outputs_may_be_changed() -> None:
    computer = NnetComputer(scale_program(), net(scale=Scale(2.0)), net(scale=Scale(0.0)))
    with torch.inference_mode():
        computer.accept_input("input", torch.from_numpy(FEATURES))
        computer.run()
        output = computer.get_output("output")
    assert not output.is_inference()
    output.add_(1.0)
    computer.accept_input("output", torch.ones(2, 3))
    computer.run()
    np.testing.assert_array_equal(computer.get_output("input"), np.full((2, 3), 2.0))


def test_inference_tensors_may_be_inputs() -> None:
    with torch.inference_mode():
        features = torch.ones(2, 3)
    computer = NnetComputer(scale_program(), net(scale=Scale(2.0)), net(scale=Scale(0.0)))
    np.testing.assert_array_equal(forward(computer, features), np.full((2, 3), 2.0))


def test_inputs_are_copied() -> None:
    computer = NnetComputer(scale_program(), net(scale=Scale(2.0)), net(scale=Scale(0.0)))
    features = torch.from_numpy(FEATURES).float()
    computer.accept_input("input", features)
    features.zero_()
    computer.run()
    np.testing.assert_array_equal(computer.get_output("output"), 2 * FEATURES)


def test_parameters_changed_in_place_are_used() -> None:
    nnet = net(scale=Scale(2.0))
    computer = NnetComputer(scale_program(), nnet, net(scale=Scale(0.0)))
    nnet.components["scale"].factor.fill_(3.0)
    np.testing.assert_array_equal(forward(computer), 3 * FEATURES)


def test_nothing_is_recorded_for_autograd() -> None:
    computer = NnetComputer(scale_program(), net(scale=Scale(2.0)), net(scale=Scale(0.0)))
    features = torch.from_numpy(FEATURES).requires_grad_()
    with pytest.warns(
        UserWarning, match="input 'input': this tensor requires grad, but nnet3 computes without autograd"
    ):
        output = forward(computer, features)
    assert not output.requires_grad
    computer.reset()
    with torch.no_grad():  # nobody expects a history
        forward(computer, features)


def test_a_parameter_that_requires_grad_is_not_ignored_in_silence() -> None:
    scale = Scale(2.0)
    computer = NnetComputer(scale_program(), net(scale=scale), net(scale=Scale(0.0)))
    scale.factor.requires_grad_()
    with pytest.warns(UserWarning, match="'factor' of component 'scale': this tensor requires grad"):
        forward(computer)


def test_a_network_of_two_types_that_cannot_be_run_says_which_component_is_the_odd_one() -> None:
    nnet = nnet3.Nnet.from_config(
        """
        input-node name=input dim=2
        component name=one type=AffineComponent input-dim=2 output-dim=3
        component name=two type=AffineComponent input-dim=3 output-dim=2
        component-node name=one component=one input=input
        component-node name=two component=two input=one
        output-node name=output input=two
        """
    )
    io = nnet3.IoSpecification("input", [(0, 0)]), nnet3.IoSpecification("output", [(0, 0)])
    computer = nnet3.NnetComputer(nnet3.compile(nnet, nnet3.ComputationRequest(io[:1], io[1:])), nnet)
    nnet.components["two"].to(torch.float64)
    computer.accept_input("input", torch.ones(1, 2))
    with pytest.raises(ExecutionError, match="but 'linear_params' of component 'two' is"):
        computer.run()


def test_a_network_of_another_type_than_when_the_computer_was_made() -> None:
    scale = Scale(2.0)
    computer = NnetComputer(scale_program(), net(scale=scale), net(scale=Scale(0.0)))
    scale.factor = scale.factor.double()
    with pytest.raises(ExecutionError, match="make another computer"):
        forward(computer)


# ---- types of numbers ----


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_dtype_is_that_of_the_parameters(dtype: torch.dtype) -> None:
    computer = NnetComputer(scale_program(), net(scale=Scale(2.0, dtype)), net(scale=Scale()))
    assert computer.dtype == dtype
    assert forward(computer).dtype == dtype


def test_a_dtype_that_the_network_does_not_have() -> None:
    with pytest.raises(ExecutionError, match=r"float64 was asked for, .* are torch.float32: .*nnet\.to\(dtype=torch"):
        NnetComputer(scale_program(), net(scale=Scale()), net(scale=Scale()), dtype=torch.float64)
    with pytest.raises(
        ExecutionError, match=r"cannot run in torch.int32; dtypes are: float64, float32, bfloat16, float16"
    ):
        NnetComputer(Program().computation, net(), dtype=torch.int32)


def test_dtype_of_constants_where_nothing_is_trained() -> None:
    fixed = SimpleNamespace(parameters=dict, constant_names=("bias",), bias=torch.zeros(3, dtype=torch.float64))
    assert NnetComputer(Program().computation, net(fixed=fixed)).dtype == torch.float64


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (torch.float64, torch.float32, torch.float64),
        (torch.bfloat16, torch.bfloat16, torch.bfloat16),
        (torch.int64, torch.int32, torch.float32),
        (torch.int64, torch.float64, torch.float64),
    ],
)
def test_without_parameters_inputs_decide(first: torch.dtype, second: torch.dtype, expected: torch.dtype) -> None:
    program = Program()
    a, b = program.input("a", 1, 2), program.input("b", 1, 2)
    program.add(cmd.MatrixAdd(a, b)).output("sum", a)
    computer = NnetComputer(program.computation, net())
    assert computer.dtype == torch.float32
    for _ in range(2):
        computer.accept_input("a", torch.tensor([[1, 2]], dtype=first))
        computer.accept_input("b", torch.tensor([[10, 20]], dtype=second))
        computer.run()
        assert computer.get_output("sum").dtype == computer.dtype == expected
        assert computer.get_output("sum").tolist() == [[11, 22]]
    chosen = NnetComputer(program.computation, net(), dtype=torch.float64)
    assert chosen.dtype == torch.float64


@pytest.mark.parametrize(
    "features",
    [
        FEATURES,
        FEATURES.astype(np.float16),
        FEATURES.astype(np.longdouble),
        FEATURES.astype(">f4"),
        np.asfortranarray(FEATURES),
        np.broadcast_to(FEATURES, (2, 3)),
        torch.from_numpy(FEATURES).half(),
        torch.from_numpy(FEATURES.T.copy()).t(),
        torch.from_numpy(FEATURES).int(),
        FEATURES.astype(np.uint8),
        FEATURES.astype(np.uint64),
    ],
    ids=str,
)
def test_matrices_of_any_numbers(features: Any) -> None:
    computer = NnetComputer(scale_program(), net(scale=Scale(2.0)), net(scale=Scale()))
    np.testing.assert_array_equal(forward(computer, features), 2 * FEATURES)


# ---- who is updated, who takes statistics ----


def train_once(computation: NnetComputation, **nets: Any) -> None:
    computer = NnetComputer(computation, **nets)
    forward(computer)
    computer.accept_input("output", FEATURES)
    computer.run()


def test_update_without_a_net_to_update() -> None:
    with pytest.raises(ExecutionError, match=r"updates component 'scale', but no network .*nnet\.gradient_copy\(\)"):
        NnetComputer(scale_program(), net(scale=Scale()))


def test_no_update_without_model_derivative() -> None:
    """Parameters stay, and nobody takes the statistics of components with parameters."""
    to_update = net(scale=Scale(0.0))
    train_once(scale_program(need_model_derivative=False), nnet=net(scale=Scale()))
    train_once(scale_program(need_model_derivative=False), nnet=net(scale=Scale()), nnet_to_update=to_update)
    assert to_update.components["scale"].memos_seen == []
    assert to_update.components["scale"].factor == 0


@pytest.mark.parametrize(
    ("given", "forward_stats", "backward_stats"),
    [
        (["nnet"], "nnet", None),
        (["nnet", "nnet_to_update"], "nnet_to_update", "nnet_to_update"),
        (["nnet", "nnet_to_update", "nnet_to_store_stats"], "nnet_to_store_stats", "nnet_to_store_stats"),
    ],
)
def test_statistics_of_a_component_without_parameters(
    given: list[str], forward_stats: str, backward_stats: str | None
) -> None:
    nets = {name: net(scale=Scale()) for name in given}
    train_once(scale_program(updatable=False, store_stats=True, memo=0), **nets)
    memo = ("memo", 2.0)
    for name, one in nets.items():
        assert one.components["scale"].rows_seen == (2 if name == forward_stats else 0)
        assert one.components["scale"].memos_seen == [memo] * ((name == forward_stats) + (name == backward_stats))


def test_statistics_of_an_updatable_component_in_training() -> None:
    """The trainer's arrangement: forward statistics to the model, the update to the delta."""
    model, delta = net(scale=Scale()), net(scale=Scale(0.0))
    computation = scale_program(store_stats=True, memo=0)
    train_once(computation, nnet=model, nnet_to_update=delta, nnet_to_store_stats=model)
    assert model.components["scale"].rows_seen == 2
    assert delta.components["scale"].rows_seen == 0
    assert delta.components["scale"].memos_seen == [("memo", 2.0)]


def test_memos_are_dropped_after_their_last_use() -> None:
    computer = NnetComputer(scale_program(memo=0), net(scale=Scale()), net(scale=Scale()))
    forward(computer)
    assert computer._state.memos == [("memo", 2.0)]
    computer.accept_input("output", FEATURES)
    computer.run()
    assert computer._state.memos == [None]


def test_each_kernel_keeps_its_own_memo_of_its_own_indexes() -> None:
    """Kernel 1 with the indexes of place 2: nothing of kernel 0, which comes before it."""
    program = Program()
    computation = program.computation
    computation.num_memos, computation.need_model_derivative = 2, True
    kernels = [program.kernel(KernelInfo(name, updatable=True, uses_memo=True)) for name in ("first", "second")]
    computation.precomputed += [{"offsets": np.full((2, 3), offset, np.float32)} for offset in (10.0, 100.0)]
    value = program.input("input", 2, 3)
    outputs = [program.matrix(2, 3, name) for name in ("a", "b")]
    for memo, (kernel, output) in enumerate(zip(kernels, outputs, strict=True)):
        program.add(cmd.Propagate(kernel, "node", (value,), output, precomputed=2 - memo, memo=memo))
        program.output(f"out{memo}", output)
    deriv = program.matrix(2, 3, "deriv", zeroed=True)
    for memo, kernel in enumerate(kernels):
        program.add(cmd.Backprop(kernel, "node", (value,), 0, deriv, (0,), (0,), update=True, memo=memo))
    delta = net(first=Scale(), second=Scale())
    computer = NnetComputer(computation, net(first=Scale(2.0), second=Scale(3.0)), delta)
    computer.accept_input("input", FEATURES)
    computer.run()
    np.testing.assert_array_equal(computer.get_output("out0"), 2 * FEATURES + 100)
    np.testing.assert_array_equal(computer.get_output("out1"), 3 * FEATURES + 10)
    assert [delta.components[name].memos_seen for name in ("first", "second")] == [[("memo", 2.0)], [("memo", 3.0)]]


def test_memos_are_made_again_after_a_reset() -> None:
    program = scale_program(memo=2)
    computer = NnetComputer(program, net(scale=Scale(3.0)), net(scale=Scale()))
    for _ in range(2):
        forward(computer)
        computer.reset()
        assert computer._state.memos == [None, None, None]
    forward(computer)
    computer.accept_input("output", FEATURES)
    computer.run()
    assert computer.get_output("input").tolist() == (3 * FEATURES).tolist()


# ---- kernels with other numbers of inputs, precomputed indexes ----


def test_precomputed_indexes_are_loaded_once() -> None:
    program = Program()
    program.computation.precomputed.append({"offsets": np.array([[1.0], [2.0]], dtype=np.float32)})
    kernel = program.kernel(KernelInfo("scale"))
    value, output = program.input("input", 2, 3), program.matrix(2, 3)
    propagate = cmd.Propagate(kernel, "scale", (value,), output, precomputed=1)
    program.add(propagate, propagate).output("output", output)
    scale = Scale(1.0)
    computer = NnetComputer(program.computation, net(scale=scale))
    for _ in range(2):
        np.testing.assert_array_equal(forward(computer), FEATURES + np.array([[1], [2]]))
    assert scale.loads == 1


def test_a_kernel_without_inputs() -> None:
    program = Program()
    output = program.matrix(2, 3)
    program.add(cmd.Propagate(program.kernel(KernelInfo("scale", inputs=())), "scale", (), output)).output(
        "output", output
    )
    computer = NnetComputer(program.computation, net(scale=Scale(5.0)))
    computer.run()
    np.testing.assert_array_equal(computer.get_output("output"), np.full((2, 3), 5.0))


def test_operands_that_a_kernel_does_not_need() -> None:
    """Sub-matrix 0 is an empty matrix as a value and None as an input derivative."""
    seen: dict[str, Any] = {}

    class Witness(Scale):
        def run_backward(self, *args: Any) -> None:
            seen["inputs"], seen["output"], _, _, _, seen["input_derivs"], seen["accumulate"], _ = args

    program = Program()
    deriv, added = program.matrix(2, 3, zeroed=True), program.matrix(2, 3, zeroed=True)
    kernel = program.kernel(KernelInfo("scale", inputs=(InputPromises(), InputPromises(accumulates_deriv=True))))
    program.add(cmd.Backprop(kernel, "scale", (0, deriv), 0, deriv, (0, 0), (0, added), update=False))
    NnetComputer(program.computation, net(scale=Witness())).run()
    assert [tuple(x.shape) for x in (*seen["inputs"], seen["output"])] == [(0, 0), (2, 3), (0, 0)]
    assert seen["input_derivs"][0] is None
    assert tuple(seen["input_derivs"][1].shape) == (2, 3)
    assert seen["accumulate"] == [False, True]
