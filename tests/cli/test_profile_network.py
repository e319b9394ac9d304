"""What is profiled: the request, the mode, how often, and what is told."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import click
import numpy as np
import pytest
import torch

from nnet3.cli import profile_network as module
from nnet3.model.nnet import Nnet
from nnet3.model.requests import ComputationRequest
from tests.cli.run_command import CONFIG, IVECTOR_CONFIG, NORM_CONFIG, Cli

LOOKAHEAD = CONFIG.replace("Append(Offset(input, -1), input)", "Append(Offset(input, -1), Offset(input, 2))")


def _rows(io: Any) -> list[list[int]]:
    return np.asarray(io.indexes)[:, :2].tolist()


@pytest.mark.parametrize("train", [False, True])
def test_the_request_asks_for_so_many_frames(train: bool) -> None:
    nnet = Nnet.from_config(LOOKAHEAD)
    request = module._request(nnet, num_sequences=2, frames=3, factor=4, train=train)
    (given,), (wanted,) = request.inputs, request.outputs
    assert (given.name, wanted.name) == ("input", "output")
    assert _rows(wanted) == [[n, t] for t in (0, 4, 8) for n in (0, 1)]
    assert _rows(given) == [[n, t] for t in range(-1, 11) for n in (0, 1)]
    flags = (wanted.has_deriv, request.need_model_derivative, request.store_component_stats, given.has_deriv)
    assert flags == (train, train, train, False)


def test_an_ivector_for_each_sequence() -> None:
    request = module._request(Nnet.from_config(IVECTOR_CONFIG), num_sequences=3, frames=1, factor=1, train=False)
    assert [io.name for io in request.inputs] == ["input", "ivector"]
    assert _rows(request.inputs[1]) == [[0, 0], [1, 0], [2, 0]]


def test_how_many_rows_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    nnet = Nnet.from_config(LOOKAHEAD)
    monkeypatch.setattr(module, "MAX_ROWS", 2 * (1 + 12 + 2))
    assert isinstance(module._request(nnet, 2, 3, 4, False), ComputationRequest)
    monkeypatch.setattr(module, "MAX_ROWS", 2 * (1 + 12 + 2) - 1)
    with pytest.raises(click.UsageError, match="30 rows are too many: at most 29"):
        module._request(nnet, 2, 3, 4, False)


def test_what_is_told(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=itertools.count(5, 2).__next__))
    profiles: list[tuple[Any, int]] = []

    def profile(computer: Any, repeats: int) -> Any:
        profiles.append((computer, repeats))
        return SimpleNamespace(seconds=1.25, table=lambda keys, limit: f"by {keys} {limit}", write_trace=None)

    monkeypatch.setattr(module, "profile", profile)
    outcome = cli.good("profile", "--repeats=4", "--limit=6", "--by=node,kind", "--frames=2", "net.raw")
    ((computer, repeats),) = profiles
    plan = computer.plan
    assert repeats == 4
    assert outcome.out == "by ['node', 'kind'] 6\n"
    assert outcome.err == (
        f"nnet3: {len(computer.computation.commands)} commands, {plan.num_calls} calls, {plan.num_bytes / 1e6:.1f} MB; "
        "compiled in 2.000 s, planned in 2.000 s, one run 1.2500 s\n"
    )
    assert not computer.computation.need_model_derivative
    cli.good("profile", "--optimize=false", "--frames=2", "net.raw")
    assert profiles[1][1] == 3
    names = [[type(command).__name__ for command in each.computation.commands] for each, _ in profiles]
    assert sorted(names[0]) == sorted(names[1])
    assert names[0] != names[1]  # memory is taken where it is needed


def test_a_network_that_is_not_trained_is_in_test_mode(cli: Cli) -> None:
    nnet = Nnet.from_config(NORM_CONFIG)
    norm, x = nnet.components["norm"], torch.randn(20, 3)
    norm.store_stats(x, *norm.propagate(x))
    nnet.save("norm.raw")
    assert "BatchNorm" in cli.good("profile", "--train=true", "--frames=2", "norm.raw").out
    assert "BatchNorm" not in cli.good("profile", "--frames=2", "norm.raw").out
