"""Processes, played by threads, that share minibatches do together what one process does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from nnet3 import cn
from nnet3.base.options.network_training import NetworkTrainingOptions
from nnet3.cn.network_in_training import NetworkInTraining
from nnet3.cn.network_trainer import NetworkTrainer
from nnet3.cn.options_by_name import OptionsByName
from nnet3.cn.shared_minibatch import share_of
from nnet3.cn.sparse import SparseColumns
from nnet3.errors import TrainingError
from nnet3.training.runs.process_group import ProcessGroup
from tests.cn.small_networks import bag_classifier, few_elements
from tests.effort import at_night
from tests.runs.thread_group import in_threads
from tests.seeds import RANDOM
from tests.torchrun import torchrun, train_twice


def frames(*, norm: bool = True) -> tuple[cn.Network, list[dict[str, Any]]]:
    """A loop with an initial state over sequences of unequal lengths, batch-norm, a regularization, a metric."""
    x, y = cn.input("x", 3), cn.input("y", 2)
    d = cn.delay(None, dim=4, initial=cn.input("state", 4))
    R = cn.parameter("R", (4, 4))
    h = d.connect(cn.tanh(cn.macros.affine(x, 4, name="in") + R @ d, name="h"))
    o = cn.macros.affine(cn.batch_norm(h, name="norm") if norm else h, 2, name="out")
    far = cn.sum_elements(cn.sum_rows(cn.abs(o - y)), name="far")
    J = cn.square_error(o, y, name="J") + 0.1 * cn.squared_norm(R, name="N")
    net = cn.Network(J, {"far": far}, dtype=torch.float64)
    return net, [_frames(*lengths) for lengths in ((5, 2, 4, 1, 3), (4, 4), (6,), (4, 0), (2, 1, 3))]


def _frames(*lengths: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, rows in (("x", 3), ("y", 2)):
        found[name] = cn.sequences([RANDOM.normal(size=(rows, length)) for length in lengths])
    return {**found, "state": RANDOM.normal(size=(4, len(lengths)))}


def sentences() -> tuple[cn.Network, list[dict[str, Any]]]:
    """In stages: a table with a sparse gradient, a label for each sentence; a sample a row."""
    words, label = cn.input("words", classes=30), cn.input("label", classes=3, axis="sequence")
    h = cn.macros.lstm(cn.embedding(cn.parameter("E", (4, 30)), words), 5).h
    scores = cn.macros.affine(cn.sequence.last(h), 3, name="scores")
    J = cn.cross_entropy_with_softmax(label, scores, name="J")
    net = cn.Network(J, {"far": cn.classification_error(label, scores, name="far")}, dtype=torch.float64, layout="rows")
    return net, [_sentences(*lengths) for lengths in ((5, 2, 4), (3, 3, 1, 1), (7,))]


def _sentences(*lengths: int) -> dict[str, Any]:
    words = cn.sequences([RANDOM.integers(0, 30, size=length) for length in lengths])
    return {"words": words, "label": RANDOM.integers(0, 3, size=len(lengths))}


def trained(
    net: cn.Network, batches: list[dict[str, Any]], group: ProcessGroup, **options: Any
) -> list[dict[str, float]]:
    settings = NetworkTrainingOptions(**options)
    reduction = group if group.size > 1 else None
    model = NetworkInTraining(net, settings, OptionsByName(settings.of_all, {}), {"far": net.find("far")}, reduction)
    trainer = NetworkTrainer(model, settings)
    found = []
    for batch in batches * 2:
        stats = trainer.train_minibatch(batch, 0.2).stats
        found.append({name: each.average for name, each in stats.items()} | {"weight": stats["criterion"].weight})
    return found


@pytest.mark.parametrize("make", [frames, sentences])
@pytest.mark.parametrize(
    "options",
    [*at_night({}), {"momentum": 0.5, "max_param_change": 0.05, "clip_norm": 0.7}, {"natural_gradient": True}],
)
def test_processes_do_what_one_does(make: Any, options: dict[str, Any]) -> None:
    net, batches = make()
    if make is sentences:
        options = {name: value for name, value in options.items() if name != "momentum"}
    others = [net.copy() for _ in range(2)]
    expected = trained(net, batches, ProcessGroup(), **options)
    told = in_threads(2, lambda group: trained(others[group.rank], batches, group, **options))
    for rank, other in enumerate(others):
        assert not isinstance(told[rank], Exception), told[rank]
        for mine, theirs in zip(expected, told[rank], strict=True):
            assert theirs == pytest.approx(mine, rel=1e-9)
        for name, value in net.parameters().items():
            np.testing.assert_allclose(other.parameters()[name], value, rtol=1e-8, atol=1e-12, err_msg=name)
    for name, value in others[0].parameters().items():
        np.testing.assert_array_equal(others[1].parameters()[name], value)


def test_what_is_not_finite_in_one_process_is_refused_by_all() -> None:
    net, _ = frames(norm=False)  # it would carry a NaN to all
    bad = _frames(3, 2)
    bad["x"][1][0, 1] = np.nan
    others, before = [net.copy() for _ in range(2)], net.parameters()
    first, second = in_threads(2, lambda group: trained(others[group.rank], [bad], group))
    assert isinstance(first, TrainingError)
    assert "another process" in str(first)
    assert "input 'x' holds nan in column 1 of sequence 0, row 0" in str(second)
    for other in others:
        for name, value in other.parameters().items():
            np.testing.assert_array_equal(value, before[name])


def test_shares_are_every_other_sequence_in_any_layout() -> None:
    net, _ = frames()
    batch = _frames(5, 2, 4)
    first, second = (share_of(net, batch, ProcessGroup(rank, 2)) for rank in range(2))
    assert first is not None
    assert second is not None
    assert [first["x"].lengths, second["x"].lengths] == [(5, 4), (2,)]
    np.testing.assert_array_equal(first["state"], batch["state"][:, [0, 2]])
    rows, _ = sentences()
    part = share_of(rows, {"words": cn.sequences([np.arange(2)] * 3), "label": np.arange(3)}, ProcessGroup(1, 2))
    assert part is not None
    assert (part["words"].lengths, part["label"].tolist()) == ((2,), [1])
    assert share_of(net, _frames(4), ProcessGroup(1, 2)) is None


def test_nobody_is_given_a_share_without_frames() -> None:
    """Or shares of inputs that do not fit together: one process alone would find the error, or none."""
    net, _ = frames()
    for batch in (_frames(4, 0), _frames(4, 0, 2, 0), _frames(4, 2) | {"state": np.ones((4, 3))}, {"x": np.ones(())}):
        assert [share_of(net, batch, ProcessGroup(rank, 2)) for rank in range(2)] == [None, None]
    assert share_of(net, _frames(4, 2, 0), ProcessGroup(0, 2)) is not None


def test_a_script_is_run_by_torchrun_as_it_is(tmp_path: Path, programs: Path) -> None:
    torchrun(programs, "train-a-network", tmp_path)
    expected = train_twice().parameters()["W"]
    first, second = (np.load(tmp_path / f"{rank}.npy") for rank in range(2))
    np.testing.assert_array_equal(first, second)
    np.testing.assert_allclose(first, expected, rtol=1e-8)


@pytest.mark.parametrize("layout", ["columns", "rows"])
def test_shares_of_sparse_inputs_stay_sparse(layout) -> None:
    net, x = bag_classifier(True, layout=layout), few_elements(5)
    given = torch.as_tensor(x if layout == "columns" else x.T.copy()).to_sparse()
    batch, gradients = {"x": given, "label": np.array([0, 2, 1, -1, 2])}, []
    for rank in range(2):
        part = share_of(net, batch, ProcessGroup(rank, 2))
        assert isinstance(part["x"], SparseColumns)
        gradients.append(net.gradients(part))
    expected = net.gradients(batch)
    for name, gradient in expected.items():
        np.testing.assert_allclose(gradients[0][name] + gradients[1][name], gradient, atol=1e-13, err_msg=name)
