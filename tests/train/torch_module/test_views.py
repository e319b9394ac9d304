"""The network as the module runs it: frozen parts, modes, no self-repair."""

from __future__ import annotations

import pytest
import torch

import nnet3
from nnet3.training.train.torch_module.layout import BatchShape
from tests.train.torch_module.modules import module_of
from tests.train.torch_module.networks import COMPOSITE, LSTM, TDNN, features, network

# ---- frames ----


# ---- parameters ----


def test_frozen_components_do_nothing():
    nnet = network(TDNN)
    module = nnet3.TorchModule(nnet)
    module.tdnn1.requires_grad_(False)
    before = [parameter.clone() for parameter in module.parameters()]
    whole = module_of()
    x = features(2, 6)
    for each in (module, whole):
        each(x).square().sum().backward()
    assert module.tdnn1.affine.linear_params.grad is None
    torch.testing.assert_close(module.tdnn2.linear_params.grad, whole.tdnn2.linear_params.grad)
    program = next(iter(module._programs._programs.values()))
    text = str(program.idle[0].computer.computation)
    assert "tdnn2.Backprop(m3, [], m7, [])" in text  # the derivative goes no further than what learns
    assert "tdnn1" not in text.partition("end of segment")[2]
    torch.optim.SGD(module.parameters(), lr=0.1).step()
    changed = [not torch.equal(a, b) for a, b in zip(before, module.parameters(), strict=True)]
    assert changed == [False, False, True, True]


def test_half_of_a_component_frozen():
    module, whole = module_of(), module_of()
    module.tdnn2.bias_params.requires_grad_(False)
    for each in (module, whole):
        each(features(2, 6)).square().sum().backward()
    assert module.tdnn2.bias_params.grad is None
    torch.testing.assert_close(module.tdnn2.linear_params.grad, whole.tdnn2.linear_params.grad)


# ---- modes ----


def test_settings_changed_later_are_seen():
    module = module_of(LSTM)
    x = features(1, 5)
    before = module(x)
    component = module.nnet.components["drop"]
    component.set_test_mode(True)
    torch.testing.assert_close(module(x), before)
    norm = module_of(TDNN)
    one = norm(x)
    norm.nnet.components["tdnn1.norm"].epsilon = 10.0
    assert not torch.equal(one, norm(x))
    inner = module_of(COMPOSITE)
    one = inner(x)
    inner.nnet.components["both"].parts[2].epsilon = 10.0
    assert not torch.equal(one, inner(x))


def test_self_repair_and_statistics_are_left_out():
    nnet = network(TDNN)
    module = nnet3.TorchModule(nnet)
    for _ in range(3):
        module(features(2, 5)).sum().backward()
    assert nnet.components["tdnn1.relu"].count == 0
    nnet = network(LSTM)
    module = nnet3.TorchModule(nnet)
    module(features(2, 5)).sum().backward()
    assert nnet.components["nonlin"].count == 0
    (program,) = module._programs._programs.values()
    assert not program.request(program.idle[0].view, BatchShape(2, 5)).store_component_stats, (
        "nothing is computed in vain"
    )


@pytest.mark.parametrize(
    ("unit", "dim", "threshold"),
    [("LstmNonlinearityComponent", 10, "tanh"), ("OutputGruNonlinearityComponent", 6, "")],
    ids=["lstm", "gru"],
)
def test_gradients_have_no_self_repair(unit, dim, threshold):
    """Of units that would be repaired in any other training."""
    found = []
    key = f"{threshold}-self-repair-threshold".removeprefix("-")
    for scale in (0.0, 0.05):
        nnet = network(f"""
            input-node name=input dim=3
            component name=affine type=AffineComponent input-dim=3 output-dim={dim}
            component-node name=affine component=affine input=input
            component name=unit type={unit} cell-dim=2 self-repair-scale={scale} {key}=0.9
            component-node name=unit component=unit input=affine
            output-node name=output input=unit
        """)
        module = nnet3.TorchModule(nnet)
        torch.manual_seed(1)
        for _ in range(6):
            module(10 * features(2, 5)).square().sum().backward()
        found.append([parameter.grad for parameter in module.parameters()])
    torch.testing.assert_close(found[0], found[1], atol=0, rtol=0)


def test_batch_norm_in_a_composite():
    nnet = network(COMPOSITE)
    module = nnet3.TorchModule(nnet)
    assert [name for name, _ in module.named_parameters()][2:] == [
        "both.component1.linear_params",
        "both.component1.bias_params",
    ]
    module(features(2, 5)).sum().backward()
    norm = nnet.components["both"].parts[2]
    assert norm.count == 10
    module.eval()
    module(features(2, 5))
    assert float(module.both.component3.count) == 10
    assert nnet.components["both"].parts[1].count == 0


# ---- copies ----


# ---- dtypes ----


# ---- files ----


# ---- errors ----
