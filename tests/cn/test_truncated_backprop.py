"""Sequences in pieces with carried states."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from nnet3 import cn
from nnet3.errors import NetworkError, TrainingError
from tests.cn.small_networks import lstm
from tests.seeds import RANDOM


def test_pieces_with_carried_states_equal_the_whole() -> None:
    lengths = (11, 7, 4)
    batch = {n: cn.sequences([RANDOM.normal(size=(r, t)) for t in lengths]) for n, r in (("x", 3), ("y", 2))}
    whole, net = lstm(carry=False), lstm(carry=True)
    parts: list[list[np.ndarray]] = [[], [], []]
    total = 0.0
    sizes = []
    for piece in cn.truncated(net, batch, 4):
        total += net.backward(piece)
        for n, value in enumerate(net.evaluate("h", piece)):
            parts[n].append(value)
        sizes.append(piece["x"].lengths)
    assert sizes == [(4, 4, 4), (4, 3), (3,)]
    expected = whole.evaluate("h", batch)
    np.testing.assert_allclose(np.concatenate(parts[0], 1), expected[0], rtol=1e-10)
    np.testing.assert_allclose(parts[2][0], expected[2], rtol=1e-10)
    assert total == pytest.approx(float(whole.evaluate("J", batch)))


def test_training_in_pieces() -> None:
    net = lstm(carry=True)
    x = [RANDOM.normal(size=(3, 20)) for _ in range(4)]
    y = [np.stack([value[0], np.roll(value[1], 1)]) for value in x]
    batch = {"x": cn.sequences(x), "y": cn.sequences(y)}
    optimizer = torch.optim.Adam(list(net.tensors().values()), lr=0.03)
    history = cn.train(net, lambda: cn.truncated(net, batch, 5), optimizer, epochs=25)
    assert history[-1] < 0.5 * history[0]


def test_pieces_of_a_batch_with_states_and_control_values() -> None:
    """The batch's own initial states come first; what belongs to no sample is given to each piece."""
    x, control = cn.input("x", 3), cn.input("control", (4, 3))
    d = cn.delay(None, 2, dim=4, initial=cn.input("state", 4))
    h = d.connect(cn.tanh(control @ x + cn.parameter("R", (4, 4)) @ d, name="h"))
    net = cn.Network(cn.l2_norm(h), {"h": h}, dtype=torch.float64)
    lengths = (7, 3)
    batch = {
        "control": RANDOM.normal(size=(4, 3)),
        "x": cn.sequences([RANDOM.normal(size=(3, t)) for t in lengths]),
        "state": cn.sequences([RANDOM.normal(size=(4, 2)) for _ in lengths]),
    }
    expected = net.evaluate("h", batch)
    found = [net.evaluate("h", piece) for piece in cn.truncated(net, batch, 3)]
    np.testing.assert_allclose(np.concatenate([part[0] for part in found], 1), expected[0], rtol=1e-10)
    np.testing.assert_allclose(found[0][1], expected[1], rtol=1e-10)


@pytest.mark.parametrize("given", [np.asarray, torch.tensor])
def test_pieces_after_states_that_are_matrices(given) -> None:
    net = lstm(carry=True)
    batch = {n: cn.sequences([RANDOM.normal(size=(r, t)) for t in (5, 4)]) for n, r in (("x", 3), ("y", 2))}
    batch["lstm.h0"] = given(RANDOM.normal(size=(4, 2)))
    batch["lstm.c0"] = cn.sequences([np.zeros((4, 1))] * 2)
    expected = net.evaluate("h", batch)
    found = [net.evaluate("h", piece) for piece in cn.truncated(net, batch, 3)]
    np.testing.assert_allclose(np.concatenate([part[0] for part in found], 1), expected[0], rtol=1e-10)


def test_contexts_that_pieces_cut_are_warned_of() -> None:
    batch = {n: cn.sequences([RANDOM.normal(size=(r, t)) for t in (7, 3)]) for n, r in (("x", 3), ("y", 2))}
    with pytest.warns(UserWarning, match=r"pieces of 3 frames cut what 'lstm.Hd', 'lstm.Cd' see") as caught:
        list(cn.truncated(lstm(carry=False), batch, 3))
    assert [warning.filename for warning in caught] == [__file__]
    list(cn.truncated(lstm(carry=False), batch, 7))  # nothing is cut
    x = cn.input("x", 3)
    tdnn = cn.component("TdnnComponent input-dim=3 output-dim=2 time-offsets=-1,0", x, name="tdnn")
    nodes = [cn.delay(x, -1, name="ahead"), tdnn, cn.delay(x, 1, initial=cn.input("state", 3))]
    with pytest.warns(UserWarning, match="cut what 'ahead', 'tdnn' see"):
        list(cn.truncated(cn.Network(outputs=nodes), {"x": batch["x"]}, 3))
    with pytest.warns(UserWarning, match="cut what 'fast' see"):
        list(cn.truncated(cn.Network(outputs=cn.macros.fast_lstm(x, 2, name="fast")), {"x": batch["x"]}, 3))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"x": np.ones((3, 7))}, "inputs that are all cn.sequences"),
        ({"x": None, "y": None}, "inputs that are all cn.sequences"),
        ({"lstm.h0": np.ones((4, 3))}, "input 'lstm.h0': expected states of 2 sequences, got 3"),
        ({"lstm.h0": np.ones(4)}, "input 'lstm.h0': expected a matrix"),
    ],
)
def test_batches_that_cannot_be_cut(change, says) -> None:
    batch = {n: cn.sequences([RANDOM.normal(size=(r, t)) for t in (7, 3)]) for n, r in (("x", 3), ("y", 2))}
    batch = {name: value for name, value in {**batch, **change}.items() if value is not None}
    net = lstm(carry=True)
    with pytest.raises((TrainingError, NetworkError), match=says):
        cn.train(net, lambda: cn.truncated(net, batch, 4))
    with pytest.raises(TrainingError, match="at least one frame a piece"):
        list(cn.truncated(net, {"x": cn.sequences([np.ones((3, 2))])}, 0))


def test_states_of_the_future_cannot_be_carried() -> None:
    d = cn.delay(cn.input("x", 3), -1, initial=cn.input("state", 3))
    with pytest.raises(TrainingError, match="looks into the future"):
        list(cn.truncated(cn.Network(outputs=d), {"x": cn.sequences([np.ones((3, 2))])}, 1))


def test_pieces_of_a_few_sequences_at_a_time() -> None:
    """Another sequence takes the place of one that has ended; together they are all frames, in order, once."""
    net = lstm(carry=True)
    lengths = (7, 3, 1, 5, 4)
    batch = {n: cn.sequences([RANDOM.normal(size=(r, t)) for t in lengths]) for n, r in (("x", 3), ("y", 2))}
    whole: list[float] = []
    alone = sum(net.criterion(piece) for n in range(5) for piece in cn.truncated(net, _only(batch, n), 3))
    for piece in cn.truncated(net, batch, 3, at_once=2):
        assert len(piece["x"]) <= 2
        assert max(piece["x"].lengths) <= 3
        whole.append(net.criterion(piece))
    assert sum(whole) == pytest.approx(alone, rel=1e-5)
    assert len(whole) == 5
    with pytest.raises(TrainingError, match="at least one sequence at a time"):
        next(cn.truncated(net, batch, 3, at_once=0))


def _only(batch, number: int):
    return {name: cn.sequences([value[number]]) for name, value in batch.items()}
