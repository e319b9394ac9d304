"""One buffer for the parameters of a network: views of it, through everything that changes or copies a network."""

from __future__ import annotations

import copy
import pickle
from multiprocessing.reduction import ForkingPickler

import numpy as np
import pytest
import torch

import nnet3
from nnet3.errors import NetworkError
from nnet3.model.edits.edits import apply_edits
from nnet3.model.nnet import Nnet

CONFIG = """
input-node name=input dim=3
component name=a type=NaturalGradientAffineComponent input-dim=3 output-dim=4
component name=relu type=RectifiedLinearComponent dim=4
component name=chain type=CompositeComponent num-components=2 component1='type=AffineComponent input-dim=4 \
output-dim=5' component2='type=NaturalGradientPerElementScaleComponent dim=5'
component name=t type=TdnnComponent input-dim=5 output-dim=2 time-offsets=-1,0 use-bias=false
component name=norm type=BatchNormComponent dim=2
component name=c type=ConstantFunctionComponent input-dim=2 output-dim=2 is-updatable=false
component-node name=a component=a input=input
component-node name=relu component=relu input=a
component-node name=chain component=chain input=relu
component-node name=t component=t input=chain
component-node name=norm component=norm input=t
component-node name=c component=c input=norm
output-node name=output input=Sum(norm, c)
"""


def make(seed: int = 0) -> Nnet:
    return Nnet.from_config(CONFIG, seed=seed)


def tensors(nnet: Nnet) -> list[torch.Tensor]:
    return [tensor for component in nnet.components.values() for tensor in component.parameters().values()]


def check_flat(nnet: Nnet) -> torch.Tensor:
    """That the one buffer holds all parameters in order and that changing it changes them; the buffer."""
    (buffer,) = nnet.flat_parameters()
    assert torch.equal(torch.cat([tensor.flatten() for tensor in tensors(nnet)]), buffer)
    before = buffer.clone()
    buffer.add_(1.0)
    assert torch.equal(torch.cat([tensor.flatten() for tensor in tensors(nnet)]), buffer)
    buffer.copy_(before)
    assert buffer.numel() == nnet.num_parameters
    assert nnet.flat_parameters()[0] is buffer
    return buffer


def output(nnet: Nnet) -> torch.Tensor:
    rows = [(0, t) for t in range(-1, 4)]
    request = nnet3.ComputationRequest(
        [nnet3.IoSpecification("input", rows)], [nnet3.IoSpecification("output", rows[1:])]
    )
    computer = nnet3.NnetComputer(nnet3.compile(nnet, request), nnet)
    computer.accept_input("input", np.arange(15).reshape(5, 3) / 7.0)
    computer.run()
    return computer.get_output("output")


def test_tensors_stay_the_same_objects_with_the_same_values() -> None:
    nnet = make()
    before, values, expected = tensors(nnet), [tensor.clone() for tensor in tensors(nnet)], output(nnet)
    check_flat(nnet)
    assert all(new is old for new, old in zip(tensors(nnet), before, strict=True))
    assert all(map(torch.equal, tensors(nnet), values))
    assert torch.equal(output(nnet), expected)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_dtype_changes_behind_the_same_objects(dtype: torch.dtype) -> None:
    nnet = make()
    nnet.flat_parameters()
    before = tensors(nnet)
    nnet.to(dtype)
    assert all(new is old and new.dtype == dtype for new, old in zip(tensors(nnet), before, strict=True))
    assert check_flat(nnet).dtype == dtype


def test_each_dtype_has_a_buffer() -> None:
    nnet = make()
    nnet.components["t"].to(torch.float64)
    single, double = nnet.flat_parameters()
    assert (single.dtype, double.dtype) == (torch.float32, torch.float64)
    assert double.numel() == nnet.components["t"].num_parameters
    norms = nnet.squared_norms()
    nnet.scale_(2.0)
    assert {name: 4 * norm for name, norm in norms.items()} == pytest.approx(nnet.squared_norms())
    with pytest.raises(NetworkError, match="dtypes"):
        nnet.add_(1.0, make())


def copies(nnet: Nnet) -> dict[str, Nnet]:
    return {"copy": nnet.copy(), "deepcopy": copy.deepcopy(nnet), "pickle": pickle.loads(pickle.dumps(nnet))}


def test_buffers_are_apart_from_autograd() -> None:
    nnet = make()
    nnet.components["a"].parameters()["linear_params"].requires_grad_()
    buffer = check_flat(nnet)
    assert not buffer.requires_grad


def test_copies_are_independent_and_flat() -> None:
    nnet = make()
    buffer = check_flat(nnet)
    for twin in copies(nnet).values():
        assert twin.info() == nnet.info()
        assert torch.equal(check_flat(twin), buffer)
        twin.scale_(0.0)
        assert all(bool((tensor == 0).all()) for tensor in tensors(twin))
    assert torch.equal(buffer, make().flat_parameters()[0])


def test_a_component_is_copied_without_the_buffer_it_lies_in() -> None:
    nnet = make()
    nnet.flat_parameters()
    affine = nnet.components["a"]
    for twin in (affine.copy(), pickle.loads(pickle.dumps(affine)), copy.deepcopy(affine)):
        for name, tensor in twin.parameters().items():
            assert torch.equal(tensor, affine.parameters()[name])
            assert tensor.untyped_storage().nbytes() == 4 * tensor.numel()
    parts = nnet.components["chain"].copy().parameters().values()
    assert all(tensor.untyped_storage().nbytes() == 4 * tensor.numel() for tensor in parts)


@pytest.mark.parametrize(
    "edit",
    [
        "apply-svd name=a bottleneck-dim=1",
        "reduce-rank name=a rank=1",
        "convert-to-fixed-affine name=a",
        "remove-orphans",
    ],
)
def test_edited_networks_are_flat_again(edit: str) -> None:
    nnet = make()
    nnet.flat_parameters()
    apply_edits(nnet, edit)
    check_flat(nnet)
    nnet.apply_config("component name=t type=TdnnComponent input-dim=5 output-dim=2 time-offsets=0")
    check_flat(nnet)


def test_networks_without_parameters() -> None:
    nnet = Nnet.from_config("input-node name=input dim=3\noutput-node name=output input=input")
    assert nnet.flat_parameters() == []
    assert nnet.squared_norms() == {}
    nnet.add_(1.0, nnet.copy())
    nnet.scale_(0.5)


def test_sums_and_norms() -> None:
    first, second = make(1), make(2)
    expected = {name: c.copy() for name, c in first.components.items()}
    for name, component in expected.items():
        component.scale_(0.5)
        component.add_(0.25, second.components[name])
    first.scale_(0.5)
    first.add_(0.25, second)
    for name, component in first.components.items():
        for key, tensor in component.parameters().items():
            assert torch.equal(tensor, expected[name].parameters()[key])
        if component.updatable is not None:
            assert first.squared_norms()[name] == pytest.approx(component.updatable.dot(component))
    assert list(first.squared_norms()) == ["a", "chain", "t"]


@pytest.mark.parametrize(
    ("a", "chain", "t", "c"), [(2.0, 0.5, 0.5, 1.0), (2.0, 0.5, 1.0, 2.0), (0.5, 1.0, 2.0, 2.0), (2.0, 2.0, 0.5, 2.0)]
)
def test_factors_of_single_components(a: float, chain: float, t: float, c: float) -> None:
    config = CONFIG.replace("is-updatable=false", "is-updatable=true")
    first, second = Nnet.from_config(config, seed=1), Nnet.from_config(config, seed=2)
    second.components["c"].parameters()["output"].fill_(3.0)
    expected = first.copy()
    factors = {"a": a, "relu": 0.0, "chain": chain, "t": t, "norm": 1.0, "c": c}
    for name, component in expected.components.items():
        component.add_(factors[name], second.components[name])
    first.add_scaled_(second, factors)
    assert torch.equal(first.flat_parameters()[0], expected.flat_parameters()[0])


def test_the_norm_of_a_single_component() -> None:
    nnet = Nnet.from_config(
        "input-node name=input dim=2\ncomponent name=a type=LinearComponent input-dim=2 output-dim=2\n"
        "component-node name=a component=a input=input\noutput-node name=output input=a"
    )
    nnet.flat_parameters()[0].copy_(torch.tensor([1.0, 2.0, 0.0, -2.0]))
    assert nnet.squared_norms() == {"a": 9.0}


def test_networks_that_differ_are_not_added() -> None:
    other = Nnet.from_config(CONFIG.replace("time-offsets=-1,0", "time-offsets=0"))
    with pytest.raises(NetworkError, match="same sizes"):
        make().add_(1.0, other)


def test_a_computer_goes_on_after_its_network_became_flat_and_was_converted() -> None:
    nnet = make()
    rows = [(0, t) for t in range(5)]
    request = nnet3.ComputationRequest(
        [nnet3.IoSpecification("input", rows)],
        [nnet3.IoSpecification("output", rows[1:], has_deriv=True)],
        need_model_derivative=True,
    )
    gradient = nnet.gradient_copy()
    computer = nnet3.NnetComputer(nnet3.compile(nnet, request), nnet, gradient)
    results = []
    for _ in range(2):
        gradient.scale_(0.0)
        computer.accept_input("input", torch.arange(15.0).view(5, 3) / 7)
        computer.run()
        computer.accept_input("output", torch.arange(8.0).view(4, 2).square())
        computer.run()
        results.append([tensor.clone() for tensor in tensors(gradient)])
        nnet.to(torch.float64).to(torch.float32)
        nnet.flat_parameters()
        gradient.to(torch.float64).to(torch.float32)
    assert all(map(torch.equal, *results))
    assert any(bool(tensor.any()) for tensor in results[0])


@pytest.mark.parametrize("kind", [Nnet, nnet3.TorchModule])
def test_networks_go_to_other_processes_by_value(kind: type) -> None:
    """Handles of shared memory would be those of copies, which are gone when the other process begins."""
    nnet = Nnet.from_config(CONFIG)
    nnet.flat_parameters()
    sent = bytes(ForkingPickler.dumps({"model": nnet if kind is Nnet else nnet3.TorchModule(nnet)}))
    assert b"torch.multiprocessing" not in sent
    came = pickle.loads(sent)["model"]
    assert type(came) is kind
    theirs = came if kind is Nnet else came.nnet
    assert all(map(torch.equal, theirs.flat_parameters(), nnet.flat_parameters()))
