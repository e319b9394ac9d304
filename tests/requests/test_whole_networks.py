"""Random networks, compiled and run: values row by row, derivatives by central differences, passes change nothing."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
import torch
from torch import Tensor

import nnet3
from nnet3.components import Properties
from nnet3.model.structure.nodes import ComponentNode
from tests.effort import EFFORT, at_night, draws
from tests.random_cases import Case, assert_equal, without_counters
from tests.random_networks import LAYERS, random_network
from tests.slow_graph import SlowGraph, SlowNet
from tests.slow_network import SlowNetwork
from tests.spliced_recurrences import LAGS, LSTM_LAYERS, affine_loop, lstm_stack

PLAIN = nnet3.CompileOptions(optimize=False, check=True)
OPTIMIZED = nnet3.CompileOptions(check=True)
STEP = 1e-5
RECURRENT = [layer for layer in LAYERS if layer.endswith("rnn")] + ["clockwork", "lstm"]


@pytest.mark.parametrize("block", range(draws(3)))
def test_outputs_equal_those_of_the_slow_network(block: int) -> None:
    for seed in range(1000 + 6 * block, 1006 + 6 * block):
        case = Case(random_network(seed))
        if case.request is None:
            continue
        graph = SlowGraph(SlowNet.from_config(case.random.config), case.request)
        slow = SlowNetwork(case.nnet, graph, case.inputs, case.request)
        want = {io.name: torch.from_numpy(slow.output(io)) for io in case.request.outputs}
        plain, optimized = case.run(PLAIN), case.run(OPTIMIZED)
        assert_equal({name: plain[name] for name in want}, want, case)
        assert_equal(without_counters(optimized), without_counters(plain), case)
        check_statistics(case, graph, plain)


def check_statistics(case: Case, graph: SlowGraph, found: dict[str, Tensor]) -> None:
    """They are stored if that was asked for, of whatever is computed; derivatives have nothing to do with it."""
    assert case.request is not None
    computed = {name for name, index in graph.used() if (name, index) not in graph.provided}
    for node in case.nnet.nodes:
        if not isinstance(node, ComponentNode) or node.name not in computed:
            continue
        key = f"statistic {node.component}.count"
        component = case.nnet.component_of(node)
        if component.properties & Properties.STORES_STATS and component.type_name != "LogSoftmaxComponent":
            assert bool(found[key] > 0) == case.request.store_component_stats, f"{key} of {case.random}"


def objective(case: Case, computer: nnet3.NnetComputer, inputs: dict[str, np.ndarray]) -> float:
    """What the output derivatives are the derivative of."""
    computer.reset()
    for name, matrix in inputs.items():
        computer.accept_input(name, matrix)
    computer.run()
    return sum(float((computer.get_output(name).numpy() * deriv).sum()) for name, deriv in case.derivs.items())


def check_direction(case: Case, computer: nnet3.NnetComputer, name: str, deriv: Tensor) -> None:
    """The derivative of one input or parameter tensor along a random direction."""
    direction = torch.from_numpy(case.rng.standard_normal(tuple(deriv.shape)))
    values = []
    for step in (STEP, -STEP):
        inputs = dict(case.inputs)
        if name.startswith("deriv of "):
            source = name.removeprefix("deriv of ")
            inputs[source] = inputs[source] + step * direction.numpy()
            values.append(objective(case, computer, inputs))
            continue
        component, _, key = name.rpartition(".")
        tensor = case.nnet.components[component].parameters()[key]
        before = tensor.clone()
        tensor.add_(direction, alpha=step)
        values.append(objective(case, computer, inputs))
        tensor.copy_(before)
    slope = (values[0] - values[1]) / (2 * STEP)
    want = float((deriv * direction).sum())
    scale = max(abs(slope), abs(want), 1e-3 * float(deriv.norm() * direction.norm()), 1e-2)
    assert abs(slope - want) <= 1e-6 * scale, f"{name}: {want}, by differences {slope}, in {case.random}"


def check_derivatives(case: Case) -> int:
    """All derivatives and gradients of the optimized program; returns how many."""
    found = case.run(OPTIMIZED).items()
    derivs = {k: tensor for k, tensor in found if k not in case.derivs and not k.startswith("statistic ")}
    computation = nnet3.compile(case.nnet, case.forward_request())
    computer = nnet3.NnetComputer(computation, case.nnet, dtype=torch.float64)
    for name, deriv in derivs.items():
        check_direction(case, computer, name, deriv)
    return len(derivs)


@pytest.mark.parametrize("block", range(draws(3)))
def test_derivatives_by_central_differences(block: int) -> None:
    compared = 0
    for seed in range(2000 + 6 * block, 2006 + 6 * block):
        layers = RECURRENT if seed % 2 else LAYERS
        case = Case(random_network(seed, smooth=True, layers=layers))
        if case.request is None or not case.request.needs_backward:
            continue
        compared += check_derivatives(case)
    assert compared > 0


@pytest.mark.parametrize("lag", LAGS if EFFORT > 1 else LAGS[:1])
def test_loops_over_inputs_at_several_offsets(lag: int) -> None:
    """In every order; those that are a lag apart meet in the rows to which they send derivatives."""
    orders = [*permutations([-lag, 0]), *permutations([-lag, 0, 2 * lag]), (2, -1, 0)]
    for number, offsets in enumerate(orders):
        over, first = ("input", "layer")[number % 2], number % 3 == 0
        assert check_derivatives(Case(affine_loop(offsets, lag, over=over, first=first))) >= 3
    for offsets in ((-lag, 0, lag), (0, lag, -lag)):
        assert check_derivatives(Case(affine_loop(offsets, lag, over="layer", joined="Sum"))) >= 3


@pytest.mark.parametrize("delay", [-3, -1, 1, 3])
@pytest.mark.parametrize("layer", LSTM_LAYERS)
def test_lstm_layers_over_layers_at_several_offsets(layer: str, delay: int) -> None:
    for offsets in ((-3, 0, 3), *at_night((3, 0, -3))):
        assert check_derivatives(Case(lstm_stack(layer, delay, offsets))) > 6
