"""Runs of computational networks: validation, schedules, patience, folders that are gone on with to the same bits."""

from __future__ import annotations

import itertools
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset

from nnet3 import cn
from nnet3.cn.network_in_training import NetworkInTraining
from nnet3.errors import ModelFormatError, Nnet3Error, TrainingError
from nnet3.training.runs.packing import load_parts, save_parts
from tests.effort import at_night

NUMBERS = np.random.default_rng(3)
X = NUMBERS.normal(size=(3, 30))
Y = np.tanh(NUMBERS.normal(size=(2, 3)) @ X)
BATCHES = [{"x": X[:, i : i + 6], "y": Y[:, i : i + 6]} for i in range(0, 24, 6)]
HELD_OUT = [{"x": X[:, 24:], "y": Y[:, 24:]}]


def network(seed: int = 0) -> cn.Network:
    """With dropout, and batch-norm, whose statistics are learnt too."""
    x, y = cn.input("x", 3), cn.input("y", 2)
    h = cn.dropout(0.2, cn.tanh(cn.batch_norm(cn.macros.affine(x, 8, name="in"), name="norm")))
    o = cn.macros.affine(h, 2, name="out")
    far = cn.sum_elements(cn.sum_rows(cn.abs(o - y)), name="far")
    return cn.Network(cn.square_error(o, y, name="J"), {"far": far}, seed=seed)


def numbers(net: cn.Network) -> dict[str, np.ndarray]:
    statistics = net.find("norm").operation.component
    return {**net.parameters(), "sum": statistics.stats_sum.numpy(), "sumsq": statistics.stats_sumsq.numpy()}


def assert_same(net: cn.Network, other: cn.Network) -> None:
    theirs = numbers(other)
    for name, value in numbers(net).items():
        np.testing.assert_array_equal(value, theirs[name], err_msg=name)


def assert_same_parameters(net: cn.Network, other: cn.Network) -> None:
    for name, value in net.parameters().items():
        np.testing.assert_array_equal(value, other.parameters()[name], err_msg=name)


def events(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]


def test_validation_is_in_test_mode_and_beside_the_history() -> None:
    net, seen = network(), list[float]()

    def report(epoch: int, criterion: float) -> None:
        seen.append(net.criterion(HELD_OUT[0]) / 6)

    history = cn.train(net, BATCHES, epochs=3, metrics="far", validation=HELD_OUT, report=report)
    assert history.validation["criterion"] == pytest.approx(seen)
    assert len(history.validation["far"]) == len(history.metrics["far"]) == len(history) == 3
    assert history.validation["far"][-1] == pytest.approx(float(net.evaluate("far", HELD_OUT[0])) / 6)


class Stream(IterableDataset[Any]):
    """Minibatches without a length; a loader of them has a `__len__` that raises TypeError."""

    def __iter__(self) -> Iterator[Any]:
        return iter(BATCHES)


def test_rates_that_change(monkeypatch: pytest.MonkeyPatch) -> None:
    rates: list[float] = []
    monkeypatch.setattr(NetworkInTraining, "set_learning_rate", lambda model, rate: rates.append(rate))
    cn.train(network(), BATCHES, learning_rate=(0.2, 0.002), epochs=2)
    assert rates == pytest.approx([0.2 * 0.01 ** (step / 8) for step in range(8)])
    rates.clear()
    cn.train(network(), lambda: iter(BATCHES), learning_rate=lambda done: 1 - done, epochs=3)
    assert rates == pytest.approx([1 - step / 12 for step in range(12)])  # what a function gives was counted before
    rates.clear()
    cn.train(network(), DataLoader(Stream(), batch_size=None), learning_rate=(0.2, 0.002), epochs=2)
    assert rates == pytest.approx([0.2 * 0.01 ** (step / 8) for step in range(8)])
    net = network()
    optimizer = torch.optim.SGD(net.tensors().values(), lr=0.5)
    cn.train(net, BATCHES, optimizer)
    assert optimizer.param_groups[0]["lr"] == 0.5
    cn.train(net, BATCHES, optimizer, learning_rate=(0.3, 0.1))
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.3 * (1 / 3) ** 0.75)


def test_patience_ends_training_with_the_best_epoch() -> None:
    """The held-out minibatch is learnt from until epoch 4; then others pull the parameters away."""
    w = cn.parameter("w", (1, 1), 0.0)
    x, y = cn.input("x", 1), cn.input("y", 1)
    net = cn.Network(cn.square_error(w @ x, y), dtype=torch.float64)
    one = {"x": np.ones((1, 1)), "y": np.ones((1, 1))}
    epochs = itertools.count()
    seen: list[float] = []

    def minibatches() -> Iterator[dict[str, np.ndarray]]:
        yield one if next(epochs) < 4 else {"x": np.ones((1, 1)), "y": np.full((1, 1), -9.0)}

    def report(epoch: int, criterion: float) -> None:
        seen.append(w.value.item())

    history = cn.train(net, minibatches, epochs=99, validation=[one], patience=3, report=report)
    assert len(history) == len(history.validation["criterion"]) == 7
    assert w.value.item() == seen[3] == max(seen)
    with pytest.raises(TrainingError, match="patience needs held-out minibatches"):
        cn.train(net, [one], patience=3)


def test_held_out_minibatches_that_are_not_finite_are_no_better() -> None:
    """Neither than others, nor are others measured by them."""
    epochs = itertools.count()

    def held_out() -> Iterator[dict[str, np.ndarray]]:
        yield {**HELD_OUT[0], "x": HELD_OUT[0]["x"] * (np.nan if next(epochs) in (0, 3) else 1.0)}

    history = cn.train(network(), BATCHES, epochs=5, learning_rate=0.01, validation=held_out, patience=3)
    assert np.isnan(history.validation["criterion"]).tolist() == [True, False, False, True, False]
    bad = [{**batch, "x": np.full((3, 6), np.nan)} for batch in BATCHES]
    history = cn.train(network(), bad, metrics="far", max_skipped=9)
    assert np.isnan([*history, *history.metrics["far"]]).all()
    never = [{**HELD_OUT[0], "x": np.full((3, 6), np.nan)}]
    assert len(cn.train(network(), BATCHES, epochs=9, validation=never, patience=3)) == 3


def test_a_run_keeps_numbers_of_any_kind_and_may_have_no_epoch(tmp_path: Path) -> None:
    quiet: dict[str, Any] = {"curves": False, "tensorboard": False, "momentum": np.float32(0.5)}
    rates, own = (np.float32(0.25), np.float32(0.125)), {"in.*": {"l2": np.float32(0.5)}}
    for epochs, name in ((0, "none"), (1, "one")):
        net = network()
        cn.train(net, BATCHES, epochs=epochs, learning_rate=rates, parameters=own, folder=tmp_path / name, **quiet)
        assert_same_parameters(cn.load(tmp_path / name / "final.cn"), net)
    one = {"learning_rate": np.float32(0.25), "folder": tmp_path / "fixed", **quiet}
    cn.train(network(), BATCHES, **one)
    assert cn.train(network(), BATCHES, resume=True, **one | {"learning_rate": 0.25})


class Killed(BaseException):
    """In the place of SIGKILL: nothing is written any more."""


OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {"learning_rate": (0.3, 0.1), "metrics": "far", "validation": HELD_OUT},
    "momentum": {"momentum": 0.6, "max_change": 0.05, "l2": 1e-3, "clip_norm": 0.4},
    "backstitch": {"backstitch_training_scale": 0.3, "backstitch_training_interval": 2, "natural_gradient": True},
    "patience": {"validation": HELD_OUT, "patience": 1, "learning_rate": 2.0},
}
OPTIMIZERS: dict[str, Any] = {
    "adam": lambda tensors: torch.optim.AdamW(tensors, lr=0.05),
    "lbfgs": lambda tensors: torch.optim.LBFGS(tensors, max_iter=3),
}


def trained(kind: str, folder: Path | None, minibatches: Any = BATCHES, **more: Any) -> tuple[cn.Network, Any]:
    net = network()
    made = OPTIMIZERS.get(kind)
    optimizer = None if made is None else made(list(net.tensors().values()))
    options = {"epochs": 4, "curves": False, "tensorboard": False, **OPTIONS.get(kind, {}), **more}
    return net, cn.train(net, minibatches, optimizer, folder=folder, **options)


def kill_after(steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process goes after so many minibatches."""
    count, begin = itertools.count(), NetworkInTraining.begin

    def counted(model: NetworkInTraining, minibatch: Any) -> int:
        if next(count) == steps:
            raise Killed
        return begin(model, minibatch)

    monkeypatch.setattr(NetworkInTraining, "begin", counted)


@pytest.mark.parametrize("kind", [*OPTIONS, *OPTIMIZERS])
def test_what_is_resumed_ends_with_the_same_bits(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, expected = trained(kind, tmp_path / "whole", checkpoint_every=3)
    for steps in (5, *at_night(7)):
        folder = tmp_path / str(steps)
        with monkeypatch.context() as patch:
            kill_after(steps, patch)
            with pytest.raises(Killed):
                trained(kind, folder, checkpoint_every=3)
        net, history = trained(kind, folder, checkpoint_every=3, resume=True)
        assert_same(net, whole)
        assert (history, history.metrics, history.validation) == (expected, expected.metrics, expected.validation)
        assert_same_parameters(cn.load(folder / "final.cn"), whole)
        again, _ = trained(kind, folder, checkpoint_every=3, resume=True)  # nothing is left to do
        assert_same(again, whole)
    alone, history = trained(kind, None)
    assert_same(alone, whole)
    assert history == expected


def reader(seed: int = 1) -> cn.Minibatches:
    lengths = (3, 1, 4, 2, 5, 2, 3)
    ends = np.cumsum(lengths)
    data = {n: [a[:, e - t : e] for e, t in zip(ends, lengths, strict=True)] for n, a in (("x", X), ("y", Y))}
    return cn.Minibatches(data, 6, seed=seed)


@pytest.mark.parametrize("make", [reader, lambda: lambda: iter(BATCHES)], ids=["reader", "function"])
def test_readers_go_on_within_an_epoch_and_functions_after_one(
    make: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: dict[str, Any] = {"checkpoint_every": 1, "learning_rate": (0.3, 0.1)}
    whole, expected = trained("plain", tmp_path / "whole", make(), **options)
    for steps in (5, *at_night(6), 7):
        folder = tmp_path / str(steps)
        with monkeypatch.context() as patch:
            kill_after(steps, patch)
            with pytest.raises(Killed):
                trained("plain", folder, make(), **options)
        net, history = trained("plain", folder, make(), resume=True, **options)
        assert_same(net, whole)
        assert history == expected
        (resumed,) = [event["step"] for event in events(folder) if event["event"] == "resume"]
        assert resumed == (steps if make is reader else 4)


def test_the_log_tells_criterion_and_metrics(tmp_path: Path) -> None:
    _, history = trained("plain", tmp_path, print_every=4, validate_every=3)
    told = events(tmp_path)
    assert [event["event"] for event in told[:2]] == ["start", "settings"]
    train = [event for event in told if event["event"] == "train"]
    assert [(event["step"], event["samples"]) for event in train] == [(4, 24), (8, 24), (12, 24), (16, 24)]
    assert [event["criterion"] for event in train] == pytest.approx(list(history))
    assert [event["far"] for event in train] == pytest.approx(history.metrics["far"])
    valid = [(event["step"], event["far"]) for event in told if event["event"] == "valid"]
    assert [step for step, _ in valid] == [3, 4, 6, 8, 9, 12, 12, 15, 16]
    assert [event["criterion"] for event in told if event["event"] == "epoch"] == pytest.approx(list(history))
    assert told[-1]["event"] == "final"
    loaded = cn.load(tmp_path / "final.cn")
    assert loaded.criterion(HELD_OUT[0]) == pytest.approx(6 * history.validation["criterion"][-1])


def test_curves_and_scalars(tmp_path: Path) -> None:
    trained("plain", tmp_path, print_every=2, curves=True, tensorboard=True)
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert list((tmp_path / "tensorboard").glob("events*"))


@pytest.mark.parametrize("kind", ["momentum", "adam"])
def test_more_epochs_go_on_with_those_that_there_were(kind: str, tmp_path: Path) -> None:
    """Unless the learning rate falls, which depends on how many there are."""
    whole, expected = trained(kind, None)
    trained(kind, tmp_path, epochs=2)
    resumed, history = trained(kind, tmp_path, resume=True)
    assert_same_parameters(resumed, whole)
    assert history == expected
    assert_same_parameters(cn.load(tmp_path / "final.cn"), whole)
    trained("plain", tmp_path / "falls", epochs=2)
    with pytest.raises(Nnet3Error, match="epochs: was 2, now 4"):
        trained("plain", tmp_path / "falls", resume=True)


def test_folders_that_cannot_be_gone_on_with(tmp_path: Path) -> None:
    trained("plain", tmp_path)
    with pytest.raises(Nnet3Error, match="which has come to minibatch 16: say resume=True"):
        trained("plain", tmp_path)
    with pytest.raises(Nnet3Error, match=r"has changed:\n  momentum: was 0\.0, now 0\.5\nchange it back, or choose"):
        trained("plain", tmp_path, resume=True, momentum=0.5)
    with pytest.raises(Nnet3Error, match=r"learning_rate: was .*, now 0\.7"):
        trained("plain", tmp_path, resume=True, learning_rate=0.7)
    x, y = cn.input("x", 3), cn.input("y", 2)
    other = cn.Network(cn.square_error(cn.parameter("W", (2, 3)) @ x, y))
    with pytest.raises(Nnet3Error, match="network: was"):
        cn.train(other, BATCHES, folder=tmp_path, resume=True)


def test_an_error_is_in_the_log(tmp_path: Path) -> None:
    bad = [*BATCHES[:2], {**BATCHES[2], "x": np.full((3, 6), np.nan)}]
    with pytest.raises(TrainingError, match="epoch 1, after 12 samples: the criterion is nan"):
        trained("momentum", tmp_path, bad)
    assert events(tmp_path)[-1]["event"] == "error"


def test_networks_are_frozen_cloned_and_shared_between_runs(tmp_path: Path) -> None:
    """Each run is that of a network made anew with the numbers of now."""
    net = network()
    cn.train(net, BATCHES, momentum=0.5)
    net.freeze("in.*")
    kept = net.parameters()["in.W"]
    other = net.copy()
    for each in (net, other):
        each.seed_random(5)
        cn.train(each, BATCHES, momentum=0.5, folder=tmp_path / str(id(each)), curves=False, tensorboard=False)
    assert_same(net, other)
    np.testing.assert_array_equal(net.parameters()["in.W"], kept)
    net.unfreeze("in.*")
    twin = cn.clone(net.find("J"), parameters="share")
    cn.train(cn.Network(twin), BATCHES, momentum=0.5, learning_rate=0.01)
    assert not np.array_equal(net.parameters()["in.W"], kept)
    loaded = cn.load(tmp_path / str(id(other)) / "final.cn")
    cn.train(loaded, BATCHES, max_change=1e-3)
    assert float(np.abs(loaded.parameters()["out.W"] - other.parameters()["out.W"]).max()) <= 4e-3


def test_dropout_depends_on_the_networks_seed() -> None:
    found = []
    for seed in (0, 0, 1):
        net = network(seed)
        cn.train(net, BATCHES, epochs=2)
        found.append(net.parameters()["out.W"])
    np.testing.assert_array_equal(found[0], found[1])
    assert not np.array_equal(found[0], found[2])


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('["step", 4]', '["step", "4"]'),
        ('["step", 4]', '["step", 5]'),
        ('["progress", {"dict"', '["progress", {"list"'),
        ('{"tensor": "0"}', '{"tensor": "99"}'),
        ('{"tensor": "0"}', "0"),
        ('["interval", {"dict": [["objective"', '["interval", {"dict": [["objectives"'),
        ('["own", ', '["owns", '),
    ],
)
def test_a_state_of_other_values_is_damage(before: str, after: str, tmp_path: Path) -> None:
    """The files are as their checksums say, but not what a run has written."""
    trained("momentum", tmp_path, epochs=1, checkpoint_every=2)
    folder = max((tmp_path / "checkpoints").iterdir())
    state, facts = folder / "rank-0.safetensors", json.loads((folder / "run.json").read_text())
    tree, tensors = load_parts(state)
    assert before in tree
    save_parts(tree.replace(before, after, 1), tensors, state)
    facts["files"][state.name] = [state.stat().st_size, zlib.crc32(state.read_bytes())]
    (folder / "run.json").write_text(json.dumps(facts))
    with pytest.raises(ModelFormatError, match="this checkpoint is damaged"):
        trained("momentum", tmp_path, checkpoint_every=2, resume=True)


def test_facts_without_their_sections_are_damage(tmp_path: Path) -> None:
    trained("plain", tmp_path, epochs=1, checkpoint_every=2)
    facts_file = max((tmp_path / "checkpoints").iterdir()) / "run.json"
    facts_file.write_text(json.dumps(json.loads(facts_file.read_text()) | {"settings": []}))
    with pytest.raises(ModelFormatError, match=r"run.json is damaged: expected the sections settings"):
        trained("plain", tmp_path, resume=True)
