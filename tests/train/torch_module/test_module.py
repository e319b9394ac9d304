"""TorchModule as PyTorch people use modules."""

from __future__ import annotations

import copy
import io
import pickle

import pytest
import torch

import nnet3
from nnet3.errors import ArgumentError, NetworkError
from tests.shared_data import GOLDEN
from tests.train.torch_module.modules import module_of
from tests.train.torch_module.networks import ALL, DROPOUT, IVECTOR, LSTM, TDNN, features, network

# ---- frames ----


@pytest.mark.parametrize("factor", [1, 3])
@pytest.mark.parametrize("config", [TDNN, LSTM], ids=["tdnn", "lstm"])
@pytest.mark.filterwarnings("ignore:a batch-norm component in test mode has no statistics")
def test_outputs_are_those_of_compute(config, factor):
    module = module_of(config, frame_subsampling_factor=factor).eval()
    x = features(3, 11)
    lengths = torch.tensor([11, 1, 7])
    outputs = module(x, lengths=lengths)
    assert outputs.shape[:2] == (3, -(-11 // factor))
    assert outputs.is_contiguous()
    for row, length, frames in zip(range(3), lengths.tolist(), module.output_lengths(lengths).tolist(), strict=True):
        expected = module.nnet.compute(x[row, :length], frame_subsampling_factor=factor)
        assert frames == len(expected)
        torch.testing.assert_close(outputs[row, :frames], expected, atol=1e-5, rtol=1e-4)
        assert not outputs[row, frames:].any()


def test_several_outputs_by_name():
    outputs = module_of(IVECTOR)(features(2, 3), torch.ones(2, 2))
    assert {name: tuple(output.shape) for name, output in outputs.items()} == {
        "output": (2, 3, 4),
        "output-xent": (2, 3, 3),
    }
    for wanted in (["output-xent"], ("output-xent", "output-xent")):
        assert module_of(IVECTOR, outputs=wanted)(features(2, 3), torch.ones(2, 2)).shape == (2, 3, 3)


@pytest.mark.parametrize("training", [False, True])
def test_an_output_that_looks_further_than_the_first(training):
    """Of sequences of several lengths: each is what it is alone, and so are the gradients."""
    nnet = nnet3.Nnet.from_config(
        """
        input-node name=input dim=3
        component name=a type=NaturalGradientAffineComponent input-dim=6 output-dim=4
        component name=r type=TanhComponent dim=4
        component name=b type=NaturalGradientAffineComponent input-dim=8 output-dim=2
        component-node name=a component=a input=Append(Offset(input, -1), input)
        component-node name=r component=r input=a
        component-node name=b component=b input=Append(Offset(r, -2), Offset(r, 3))
        output-node name=output input=r
        output-node name=far input=b
        """,
        seed=0,
    )
    module, lengths = nnet3.TorchModule(nnet).train(training), [7, 1, 4]
    x = features(3, 7).requires_grad_()
    together = module(x, lengths=lengths)
    alone = [module(x[n : n + 1, :length]) for n, length in enumerate(lengths)]
    for name, dim in (("output", 4), ("far", 2)):
        assert together[name].shape == (3, 7, dim)
        for n, length in enumerate(lengths):
            torch.testing.assert_close(together[name][n, :length], alone[n][name][0])
    total = sum(output.square().sum() for output in together.values())
    parts = sum(output.square().sum() for each in alone for output in each.values())
    wanted = [x, *module.parameters()]
    for one, other in zip(torch.autograd.grad(total, wanted), torch.autograd.grad(parts, wanted), strict=True):
        torch.testing.assert_close(one, other)
    padded = torch.cat([x[0, :1].expand(3, 3), x[0], x[0, -1:].expand(3, 3)])
    far = (
        nnet.copy().components["b"].propagate(torch.cat([_layer(nnet, padded)[0:7], _layer(nnet, padded)[5:12]], 1))[0]
    )
    torch.testing.assert_close(together["far"][0], far)


def _layer(nnet: nnet3.Nnet, x: torch.Tensor) -> torch.Tensor:
    """The output `output` at all frames of x but the first."""
    found, _ = nnet.components["a"].propagate(torch.cat([x[:-1], x[1:]], 1).detach())
    return torch.tanh(found)


# ---- parameters ----


def test_parameters_are_the_networks_own():
    nnet = network(TDNN)
    nnet.components["tdnn1.norm"].count = 1.0
    module = nnet3.TorchModule(nnet)
    names = ["tdnn1.affine.linear_params", "tdnn1.affine.bias_params", "tdnn2.linear_params", "tdnn2.bias_params"]
    assert [name for name, _ in module.named_parameters()] == names
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    before = nnet.compute(features(1, 4)[0], frames_per_chunk=4)
    module(features(2, 4)).sum().backward()
    optimizer.step()
    for parameter, tensor in zip(
        module.parameters(), [t for c in nnet.components.values() for t in c.parameters().values()], strict=True
    ):
        assert parameter.data_ptr() == tensor.data_ptr()
    assert not torch.equal(before, nnet.compute(features(1, 4)[0], frames_per_chunk=4))  # and it warns of nothing


@pytest.mark.parametrize(
    "change",
    [
        lambda nnet, module: nnet.scale_(0.5),
        lambda nnet, module: nnet.flat_parameters()[0].mul_(0.5),
        lambda nnet, module: torch.nn.utils.vector_to_parameters(
            0.5 * torch.nn.utils.parameters_to_vector(module.parameters()), module.parameters()
        ),
        lambda nnet, module: module.load_state_dict({k: 0.5 * v for k, v in module.state_dict().items()}),
        lambda nnet, module: module.load_state_dict({k: 0.5 * v for k, v in module.state_dict().items()}, assign=True),
        lambda nnet, module: (nnet.to(torch.float64).scale_(0.5), nnet.to(torch.float32)),
        lambda nnet, module: (module.double(), nnet.scale_(0.5), module.float()),
        lambda nnet, module: [c.to(dtype=torch.float32).scale_(0.5) for c in nnet.components.values()],
    ],
    ids=["scale_", "flat", "vector_to_parameters", "load", "assign", "nnet.to", "double", "component.to"],
)
def test_network_and_module_stay_in_step(change):
    nnet = network(TDNN)
    expected = [0.5 * tensor for c in nnet.components.values() for tensor in c.parameters().values()]
    module = nnet3.TorchModule(nnet)
    with torch.no_grad():
        change(nnet, module)
    state = list(module.state_dict().values())
    module.nnet  # noqa: B018 - whoever takes the network sees what the module has
    tensors = [tensor for c in nnet.components.values() for tensor in c.parameters().values()]
    torch.testing.assert_close(tensors, expected)
    torch.testing.assert_close([value for value in state if value.dtype == torch.float32], expected)
    assert [p.data_ptr() for p in module.parameters()] == [t.data_ptr() for t in tensors]
    loss = module(features(1, 4)).sum()
    loss.backward()
    assert all(parameter.grad is not None for parameter in module.parameters())


def test_a_parameter_may_be_replaced_by_one_of_its_size():
    module, x = module_of(), features(1, 4)
    module.tdnn2.bias_params = torch.nn.Parameter(torch.arange(5.0))
    module(x).sum().backward()
    assert module.nnet.components["tdnn2"].bias_params.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert module.tdnn2.bias_params.grad is not None
    with pytest.raises(NetworkError, match=r"'bias_params' of component 'tdnn2' .* shape \(7,\), .* has \(5,\)"):
        module.tdnn2.bias_params = torch.nn.Parameter(torch.zeros(7))
    with pytest.raises(NetworkError, match="'bias_params' of component 'tdnn2' cannot be taken away"):
        module.tdnn2.bias_params = None
    module(x)
    del module.tdnn2.bias_params
    with pytest.raises(NetworkError, match="replaced by something that is no tensor"):
        module(x)


def test_constants_are_buffers(tmp_path):
    """What a file has of a network is in its state; what follows from settings is not."""
    (tmp_path / "scales").write_text("[ 2 3 ]")
    module = module_of(f"""
        input-node name=input dim=2
        component name=fixed type=FixedScaleComponent scales={tmp_path}/scales
        component-node name=fixed component=fixed input=input
        component name=lstm type=LstmNonlinearityComponent cell-dim=2
        component-node name=lstm component=lstm input=Append(fixed, fixed, fixed, fixed, fixed)
        output-node name=output input=lstm
    """)
    assert [name for name in module.state_dict() if "params" not in name] == ["fixed.scales"]
    assert module.fixed.scales is module.nnet.components["fixed"].scales
    module.double()
    assert all(buffer.dtype == torch.float64 for buffer in module.buffers())
    assert module(features(1, 2, 2).double()).dtype == torch.float64


def test_a_network_without_parameters():
    """Takes any dtype, of which the ivectors must be too."""
    config = "input-node name=input dim=2\noutput-node name=output input=Sum(input, input)"
    for dtype in (torch.float32, torch.float64):
        x = features(1, 3, 2).to(dtype)
        assert torch.equal(module_of(config)(x), 2 * x)
    both = "input-node name=ivector dim=2\n" + config.replace("(input,", "(ReplaceIndex(ivector, t, 0),")
    with pytest.raises(ArgumentError, match=r"ivectors are torch\.float64"):
        module_of(both)(features(1, 3, 2), torch.zeros(1, 2).double())


# ---- modes ----


def test_statistics_of_batch_norm():
    nnet = network(TDNN)
    module = nnet3.TorchModule(nnet, batchnorm_stats_scale=0.5)
    component, buffers = nnet.components["tdnn1.norm"], module.tdnn1.norm
    with torch.no_grad():
        module(features(2, 5))  # output at t = 0..4 needs the norm at t = -2..6
    assert component.count == 0.5 * 2 * 9 == float(buffers.count)
    assert buffers.stats_sum is component.stats_sum
    mean = component.stats_mean.clone()
    module.eval()(features(2, 5))
    module.train()
    nnet.zero_stats()
    assert float(module.state_dict()["tdnn1.norm.count"]) == 0.0  # who looks at the module sees what the network has
    with torch.no_grad():
        module(features(2, 5))
    module.tdnn1.norm.eval()  # the usual way to leave statistics alone while the rest learns
    module(features(2, 5, seed=2)).sum().backward()
    assert component.count == 9.0
    assert torch.equal(mean, component.stats_mean)
    assert not component.test_mode  # the network's own mode stays as it was
    usual = module_of()
    usual(features(2, 5))
    assert float(usual.tdnn1.norm.count) == pytest.approx(0.8 * 2 * 9)


def test_eval_normalises_by_the_statistics():
    nnet = network(TDNN)
    module = nnet3.TorchModule(nnet)
    for seed in range(3):
        module(features(4, 5, seed=seed))
    module.eval()
    x = features(1, 5)
    torch.testing.assert_close(module(x)[0].detach(), nnet.compute(x[0]), atol=1e-5, rtol=1e-4)
    module.tdnn1.norm.count.fill_(0.0)
    with pytest.warns(RuntimeWarning, match="no statistics"):
        module(x)
    assert nnet.components["tdnn1.norm"].count == 0.0


def test_dropout_follows_the_seed_of_torch_and_ends_in_eval():
    module = module_of(DROPOUT)
    x = features(2, 3, 4)
    torch.manual_seed(1)
    first = module(x)
    assert 0.3 < float((first == 0).float().mean()) < 0.7
    assert not torch.equal(first, module(x))
    torch.manual_seed(1)
    assert torch.equal(first, module(x))
    module.eval()
    assert torch.equal(module(x), module(x))
    module.train()
    module.nnet.components["dropout"].set_dropout_proportion(0.0)
    assert not (module(x) == 0).any()


# ---- copies ----


@pytest.mark.parametrize("how", ["deepcopy", "pickle", "torch.save"])
@pytest.mark.parametrize("config", ALL.values(), ids=ALL)
def test_copies_are_independent(config, how):
    module = module_of(config)
    inputs = [features(2, 5)] + ([torch.ones(2, 2)] if config is IVECTOR else [])
    first = next(module.parameters()).requires_grad_(False)
    module(*inputs)
    if how == "deepcopy":
        twin = copy.deepcopy(module)
    elif how == "pickle":
        twin = pickle.loads(pickle.dumps(module))
    else:
        file = io.BytesIO()
        torch.save(module, file)
        file.seek(0)
        twin = torch.load(file, weights_only=False)
    assert not next(twin.parameters()).requires_grad
    assert next(iter(twin.nnet.components.values())).parameters()["linear_params"].data_ptr() != first.data_ptr()
    torch.testing.assert_close(twin.state_dict(), module.state_dict(), atol=0, rtol=0)
    for each in (module, twin):
        each.double()
        torch.manual_seed(0)
    inputs = [tensor.double() for tensor in inputs]
    torch.testing.assert_close(twin(*inputs), module(*inputs), atol=0, rtol=0)
    with torch.no_grad():
        for parameter in twin.parameters():
            parameter.zero_()
    assert first.any()
    assert not any(t.any() for c in twin.nnet.components.values() for t in c.parameters().values())


def test_a_pickle_has_the_parameters_once():
    module = module_of()
    size = 4 * sum(parameter.numel() for parameter in module.parameters())
    for name in range(20):
        module.register_buffer(f"more{name}", None)
    large = nnet3.TorchModule(nnet3.Nnet.from_xconfig("input name=input dim=300\noutput-layer name=output dim=300"))
    large_size = 4 * sum(parameter.numel() for parameter in large.parameters())
    assert len(pickle.dumps(large)) - len(pickle.dumps(module)) < 2 * (large_size - size)


@pytest.mark.parametrize("assign", [False, True])
def test_state_dict_brings_everything(assign):
    nnet = network(TDNN, seed=5)
    module, other = module_of(), nnet3.TorchModule(nnet)
    module(features(2, 5))
    state = module.state_dict()
    assert {"tdnn1.norm.count", "tdnn1.norm.stats_sum", "tdnn1.norm.stats_sumsq"} < set(state)
    other.load_state_dict({name: value.clone() for name, value in state.items()}, assign=assign)
    norms = [each.components["tdnn1.norm"] for each in (module.nnet, nnet)]
    assert torch.equal(nnet.components["tdnn2"].linear_params, module.tdnn2.linear_params)  # at once
    assert norms[0].count == norms[1].count > 0
    assert torch.equal(norms[0].stats_sumsq, norms[1].stats_sumsq)
    assert other.tdnn1.norm.stats_sum is norms[1].stats_sum
    x = features(1, 4)
    assert torch.equal(module.eval()(x), other.eval()(x))
    with pytest.raises(RuntimeError, match="size mismatch"):
        other.load_state_dict({**state, "tdnn2.bias_params": torch.zeros(7)})
    with pytest.raises(RuntimeError, match="Missing key"):
        other.load_state_dict({})


def test_part_of_a_larger_module():
    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.front = torch.nn.Linear(8, 3)
            self.network = module_of()
            self.head = torch.nn.Linear(5, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(self.network(self.front(x)))

    model = copy.deepcopy(Model())
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    x, target = features(4, 6, 8), features(4, 6, 2, seed=3)
    losses = []
    for _ in range(30):
        optimizer.zero_grad()
        loss = (model(x) - target).square().mean()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        assert torch.isfinite(norm)
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]


# ---- dtypes ----


def test_double_and_back():
    module = module_of()
    module(features(2, 5))
    count, x = module.tdnn1.norm.count.clone(), features(1, 4)
    single = module.eval()(x)
    module.double()
    assert module.tdnn1.affine.linear_params.dtype == torch.float64
    assert module.nnet.components["tdnn2"].linear_params.dtype == torch.float64
    torch.testing.assert_close(module(x.double()).float(), single, atol=1e-5, rtol=1e-4)
    module.float().bfloat16()
    statistics = module.tdnn1.norm.stats_sum
    assert statistics.dtype == torch.float64  # running sums are never rounded
    assert torch.equal(module.tdnn1.norm.count, count)
    low = module(x.bfloat16())
    assert low.dtype == torch.bfloat16
    torch.testing.assert_close(low.float(), single, atol=0.1, rtol=0.1)
    low.float().sum().backward()
    assert module.tdnn2.linear_params.grad.dtype == torch.bfloat16


def test_autocast_computes_in_the_dtype_of_the_parameters():
    module = module_of()
    x = features(2, 5)
    expected = module(x)
    with torch.autocast("cpu", torch.bfloat16):
        output = module(x.bfloat16().float())
        also = module(x.bfloat16())
        mixed = torch.nn.functional.linear(output, torch.ones(2, 5))
    assert output.dtype == also.dtype == torch.float32
    assert mixed.dtype == torch.bfloat16
    torch.testing.assert_close(output, also, atol=0, rtol=0)
    torch.testing.assert_close(output, expected, atol=0.05, rtol=0.05)
    mixed.float().sum().backward()
    assert all(torch.isfinite(parameter.grad).all() for parameter in module.parameters())


# ---- files ----


def test_back_to_kaldi(tmp_path):
    am = nnet3.load(GOLDEN / "mdl" / "1" / "final.mdl")
    module = nnet3.TorchModule(am)
    dim = am.nnet.node_dim("input")
    ivectors = [torch.zeros(1, am.nnet.node_dim("ivector"))] if "ivector" in am.nnet.input_names else []
    optimizer = torch.optim.SGD(module.parameters(), lr=1e-3)
    module(features(1, 20, dim), *ivectors).sum().backward()
    optimizer.step()
    module.nnet.save(tmp_path / "tuned.mdl")
    tuned = nnet3.load(tmp_path / "tuned.mdl")
    assert isinstance(tuned, nnet3.AcousticModel)
    assert tuned.transition_model.num_pdfs == am.transition_model.num_pdfs
    for name, component in am.nnet.components.items():
        for key, tensor in component.parameters().items():
            assert torch.equal(tuned.nnet.components[name].parameters()[key], tensor)


def test_a_raw_network_to_a_file(tmp_path):
    module = module_of()
    module.eval().nnet.save(tmp_path / "tuned.raw")
    again = nnet3.load(tmp_path / "tuned.raw")
    assert torch.equal(again.components["tdnn2"].linear_params, module.tdnn2.linear_params)
    assert not again.components["tdnn1.norm"].test_mode


# ---- errors ----


def test_a_network_that_has_got_other_components():
    for change in (
        "component name=tdnn2 type=TdnnComponent input-dim=6 output-dim=5 time-offsets=0",
        "component name=more type=NoOpComponent dim=5",
        "output-node name=output input=tdnn2",
    ):
        nnet = network(TDNN)
        module = nnet3.TorchModule(nnet)
        nnet.apply_config(change)
        with pytest.raises(NetworkError, match="make a new TorchModule"):
            module(features(1, 4))
