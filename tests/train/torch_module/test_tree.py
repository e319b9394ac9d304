"""Names of components as names of modules."""

from __future__ import annotations

import pytest

import nnet3
from nnet3.training.train.torch_module.component_module import ComponentModule
from tests.train.torch_module.networks import features


def _chain(*names: str) -> nnet3.TorchModule:
    """A network of affine components of these names, one after the other."""
    lines, previous = ["input-node name=input dim=3"], "input"
    for number, name in enumerate(names):
        lines.append(f"component name={name} type=AffineComponent input-dim=3 output-dim=3")
        lines.append(f"component-node name=n{number} component={name} input={previous}")
        previous = f"n{number}"
    return nnet3.TorchModule(nnet3.Nnet.from_config("\n".join([*lines, f"output-node name=output input={previous}"])))


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["tdnn1.affine", "tdnn1.more", "output"], ["tdnn1.affine", "tdnn1.more", "output"]),
        (["tdnn1", "tdnn1.affine"], ["tdnn1", "tdnn1.affine"]),
        (["tdnn1.affine", "tdnn1"], ["tdnn1.affine", "tdnn1"]),
        (["forward", "lstm1.forward", "training"], ["forward_", "lstm1.forward_", "training_"]),
        (["forward", "forward_", "forward.a", "forward_.a"], ["forward_", "forward__", "forward_.a", "forward_.a_"]),
        (["a..b", "a."], ["a._.b", "a._"]),
        (["nnet", "nnet.type"], ["nnet_", "nnet_.type_"]),
        (["a", "a.linear_params"], ["a", "a.linear_params_"]),
        (["prefinal-l", "a_b.c-d"], ["prefinal-l", "a_b.c-d"]),
    ],
    ids=str,
)
def test_names_become_a_tree_of_modules(names, expected):
    module = _chain(*names)
    found = {name: each.component_name for name, each in module.named_modules() if isinstance(each, ComponentModule)}
    assert found == dict(zip(expected, names, strict=True))
    for name, own in zip(expected, names, strict=True):
        parameter = module.get_parameter(f"{name}.bias_params")
        assert parameter.data_ptr() == module.nnet.components[own].bias_params.data_ptr()
    assert len(list(module.parameters())) == 2 * len(names)
    module(features(2, 3)).sum().backward()
    assert all(parameter.grad is not None for parameter in module.parameters())
