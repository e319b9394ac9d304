"""Which device is taken, by --device or --use-gpu, with and without GPUs."""

from __future__ import annotations

import pytest
import torch

from nnet3.cli.device import choose_device
from nnet3.errors import Nnet3Error


@pytest.fixture(params=[0, 1, 2])
def count(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """As if there were so many GPUs."""
    count: int = request.param
    monkeypatch.setattr(torch.cuda, "is_available", lambda: count > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    return count


def test_by_use_gpu(count: int) -> None:
    assert choose_device(None, "no") == "cpu"
    for use in ("yes", "wait", "optional", None):
        if count or use in ("optional", None):
            assert choose_device(None, use) == ("cuda" if count else "cpu")
        else:
            with pytest.raises(Nnet3Error, match=f"--use-gpu={use}: PyTorch finds no CUDA device here"):
                choose_device(None, use)


def test_a_named_device_must_be_there(count: int) -> None:
    assert choose_device("cpu", "yes") == "cpu"
    for name, needed in (("cuda", 1), ("cuda:0", 1), ("cuda:1", 2)):
        if count >= needed:
            assert choose_device(name, "no") == name
        else:
            with pytest.raises(Nnet3Error, match=f"--device={name}: PyTorch finds {count or 'no'} CUDA devices here"):
                choose_device(name, "no")


def test_what_is_no_device_for_networks(count: int) -> None:
    with pytest.raises(Nnet3Error, match="--device=gpu is not a device such as cpu, cuda or cuda:1"):
        choose_device("gpu", None)
    with pytest.raises(Nnet3Error, match="--device=meta: networks run on cpu or cuda"):
        choose_device("meta", None)
