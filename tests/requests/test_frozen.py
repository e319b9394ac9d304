"""Frozen components: what is left out of programs, what stays the same, and which networks may run them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import pytest
import torch

import nnet3
from nnet3.engine.ir.commands import Backprop
from nnet3.errors import ArgumentError, ExecutionError, RequestError
from tests.effort import draws
from tests.random_cases import Case
from tests.random_networks import ALL_LAYERS, random_network
from tests.seeds import shifted

CONFIG = """
input-node name=input dim=2
component name=a type=AffineComponent input-dim=2 output-dim=10
component-node name=a component=a input=input
component name=lstm type=LstmNonlinearityComponent cell-dim=2
component-node name=lstm component=lstm input=a
component name=b type=AffineComponent input-dim=4 output-dim=2
component-node name=b component=b input=lstm
output-node name=output input=b
"""
FRAMES = [(0, t) for t in range(3)]


def request(frozen: Collection[str] = ()) -> nnet3.ComputationRequest:
    inputs = [nnet3.IoSpecification("input", FRAMES)]
    return nnet3.ComputationRequest(inputs, [nnet3.IoSpecification("output", FRAMES, True)], True, frozen=frozen)


def backward_steps(computation: nnet3.NnetComputation) -> dict[str, bool]:
    """Returns the components that run backward, in order, and whether they are updated."""
    steps = [command for command in computation.commands if isinstance(command, Backprop)]
    return {computation.kernels[step.kernel].name: step.update for step in steps}


@pytest.mark.parametrize(
    ("frozen", "steps"),
    [
        ("", {"b": True, "lstm": True, "a": True}),
        ("a", {"b": True, "lstm": True}),
        ("a lstm", {"b": True}),
        ("b", {"b": False, "lstm": True, "a": True}),
        ("lstm", {"b": True, "lstm": True, "a": True}),  # it counts its values
        ("a lstm b", {}),
    ],
)
def test_nothing_goes_backward_for_the_sake_of_frozen_components(frozen: str, steps: dict[str, bool]) -> None:
    nnet = nnet3.Nnet.from_config(CONFIG)
    computation = nnet3.compile(nnet, request(frozen.split()))
    assert backward_steps(computation) == steps
    assert {kernel.name for kernel in computation.kernels if kernel.is_frozen} == set(frozen.split())
    nnet.set_learning_rate(1.0)
    for name in frozen.split():
        nnet.components[name].set_learning_rate(0.0)
    assert nnet.frozen == set(frozen.split())
    computer = nnet3.NnetComputer(computation, nnet, updated := nnet.copy())
    computer.accept_input("input", torch.ones(3, 2))
    computer.run()
    computer.accept_input("output", torch.ones(3, 2))  # taken, even if nobody needs it
    computer.run()
    for name, component in nnet.components.items():
        pairs = zip(component.parameters().values(), updated.components[name].parameters().values(), strict=True)
        assert all(torch.equal(*pair) for pair in pairs) == (name in nnet.frozen)
    assert updated.components["lstm"].count == 3 * ("lstm" in steps)  # type: ignore[attr-defined]


@pytest.mark.parametrize("block", range(4))
def test_all_else_stays_the_same(block: int) -> None:
    """Outputs, derivatives, gradients of what is not frozen, and the statistics of batch-norm."""
    seen = 0
    for seed in range(shifted(1000 * block), shifted(1000 * block) + draws(40)):
        case = Case(random_network(seed, layers=ALL_LAYERS))
        if case.request is None or not case.request.need_model_derivative:
            continue
        options = nnet3.CompileOptions(check=True, prove=True)
        names = [name for name, component in case.nnet.components.items() if component.updatable is not None]
        norms = [name for name, component in case.nnet.components.items() if component.has_running_statistics]
        normalized = tuple(f"statistic {name}." for name in norms)
        frozen = case.rng.permutation(names)[: case.rng.integers(len(names) + 1)].tolist()
        everything = case.run(options)
        case.request = replace(case.request, frozen=frozen)
        found = case.run(options)
        assert found.keys() == everything.keys()
        for name, value in everything.items():
            is_frozen = any(name.startswith(f"{each}.") for each in frozen)
            seen += is_frozen and bool(value.any())
            if not name.startswith("statistic ") or name.startswith(normalized):
                wanted = torch.zeros_like(value) if is_frozen else value
                assert torch.allclose(found[name], wanted, rtol=1e-9, atol=1e-11), f"{name} of {case.random}"
    assert seen > 3


def test_a_program_that_leaves_out_what_would_be_updated_is_an_error() -> None:
    """When the computer is made, and before each run: rates change. Too many gradients are none."""
    nnet, cache = nnet3.Nnet.from_config(CONFIG), nnet3.ComputationCache()
    partial, whole = (cache.compile(nnet, request(frozen)) for frozen in (["a"], []))
    assert partial is not whole
    assert cache.compile(nnet, request({"a"})) is partial
    message = (
        "was compiled with component 'a' frozen, .* in the network to update it has a learning rate: compile again"
    )
    with pytest.raises(ExecutionError, match=message):
        nnet3.NnetComputer(partial, nnet, nnet.gradient_copy())
    gradient = nnet.gradient_copy()
    gradient.components["a"].set_learning_rate(0.0)
    nnet3.NnetComputer(whole, nnet, gradient)
    computer = nnet3.NnetComputer(partial, nnet, gradient)
    inputs = {"input": torch.ones(3, 2)}
    computer.compute(inputs)
    gradient.components["a"].set_learning_rate(0.1)
    with pytest.raises(ExecutionError, match=message):
        computer.compute(inputs, anew=True)
    with pytest.raises(ExecutionError, match=message):
        nnet3.NnetComputer(whole, nnet, gradient).change(partial)


def test_names_of_frozen_components() -> None:
    nnet = nnet3.Nnet.from_config(CONFIG)
    with pytest.raises(RequestError, match="has no component 'lstn' to be frozen; did you mean 'lstm'"):
        nnet3.compile(nnet, request(["lstn"]))
    for wrong in ("lstm", None, 3, ["lstm", []]):
        with pytest.raises(ArgumentError, match="frozen must be names of components"):
            request(wrong)  # type: ignore[arg-type]
