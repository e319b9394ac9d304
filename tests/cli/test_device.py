"""Which device is taken, by --device or --use-gpu, with and without GPUs."""

from __future__ import annotations

import pytest
import torch

from nnet3.cli.device import choose_device
from nnet3.errors import Nnet3Error
from tests.cli.run_command import Cli


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


def test_what_scripts_ask_before_they_train(monkeypatch: pytest.MonkeyPatch, cli: Cli) -> None:
    monkeypatch.setattr(torch.version, "cuda", None)
    assert (cli("cuda-compiled").status, cli("cuda-gpu-available").status) == (1, 1)
    monkeypatch.setattr(torch.version, "cuda", "12.8")
    assert cli("cuda-compiled").status == 0
    made = torch.randn

    def on_cpu(*shape: int, device: str) -> torch.Tensor:
        assert device == "cuda"
        return made(*shape)

    monkeypatch.setattr(torch, "randn", on_cpu)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "a GPU")
    assert (cli("cuda-gpu-available").status, "a GPU computes" in cli("cuda-gpu-available").err) == (0, True)

    def fails(*shape: int, device: str) -> torch.Tensor:
        raise RuntimeError("no CUDA-capable device is detected\nand more")

    monkeypatch.setattr(torch, "randn", fails)
    outcome = cli("cuda-gpu-available")
    assert (outcome.status, outcome.err) == (255, "nnet3: no GPU can be used: no CUDA-capable device is detected\n")
