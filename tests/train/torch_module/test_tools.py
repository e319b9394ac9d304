"""PyTorch's own tools on a module: the compiler, files, conversions, statistics of batch-norm."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.optim import swa_utils

import nnet3
from nnet3.errors import NetworkError
from tests.effort import at_night
from tests.train.torch_module.comparing import assert_alike, gradients
from tests.train.torch_module.networks import COMPOSITE, TDNN, features, network


def _module(config: str = TDNN, seed: int = 0) -> nnet3.TorchModule:
    return nnet3.TorchModule(network(config, seed))


# ---- torch.compile and what traces ----


class Model(nn.Module):
    def __init__(self, whole: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.front, self.network, self.head = nn.Linear(4, 3), _module(), nn.Linear(5, 2)
        self.whole = whole

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.network(torch.tanh(self.front(x)))
        return torch.tanh(self.head(hidden)) if self.whole else hidden


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")
@pytest.mark.parametrize("whole", [True, False])
def test_a_compiled_model_steps_around_the_network(whole: bool):
    torch._dynamo.reset()
    seen: list[torch.fx.GraphModule] = []

    def backend(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> torch.fx.GraphModule:
        seen.append(graph)
        return graph

    plain, model = Model(whole), Model(whole)
    compiled = torch.compile(model, backend=backend)
    for frames in (6, 7):
        x = features(2, frames, 4)
        found = {name.removeprefix("_orig_mod."): value for name, value in gradients(compiled, x).items()}
        assert_alike(found, gradients(plain, x))
    operations = {str(node.target) for graph in seen for node in graph.graph.nodes if node.op.startswith("call")}
    assert len(operations) <= 6, "what is before and behind, and nothing of the network"


def test_a_compiled_module():
    torch._dynamo.reset()
    plain, module = _module(), _module()
    found = gradients(torch.compile(module, backend="eager"), features(2, 6))
    assert_alike(
        {name.removeprefix("_orig_mod."): value for name, value in found.items()}, gradients(plain, features(2, 6))
    )
    module.compile(backend="eager")
    torch.testing.assert_close(module(features(2, 6)), plain(features(2, 6)))
    torch._dynamo.reset()
    with pytest.raises(Exception, match="compiled already, by its own compiler"):
        torch.compile(plain, backend="eager", fullgraph=True)(features(2, 6))


EXPORTS = {
    "torch.export.export": lambda module, x, path: torch.export.export(module, x),
    "torch.export.export, strict": lambda module, x, path: torch.export.export(module, x, strict=True),
    "torch.jit.trace": lambda module, x, path: torch.jit.trace(module, x),
    "torch.jit.script": lambda module, x, path: torch.jit.script(module),
    "torch.fx.symbolic_trace": lambda module, x, path: torch.fx.symbolic_trace(module),
    "torch.onnx.export": lambda module, x, path: torch.onnx.export(module, x, path, verbose=False),
    "torch.onnx.export, traced": lambda module, x, path: torch.onnx.export(module, x, path, dynamo=False),
    "torch.compile": lambda module, x, path: torch.compile(module, backend="eager", fullgraph=True)(*x),
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:Exporting a model while it is in training mode")
@pytest.mark.parametrize("config", [TDNN, COMPOSITE])
@pytest.mark.parametrize("name", EXPORTS)
def test_a_module_cannot_be_exported_and_goes_on_as_if_nobody_had_tried(name: str, config: str, tmp_path: Path):
    for wrap in (*at_night(lambda module: module), nn.Sequential):
        module, plain = _module(config), _module(config)
        x = (features(2, 6),)
        for each in (module, plain):
            each(*x)
        torch._dynamo.reset()
        with pytest.raises(Exception) as info:
            EXPORTS[name](wrap(module), x, tmp_path / "module.onnx")
        if "strict" not in name and name not in ("torch.jit.script", "torch.onnx.export", "torch.compile"):
            assert isinstance(info.value, NetworkError)
            assert "a TorchModule cannot be traced or exported" in str(info.value)
        assert list(tmp_path.iterdir()) == []
        for _ in range(2):
            assert_alike(gradients(module, *x), gradients(plain, *x))
            with torch.no_grad():
                for parameter in (*module.parameters(), *plain.parameters()):
                    parameter.mul_(0.9)
        assert module.nnet.info() == plain.nnet.info()
    torch._dynamo.reset()


# ---- conversions ----


@pytest.mark.parametrize(
    ("convert", "message"),
    [
        (lambda module: module.to("meta"), "it cannot be on device 'meta', and stays as it was"),
        (lambda module: module.tdnn1.to("meta"), "it cannot be on device 'meta', and stays as it was"),
        (lambda module: module.to_empty(device="meta"), "it cannot be on device 'meta', and stays as it was"),
        (lambda module: module.type(torch.int32), r"not in torch.int32: the module stays as it was"),
        (lambda module: module.type(torch.bool), r"not in torch.bool: the module stays as it was"),
    ],
)
def test_a_conversion_that_cannot_be_changes_nothing(convert, message):
    module = _module()
    module(features(2, 6))
    module.eval()
    expected, state = module(features(2, 6)), copy.deepcopy(module.state_dict())
    with pytest.raises(NetworkError, match=message):
        convert(module)
    torch.testing.assert_close(module.state_dict(), state, rtol=0, atol=0)
    assert torch.equal(module(features(2, 6)), expected)
    assert torch.equal(module.nnet.components["tdnn2"].linear_params, state["tdnn2.linear_params"])


def test_memory_shared_with_other_processes_is_that_of_the_network():
    module = _module()
    module.share_memory()
    assert all(parameter.is_shared() for parameter in module.parameters())
    module(features(2, 6))
    tensors = [tensor for c in module.nnet.components.values() for tensor in c.parameters().values()]
    assert all(tensor.is_shared() for tensor in tensors)


# ---- files ----


def test_safetensors_save_and_load_a_module(tmp_path: Path):
    safetensors = pytest.importorskip("safetensors.torch")
    module, other = _module(), _module(seed=5)
    module(features(2, 6))
    safetensors.save_model(module, tmp_path / "model.safetensors")
    safetensors.load_model(other, tmp_path / "model.safetensors")
    torch.testing.assert_close(other.state_dict(), module.state_dict(), rtol=0, atol=0)
    assert torch.equal(module.eval()(features(2, 6)), other.eval()(features(2, 6)))
    sizes = [value.untyped_storage().nbytes() == value.nbytes for value in module.state_dict().values()]
    assert all(sizes)


def test_a_state_dict_shares_memory():
    module = _module()
    module.state_dict()["tdnn2.bias_params"].fill_(3.0)
    assert module.tdnn2.bias_params.tolist() == [3.0] * 5
    assert module.state_dict(keep_vars=True)["tdnn2.bias_params"] is module.tdnn2.bias_params


# ---- batch-norm ----


def test_update_bn_collects_statistics_anew():
    module = _module()
    for seed in range(3):
        module(features(2, 6, seed=seed))
    module.eval()
    batches = [features(2, 6, seed=10), features(3, 4, seed=11)]
    swa_utils.update_bn(batches, module)
    norm = module.nnet.components["tdnn1.norm"]
    assert norm.count == 2 * 10 + 3 * 8
    assert float(module.tdnn1.norm.count) == norm.count
    assert not module.training
    by_hand = nnet3.TorchModule(network(TDNN), batchnorm_stats_scale=1.0)
    for batch in batches:
        by_hand(batch)
    assert float(by_hand.tdnn1.norm.count) == 44
    torch.testing.assert_close(norm.stats_sum, by_hand.tdnn1.norm.stats_sum)
    module.train()(features(2, 6))
    assert norm.count == pytest.approx(0.8 * (44 + 20))


def test_update_bn_of_an_averaged_model():
    module = _module()
    averaged = swa_utils.AveragedModel(module)
    module(features(2, 6)).sum().backward()
    torch.optim.SGD(module.parameters(), lr=0.1).step()
    averaged.update_parameters(module)
    swa_utils.update_bn([features(2, 6)], averaged)
    assert averaged.module.nnet.components["tdnn1.norm"].count == 20
    torch.testing.assert_close(averaged.module.tdnn2.bias_params, module.tdnn2.bias_params)


def test_update_bn_in_composites():
    module = _module(COMPOSITE)
    with torch.enable_grad():
        module(features(2, 6)).sum().backward()
    assert module.nnet.components["both"].parts[2].count == 12
    module.both.component3.reset_running_stats()
    assert module.nnet.components["both"].parts[2].count == 0


def test_the_scale_of_statistics_can_be_set():
    module = _module()
    module.batchnorm_stats_scale = 0.5
    assert module.batchnorm_stats_scale == 0.5
    module(features(2, 6))
    assert module.nnet.components["tdnn1.norm"].count == 10


def test_batch_norm_is_not_converted():
    module = _module()
    with pytest.raises(
        NetworkError, match=r"'tdnn1.norm' cannot become a torch.nn.SyncBatchNorm.*synchronize_batch_norm"
    ):
        nn.SyncBatchNorm.convert_sync_batchnorm(module)
    assert not hasattr(module.tdnn1.norm, "num_features")
    assert module(features(2, 6)).shape == (2, 6, 5)
