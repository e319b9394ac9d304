"""Files of networks: their types of numbers. What else is in them: `test_text_form`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from nnet3 import cn
from nnet3.errors import ModelFormatError
from tests.seeds import RANDOM

X = {"x": np.array([[1.0, -1.0, 2.0], [0.5, 3.0, 0.1]])}


def reread_in(folder: Path, network: cn.Network) -> cn.Network:
    cn.save(network, folder / "net.cn")
    return cn.load(folder / "net.cn")


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_files_say_the_type(dtype, tmp_path) -> None:
    net = reread_in(tmp_path, cn.Network(outputs={"y": cn.tanh(cn.input("x", 2))}, dtype=dtype))
    assert net.dtype == dtype
    assert net.evaluate("y", X).dtype == str(dtype).removeprefix("torch.")


def test_files_of_float64_have_all_digits_of_components(tmp_path) -> None:
    h = cn.component("BatchNormComponent dim=2", cn.input("x", 2), name="norm")
    h = cn.component("NaturalGradientAffineComponent input-dim=2 output-dim=3 param-stddev=1", h, name="affine")
    net = cn.Network(cn.squared_norm(h), {"h": h}, dtype=torch.float64)
    cn.train(net, [{"x": RANDOM.normal(size=(2, 7))}], learning_rate=0.03, epochs=3)
    again = reread_in(tmp_path, net)
    np.testing.assert_array_equal(again.evaluate("h", X), net.evaluate("h", X), strict=True)
    assert again.to(torch.float32).evaluate("h", X).dtype == np.float32


def test_files_of_unknown_types(tmp_path) -> None:
    cn.save(cn.Network(outputs=[cn.tanh(cn.input("x", 2))]), tmp_path / "net.cn")
    data = (tmp_path / "net.cn").read_bytes()
    (tmp_path / "net.cn").write_bytes(data.replace(b'"dtype":"float32"', b'"dtype":"float99"'))
    with pytest.raises(ModelFormatError, match="expected a network of float16, float32, float64, got 'float99'"):
        cn.load(tmp_path / "net.cn")
