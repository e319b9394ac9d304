"""Quantized networks: what they compute, what is done with them in a row, what is refused."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

import nnet3
from nnet3.errors import ArgumentError, ComponentError, NetworkError, RequestError
from nnet3.kaldi_io import Reader
from nnet3.model.nnet import AcousticModel, Nnet
from nnet3.model.nnet.load import read_model
from tests.effort import EFFORT, nightly, third
from tests.nnet.model_texts import MDL_TEXT
from tests.random_cases import forward_cases

TYPES = ("int8", "bfloat16")
CONFIG = """
input-node name=input dim=6
component name=lda type=FixedAffineComponent input-dim=6 output-dim=6
component name=a type=NaturalGradientAffineComponent input-dim=6 output-dim=40
component name=relu type=RectifiedLinearComponent dim=40
component name=norm type=BatchNormComponent dim=40
component name=linear type=TdnnComponent input-dim=40 output-dim=8 time-offsets=-3,0 use-bias=false
component name=affine type=TdnnComponent input-dim=8 output-dim=40 time-offsets=0,3
component name=b type=AffineComponent input-dim=40 output-dim=5
component name=softmax type=LogSoftmaxComponent dim=5
component-node name=lda component=lda input=input
component-node name=a component=a input=lda
component-node name=relu component=relu input=a
component-node name=norm component=norm input=relu
component-node name=linear component=linear input=norm
component-node name=affine component=affine input=linear
component-node name=b component=b input=Sum(affine, norm)
component-node name=softmax component=softmax input=b
output-node name=output input=softmax
"""


def make(config: str = CONFIG, seed: int = 1) -> Nnet:
    nnet = Nnet.from_config(config, seed=seed)
    norm = nnet.components["norm"]
    x = torch.randn(50, 40, generator=torch.Generator().manual_seed(seed)).relu()
    y, memo = norm.propagate(x)
    norm.store_stats(x, y, memo)
    return nnet


def features(frames: int = 60) -> Tensor:
    return torch.randn(frames, 6, generator=torch.Generator().manual_seed(3))


REQUEST = nnet3.ComputationRequest(
    [nnet3.IoSpecification("input", [(0, t, 0) for t in range(-3, 4)])],
    [nnet3.IoSpecification("output", [(0, 0, 0)], has_deriv=True)],
    need_model_derivative=True,
)


def run(computation: nnet3.NnetComputation, nnet: Nnet, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    computer = nnet3.NnetComputer(computation, nnet, check_finite=False)
    for name, matrix in inputs.items():
        computer.accept_input(name, matrix)
    computer.run()
    return {io.name: computer.get_output(io.name) for io in computation.outputs}


def perturbed(nnet: Nnet, seed: int) -> Nnet:
    """A network whose products err at random by as much as those of int8 do when weights are rounded."""
    twin, rng = nnet.copy(), torch.Generator().manual_seed(seed)
    for component in twin.components.values():
        if component.in_low_precision(torch.int8) is not None:
            weights = next(iter(component.parameters().values()))
            noise = torch.rand(weights.shape, generator=rng) - 0.5
            weights.add_(noise * weights.abs().amax(1, keepdim=True) / 127)
    return twin


@nightly
@pytest.mark.parametrize("block", range(EFFORT))
def test_random_networks_err_as_much_as_small_changes_of_their_weights_make_them(block: int) -> None:
    compared = 0
    for random, nnet, request, given in forward_cases(range(5000 + 10 * block, 5000 + 10 * block + third(10))):
        computation = nnet3.compile(nnet, request)
        exact = run(computation, nnet, given)
        others = [run(computation, perturbed(nnet, number), given) for number in range(5)]
        for quantized in map(nnet.quantize, TYPES):
            found = run(nnet3.compile(quantized, request), quantized, given)
            for name, want in exact.items():
                usual = max(float((other[name] - want).norm()) for other in others)
                assert float((found[name] - want).norm()) <= 20 * usual + 1e-5 * float(want.norm()), random
                compared += 1
    assert compared > third(5)


@pytest.mark.parametrize("name", TYPES)
def test_all_lengths_and_pieces_give_the_same(name: str) -> None:
    """Families, plans and caches serve quantized networks; sums of int8 do not depend on how an utterance is cut."""
    nnet = make(CONFIG.replace("component=a input=lda", "component=a input=input")).quantize(name)
    x = features(90)
    whole = nnet.compute(x)
    for frames in (1, 7, 30, 31, 90):
        part = nnet.compute(x[:frames])
        inside = max(0, frames - nnet.right_context)
        torch.testing.assert_close(part[:inside], whole[:inside], rtol=0, atol=1e-6 if name == "int8" else 1e-2)
    chunks = nnet.compute(x, frames_per_chunk=8)
    torch.testing.assert_close(chunks, whole, rtol=0, atol=1e-6 if name == "int8" else 1e-2)


def test_minibatches_and_streams_of_int8_are_utterances_to_the_bit() -> None:
    nnet = make(CONFIG.replace("component=a input=lda", "component=a input=input")).quantize()
    utterances = {str(frames): features(frames) for frames in (61, 7, 90)}
    batch = nnet3.BatchComputer(nnet, frames_per_chunk=20, frame_subsampling_factor=1)
    streams = nnet3.StreamComputer(nnet, frames_per_chunk=10, num_streams=2, frame_subsampling_factor=1)
    for key, rows in batch.compute((key, x, None) for key, x in utterances.items()):
        expected = nnet.compute(utterances[key])
        torch.testing.assert_close(rows, expected, rtol=0, atol=1e-6)
        stream = streams.open()
        parts = [stream.accept(utterances[key][:5]), stream.accept(utterances[key][5:]), stream.finish()]
        torch.testing.assert_close(torch.cat(parts), expected, rtol=0, atol=1e-6)


def test_networks_of_all_precisions_take_turns_with_one_cache() -> None:
    nnet, x = make(), features()
    networks = [nnet, nnet.quantize(), nnet.quantize(torch.bfloat16), nnet.copy().to(torch.float64)]
    expected = [each.copy().compute(x) for each in networks]
    assert len({tuple(rows.double().view(-1).tolist()) for rows in expected}) == 4
    for number in (0, 1, 2, 3, 1, 0, 2, 2, 3, 0):
        assert torch.equal(networks[number].compute(x), expected[number])


def test_a_program_for_one_precision_is_refused_by_another() -> None:
    nnet = make()
    with pytest.raises(nnet3.Nnet3Error, match=r"not what the computation was compiled for.* component a, component"):
        nnet3.NnetComputer(nnet3.compile(nnet, REQUEST), nnet.quantize())


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("twin_of", [Nnet.copy, copy.deepcopy, lambda nnet: pickle.loads(pickle.dumps(nnet))])
def test_quantize_copy_compute_and_then_training_is_refused(
    name: str, twin_of: Callable[[Nnet], Nnet], tmp_path: Path
) -> None:
    nnet = make()
    before, x = nnet.copy(), features()
    quantized = nnet.quantize(name)
    expected = quantized.compute(x)
    twin = twin_of(quantized)
    assert torch.equal(twin.compute(x), expected)
    assert twin.to(torch.float32) is twin
    assert torch.equal(twin.compute(x), expected)

    with pytest.raises(RequestError, match=f"but component 'a' has none: its products are in {name}; take the network"):
        nnet3.compile(twin, REQUEST)
    with pytest.raises(NetworkError, match="a TorchModule can learn, but component 'a' cannot: its products are in"):
        nnet3.TorchModule(twin)
    with pytest.raises(ComponentError, match="cannot be converted to float64"):
        twin.to(torch.float64)
    assert {c.bias_params.dtype for c in twin.components.values() if hasattr(c, "bias_params")} == {torch.float32}
    with pytest.raises(ComponentError, match="cannot be written, as Kaldi's files have no such weights"):
        twin.save(tmp_path / "out.raw")
    with pytest.raises(NetworkError, match="component 'a': it is quantized already"):
        twin.quantize("int8")
    assert not list(tmp_path.iterdir())
    assert torch.equal(twin.compute(x), expected)

    for key, component in nnet.components.items():  # the original is as it was, and learns
        for tensor, old in zip(
            component.parameters().values(), before.components[key].parameters().values(), strict=True
        ):
            assert torch.equal(tensor, old)
    nnet3.compile(nnet, REQUEST)
    nnet.scale_(0.5)
    assert torch.equal(quantized.compute(x), expected)


def test_a_network_in_float64_is_quantized_to_float32() -> None:
    rows = make().to(torch.float64).quantize().compute(features())
    assert rows.dtype == torch.float32
    assert torch.equal(rows, make().quantize().compute(features()))


def test_acoustic_models_are_quantized_with_their_priors() -> None:
    model = read_model(Reader(MDL_TEXT.encode(), "final.mdl"))
    assert isinstance(model, AcousticModel)
    twin = model.quantize()
    assert twin.transition_model is model.transition_model
    assert twin.nnet.info() == model.nnet.quantize().info()
    assert torch.equal(twin.priors, model.priors)
    assert twin.priors is not model.priors


def test_what_cannot_be_quantized_is_named() -> None:
    nnet = make()
    with pytest.raises(ArgumentError, match=r"products can be of int8 or bfloat16, got torch.float16"):
        nnet.quantize(torch.float16)
    nnet.components["linear"].parameters()["linear_params"][1, 2] = np.nan
    with pytest.raises(NetworkError, match="component 'linear': it has weights that are not finite numbers"):
        nnet.quantize()


def test_kaldi_prints_no_such_types_but_info_does() -> None:
    info = make().quantize().info()
    assert "component name=a type=Int8AffineComponent, input-dim=6, output-dim=40\n" in info
    assert "component name=linear type=Int8TdnnComponent, input-dim=40, output-dim=8\n" in info
    assert "component name=lda type=FixedAffineComponent" in info
