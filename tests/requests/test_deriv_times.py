"""Derivatives limited to a range of times: against a backward pass with masked rows, and what is left out."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch

import nnet3
from nnet3.engine.ir.commands import Backprop, Propagate
from nnet3.engine.ir.repeats import unrolled
from nnet3.errors import ArgumentError, RequestError
from tests.effort import EFFORT, at_night, third
from tests.masked_network import MaskedNetwork
from tests.random_cases import Case, assert_equal, without_counters
from tests.random_networks import LAYERS, RandomNetwork, random_network
from tests.slow_graph import SlowGraph, SlowNet

PLAIN = nnet3.CompileOptions(optimize=False)
OPTIMIZED = nnet3.CompileOptions()
RECURRENT = ("rnn", "deep_rnn", "nested_rnn", "failover_rnn", "clockwork", "lstm")


def limited(options: nnet3.CompileOptions, first: int | None, last: int | None) -> nnet3.CompileOptions:
    return nnet3.CompileOptions(options.optimize, check=True, min_deriv_time=first, max_deriv_time=last)


def random_times(case: Case) -> tuple[int, int]:
    assert case.request is not None
    ts = np.concatenate([io.indexes[:, 1] for io in (*case.request.inputs, *case.request.outputs)])
    first, last = np.sort(case.rng.integers(ts.min() - 1, ts.max() + 2, 2)).tolist()
    return first, last


def masked(case: Case, times: tuple[int, int]) -> dict[str, torch.Tensor]:
    assert case.request is not None
    graph = SlowGraph(SlowNet.from_config(case.random.config), case.request)
    slow = MaskedNetwork(case.nnet, graph, case.inputs, case.request)
    found = slow.gradients(case.request, case.derivs, times)
    if not case.request.need_model_derivative:
        found = {name: tensor for name, tensor in found.items() if name.startswith("deriv of ")}
    return found


def check(seed: int, layers: tuple[str, ...]) -> bool:
    case = Case(random_network(seed, layers=layers))
    if case.request is None or not case.request.needs_backward:
        return False
    for _ in range(2):
        times = random_times(case)
        want = masked(case, times)
        plain, optimized = case.run(limited(PLAIN, *times)), case.run(limited(OPTIMIZED, *times))
        assert_equal({name: plain[name] for name in want}, want, case)
        assert_equal(without_counters(optimized), without_counters(plain), case)
    return True


@pytest.mark.parametrize("block", range(EFFORT))
def test_equals_masked_rows(block: int) -> None:
    assert sum(check(seed, tuple(LAYERS)) for seed in range(3000 + 6 * block, 3000 + 6 * block + third(6)))


@pytest.mark.parametrize("block", range(EFFORT))
def test_recurrences_equal_masked_rows(block: int) -> None:
    assert sum(check(seed, RECURRENT) for seed in range(4000 + 4 * block, 4000 + 4 * block + third(4)))


LSTM = """
input-node name=input dim=2
component name=Wx type=NaturalGradientAffineComponent input-dim=4 output-dim=8
component-node name=a component=Wx input=Append(input, IfDefined(Offset(m, -{delay})))
component name=cell type=LstmNonlinearityComponent cell-dim=2
component-node name=cm component=cell input=Append(a, IfDefined(Offset(c, -{delay})))
dim-range-node name=c input-node=cm dim=2 dim-offset=0
dim-range-node name=m input-node=cm dim=2 dim-offset=2
component name=back type=TanhComponent dim=2
component name=Wb type=AffineComponent input-dim=4 output-dim=2
component-node name=b component=Wb input=Append(m, IfDefined(Offset(h, {delay})))
component-node name=h component=back input=b
component name=out type=AffineComponent input-dim=4 output-dim=2
component-node name=out component=out input=Append(Offset(m, -2), h)
output-node name=output input=out
"""


def grid(num_sequences: int, times: range) -> np.ndarray:
    return np.array([[n, t, 0] for n in range(num_sequences) for t in times], np.int32)


def recurrent_case(delay: int, num_sequences: int) -> Case:
    """A chunk of 30 frames with 12 more on either side."""
    inputs = [nnet3.IoSpecification("input", grid(num_sequences, range(-14, 42)), has_deriv=True)]
    outputs = [nnet3.IoSpecification("output", grid(num_sequences, range(-12, 42)), has_deriv=True)]
    request = nnet3.ComputationRequest(inputs, outputs, need_model_derivative=True, store_component_stats=True)
    return Case(RandomNetwork(7, LSTM.format(delay=delay), request))


@pytest.mark.parametrize(
    ("delay", "times"),
    [(3, (0, 29)), *at_night((3, (-14, 12)), (3, (20, 41)), *((1, times) for times in ((0, 29), (-14, 12), (20, 41))))],
)
def test_long_recurrences_agree_with_the_oracle(delay: int, times: tuple[int, int]) -> None:
    """Their steps repeat, before the times, within them and after them."""
    case = recurrent_case(delay, 1)
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(50_000)  # the oracle looks back frame by frame
    try:
        want = masked(case, times)
    finally:
        sys.setrecursionlimit(limit)
    plain, optimized = case.run(limited(PLAIN, *times)), case.run(limited(OPTIMIZED, *times))
    assert_equal({name: plain[name] for name in want}, want, case)
    assert_equal(optimized, plain, case)


def rows_of_backprop(computation: nnet3.NnetComputation) -> int:
    computation = unrolled(computation)
    commands = [command for command in computation.commands if isinstance(command, Backprop)]
    return sum(computation.submatrices[command.output_deriv].num_rows for command in commands)


def test_work_is_left_out() -> None:
    """Backward steps outside are not there, and those within have as many commands as without limits."""
    case = recurrent_case(1, 2)
    whole = nnet3.compile(case.nnet, case.request)
    half = nnet3.compile(case.nnet, case.request, nnet3.CompileOptions(min_deriv_time=0, max_deriv_time=26))
    assert rows_of_backprop(half) <= rows_of_backprop(whole) / 2  # 27 of 54 frames
    count = [sum(isinstance(command, Backprop) for command in unrolled(each).commands) for each in (whole, half)]
    assert count[1] < 0.55 * count[0]


def test_everything_within_is_the_same_program() -> None:
    for case in (recurrent_case(3, 2), *(Case(random_network(seed)) for seed in range(5000, 5000 + third(6)))):
        if case.request is not None:
            program = str(nnet3.compile(case.nnet, case.request))
            assert str(nnet3.compile(case.nnet, case.request, limited(OPTIMIZED, -1000, 1000))) == program
            assert str(nnet3.compile(case.nnet, case.request, limited(OPTIMIZED, -(2**31), 2**31 - 1))) == program


def test_nothing_within_has_no_derivatives() -> None:
    for case in (recurrent_case(1, 2), *(Case(random_network(seed)) for seed in range(5000, 5000 + third(6)))):
        if case.request is None or not case.request.needs_backward:
            continue
        options = limited(OPTIMIZED, 1000, None)
        assert rows_of_backprop(nnet3.compile(case.nnet, case.request, options)) == 0
        given = {io.name for io in case.request.outputs}
        for name, tensor in case.run(options).items():
            assert name in given or name.startswith("statistic") or not tensor.any(), name


NORMALIZED = """
input-node name=input dim=3
component name=first type=AffineComponent input-dim=6 output-dim=4
component-node name=first component=first input=Append(Offset(input, -1), input)
component name=norm type=BatchNormComponent dim=4 target-rms=1.0
component-node name=norm component=norm input=first
component name=relu type=RectifiedLinearComponent dim=4
component-node name=relu component=relu input=norm
component name=last type=AffineComponent input-dim=8 output-dim=2
component-node name=last component=last input=Append(Offset(relu, -2), Offset(relu, 2))
output-node name=output input=last
"""


def test_batchnorm_sees_all_rows() -> None:
    """Its statistics and its backward pass are those of all rows, of which only some have derivatives."""
    inputs = [nnet3.IoSpecification("input", grid(2, range(-3, 12)), has_deriv=True)]
    outputs = [nnet3.IoSpecification("output", grid(2, range(10)), has_deriv=True)]
    case = Case(RandomNetwork(3, NORMALIZED, nnet3.ComputationRequest(inputs, outputs, need_model_derivative=True)))
    found = case.run(limited(PLAIN, 1, 8))
    assert_equal(case.run(limited(OPTIMIZED, 1, 8)), found, case)

    def live(value: torch.Tensor, first: int) -> torch.Tensor:  # value: (n, t, dim)
        times = torch.arange(first, first + value.shape[1])
        return torch.where(((times >= 1) & (times <= 8))[:, None], value, value.detach())

    parameters = {
        f"{name}.{key}": tensor.clone().requires_grad_()
        for name in ("first", "last")
        for key, tensor in case.nnet.components[name].parameters().items()
    }
    given = torch.from_numpy(case.inputs["input"]).reshape(2, 15, 3).requires_grad_()
    x = live(given, -3)
    x = live(torch.cat([x[:, :-1], x[:, 1:]], 2), -2)
    x = live(x @ parameters["first.linear_params"].T + parameters["first.bias_params"], -2)
    centered = x - x.mean((0, 1))
    x = live(centered * (centered.square().mean((0, 1)) + 1e-3).rsqrt(), -2).relu()
    x = live(torch.cat([x[:, :-4], x[:, 4:]], 2), 0)
    x = live(x @ parameters["last.linear_params"].T + parameters["last.bias_params"], 0)
    x.backward(torch.from_numpy(case.derivs["output"]).reshape(2, 10, 2))
    assert given.grad is not None
    want = {"deriv of input": given.grad.reshape(-1, 3)}
    want |= {key: tensor.grad for key, tensor in parameters.items() if tensor.grad is not None}
    assert len(want) == 5
    assert_equal({name: found[name] for name in want}, want, case)


def test_relative_times_count_from_the_last_output() -> None:
    case = recurrent_case(1, 1)
    program = str(unrolled(nnet3.compile(case.nnet, case.request, nnet3.CompileOptions(max_deriv_time=29))))
    relative = nnet3.CompileOptions(max_deriv_time=3, max_deriv_time_relative=-12)
    assert str(unrolled(nnet3.compile(case.nnet, case.request, relative))) == program
    assert program != str(unrolled(nnet3.compile(case.nnet, case.request)))


def test_a_forward_pass_has_no_limits() -> None:
    case = recurrent_case(1, 1)
    request = case.forward_request()
    limits = nnet3.CompileOptions(min_deriv_time=3)
    assert str(nnet3.compile(case.nnet, request, limits)) == str(nnet3.compile(case.nnet, request))


def test_statistics_are_stored_of_steps_that_have_derivatives() -> None:
    case = recurrent_case(1, 1)
    computation = nnet3.compile(case.nnet, case.request, limited(OPTIMIZED, 0, 29))
    commands = [command for command in computation.commands if isinstance(command, Propagate) and command.store_stats]
    assert [command.node for command in commands] == ["h"] * 30


TRUNCATED = """
input-node name=input dim=2
component name=affine type=AffineComponent input-dim=4 output-dim=2
component-node name=affine component=affine input=Append(input, IfDefined(Offset(truncated, -1)))
component name=truncated type=BackpropTruncationComponent dim=2 zeroing-interval=10
component-node name=truncated component=truncated input=affine
output-node name=output input={output}
"""


@pytest.mark.parametrize("options", [PLAIN, OPTIMIZED], ids=["plain", "optimized"])
def test_truncation_counts_rows_that_have_derivatives(options: nnet3.CompileOptions) -> None:
    """Of steps that lie wholly outside nothing is counted, boundaries neither (those of n = 1 are at t = 1, 11, 21)."""
    inputs = [nnet3.IoSpecification("input", grid(2, range(-14, 42)))]
    outputs = [nnet3.IoSpecification("output", grid(2, range(-12, 42)), has_deriv=True)]
    request = nnet3.ComputationRequest(inputs, outputs, need_model_derivative=True, store_component_stats=True)
    case = Case(RandomNetwork(7, TRUNCATED.format(output="truncated"), request))
    found = case.run(limited(options, 0, 29))
    assert float(found["statistic truncated.count"]) == 60
    assert float(found["statistic truncated.count_zeroing_boundaries"]) == 6


def test_impossible_times_are_refused() -> None:
    with pytest.raises(ArgumentError, match="min_deriv_time is 5, after max_deriv_time, 4"):
        nnet3.CompileOptions(min_deriv_time=5, max_deriv_time=4)
    with pytest.raises(ArgumentError, match=r"max_deriv_time_relative must be an integer, got 1\.5"):
        nnet3.CompileOptions(max_deriv_time_relative=1.5)  # type: ignore[arg-type]
    case = recurrent_case(1, 1)
    with pytest.raises(RequestError, match="min_deriv_time is 50, but max_deriv_time_relative = 3 ends"):
        nnet3.compile(case.nnet, case.request, nnet3.CompileOptions(min_deriv_time=50, max_deriv_time_relative=3))


def test_a_dead_row_that_comes_from_a_live_one() -> None:
    """Nothing is sent back from rows outside the times, though all of what they are made of is within."""
    config = """
    input-node name=input dim=2
    component name=b type=AffineComponent input-dim=2 output-dim=2
    component name=a type=AffineComponent input-dim=4 output-dim=2
    component-node name=b component=b input=input
    component-node name=a component=a input=Append(Offset(b, 3), Offset(b, 4))
    output-node name=output input=a
    """
    inputs = [nnet3.IoSpecification("input", grid(1, range(3, 9)), has_deriv=True)]
    outputs = [nnet3.IoSpecification("output", grid(1, range(5)), has_deriv=True)]
    case = Case(RandomNetwork(1, config, nnet3.ComputationRequest(inputs, outputs, need_model_derivative=True)))
    options = limited(PLAIN, 3, None)
    found, want = case.run(options), masked(case, (3, 100))
    assert_equal({name: found[name] for name in want}, want, case)
    lines = str(nnet3.compile(case.nnet, case.request, options)).splitlines()
    end = next(number for number, line in enumerate(lines) if " b.Backprop" in line)
    assert [line.partition(": ")[2] for line in lines[end - 5 : end]] == [
        "a.Backprop(m5(3:4, :), [], m8(3:4, :), &m6(3:4, :)) [update]",
        "m4(0:2, :).set(0)",
        "m4(3:4, :) = m6(3:4, 0:1)",
        "m4(4, :) += m6(3, 2:3)",
        "m4(5, :) = m6(4, 2:3)",
    ]


def test_a_live_row_that_comes_from_a_dead_one() -> None:
    """A component's input at t = 0 is the network's input at t = -1, whose derivative is zero."""
    config = """
    input-node name=input dim=2
    component name=a type=AffineComponent input-dim=2 output-dim=2
    component-node name=a component=a input=Offset(input, -1)
    output-node name=output input=a
    """
    inputs = [nnet3.IoSpecification("input", grid(2, range(-1, 4)), has_deriv=True)]
    outputs = [nnet3.IoSpecification("output", grid(2, range(5)), has_deriv=True)]
    case = Case(RandomNetwork(1, config, nnet3.ComputationRequest(inputs, outputs, need_model_derivative=True)))
    for options in (PLAIN, OPTIMIZED):
        found = case.run(limited(options, 0, None))
        want = torch.from_numpy(case.derivs["output"]) @ case.nnet.components["a"].parameters()["linear_params"]
        want.view(2, 5, 2)[:, 0] = 0.0
        assert_equal({"deriv of input": found["deriv of input"]}, {"deriv of input": want}, case)
        torch.testing.assert_close(found["a.bias_params"], torch.from_numpy(case.derivs["output"]).sum(0))
