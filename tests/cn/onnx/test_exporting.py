"""Network.export_onnx: recurrences, sequences of several lengths, states, components, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import onnx
import pytest
import torch

import nnet3
from nnet3 import cn
from nnet3.cn.onnx import load_network_metadata
from nnet3.errors import ExportError, Nnet3Error
from nnet3.export import agreement
from tests.cn.onnx.exported_network import ExportedNetwork
from tests.cn.small_networks import batch, one_hidden_layer, recurrence
from tests.effort import at_night

LENGTHS = (1, 2, 9, 20)


def bidirectional() -> cn.Network:
    x = cn.input("x", 3)
    forward, backward = (cn.delay(None, lag, dim=2) for lag in (1, -2))
    one = forward.connect(cn.tanh(cn.parameter("A", (2, 3)) @ x + forward))
    other = backward.connect(cn.sigmoid(cn.parameter("B", (2, 3)) @ x + backward))
    return cn.Network(outputs={"both": cn.row_stack(one, other), "norm": cn.l2_norm(one)})


def lstm() -> cn.Network:
    cell = cn.macros.lstm(cn.input("x", 3), 4)
    return cn.Network(cn.l2_norm(cell.h, name="J"), {"h": cell.h})


@pytest.mark.parametrize("made", [lstm, lambda: recurrence(lag=3, default=0.5), *at_night(recurrence, bidirectional)])
def test_recurrences_of_any_length(made: Callable[[], cn.Network], tmp_path: Path) -> None:
    exported = ExportedNetwork(made(), tmp_path)
    for length in LENGTHS:
        exported.check({"x": batch(3, (length, length))})


def test_a_criterion_is_that_of_the_whole_batch(tmp_path: Path) -> None:
    exported = ExportedNetwork(recurrence(), tmp_path, ["J"])
    for length in LENGTHS:
        exported.check({"x": batch(3, (length,) * 3), "y": batch(2, (length,) * 3)})


def test_sequences_of_several_lengths_may_be_padded(tmp_path: Path) -> None:
    network = lstm()
    exported = ExportedNetwork(network, tmp_path)
    assert exported.about.may_be_padded
    ragged = batch(3, (30, 7, 1, 18))
    padded = [np.pad(each, ((0, 0), (0, 30 - each.shape[1])), constant_values=9.0) for each in ragged]
    found = exported.run({"x": cn.sequences(padded)})["h"]
    for rows, expected in zip(found, network.evaluate("h", {"x": ragged}), strict=True):
        np.testing.assert_allclose(rows[: expected.shape[1]].T, expected, rtol=1e-4, atol=1e-5)


def test_states_carry_a_sequence_from_piece_to_piece(tmp_path: Path) -> None:
    state = cn.input("state", 4)
    network, whole = recurrence(initial=state), batch(3, (24,))
    exported = ExportedNetwork(network, tmp_path, "h")
    assert exported.about.states == {"state": 1}
    before, pieces = np.zeros((4, 1)), []
    for first in (0, 5, 23):
        inputs = {"x": whole[0][:, first : {0: 5, 5: 23, 23: 24}[first]], "state": before}
        pieces.append(exported.run({name: cn.sequences([value]) for name, value in inputs.items()})["h"][0])
        before = pieces[-1][-1:].T
    expected = network.evaluate("h", {"x": whole, "state": np.zeros((4, 1))})[0]
    np.testing.assert_allclose(np.concatenate(pieces).T, expected, rtol=1e-4, atol=1e-5)


def test_one_length(tmp_path: Path) -> None:
    exported = ExportedNetwork(bidirectional(), tmp_path, frames=6, opset=20)
    exported.check({"x": batch(3, (6, 6))})
    assert (exported.about.frames, exported.about.opset, exported.about.may_be_padded) == (6, 20, False)
    with pytest.raises(Exception, match="Expected: 6"):
        exported.run({"x": batch(3, (7,))})


def test_components_and_statistics_are_in_test_mode(tmp_path: Path) -> None:
    x = cn.input("x", 3)
    looks = cn.component("TdnnComponent input-dim=3 output-dim=4 time-offsets=-3,0,2", x)
    norm = cn.component("BatchNormComponent dim=4", looks)
    centred = cn.per_dim_mean_var_norm(cn.dropout(0.5, norm), cn.mean(norm), cn.inv_std_dev(norm))
    network = cn.Network(cn.sum_elements(norm, name="J"), {"out": centred})
    data = {"x": batch(3, (20, 20))}
    with pytest.raises(Nnet3Error, match=r"^the statistic 'mean1' is not known yet: call compute_statistics first$"):
        network.export_onnx(tmp_path / "none.onnx")
    network.backward(data)
    network.compute_statistics([data])
    exported = ExportedNetwork(network, tmp_path)
    for length in LENGTHS:
        exported.check({"x": batch(3, (length, length))})
    assert network.training


def test_networks_of_other_types_and_their_defaults(tmp_path: Path) -> None:
    network, inputs = one_hidden_layer()
    assert network.dtype == torch.float64
    rows = ExportedNetwork(network, tmp_path).run({"x": inputs["x"].T[np.newaxis]})["posterior"][0]
    np.testing.assert_allclose(rows.T, network.evaluate("posterior", inputs), rtol=1e-4)
    exported = ExportedNetwork(cn.Network(network.find("J")), tmp_path)
    found = exported.run({name: value.T[:, np.newaxis] for name, value in inputs.items()})
    np.testing.assert_allclose(found["J"], [[network.evaluate("J", inputs)]], rtol=1e-4)


def test_metadata(tmp_path: Path) -> None:
    exported = ExportedNetwork(lstm(), tmp_path)
    assert load_network_metadata(exported.path) == exported.about
    again = ExportedNetwork(lstm(), tmp_path).about.digest
    changed = lstm()
    changed.set_parameters({name: value + 1 for name, value in changed.parameters().items()})
    assert exported.about.digest == again != ExportedNetwork(changed, tmp_path).about.digest
    with pytest.raises(ExportError, match="this is no ONNX file that nnet3 has written"):
        nnet3.load_onnx_metadata(exported.path)
    assert {each.domain for each in onnx.load(exported.path).opset_import} == {""}


@dataclass(frozen=True)
class Softsign(cn.Operation):
    type: ClassVar[str] = "softsign"

    def infer(self, operands: Any) -> Any:
        return operands[0]

    def evaluate(self, inputs: Any, output: Any) -> None:
        output.copy_(torch.nn.functional.softsign(inputs[0]))


def test_a_type_of_ones_own_is_refused_by_its_name(tmp_path: Path) -> None:
    node = cn.Node(Softsign(), (cn.input("x", 2),), name="h")
    message = r"^node 'h' cannot be exported: nobody has said what softsign is in ONNX\n  .*test_exporting.py"
    with pytest.raises(ExportError, match=message):
        cn.Network(outputs={"out": cn.tanh(node)}).export_onnx(tmp_path / "network.onnx")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("nodes", "options", "message"),
    [
        ((), {"chunk": 3}, "there is no option 'chunk'; the options are frames, opset"),
        ((), {"frames": -1}, r"frames must be within \[0, 100000\], got -1"),
        ((), {"opset": 9}, r"opset must be within \[18, 23\], got 9"),
        ("H", {}, "there is no node 'H' in the network; did you mean 'h'"),
        (3, {}, "what is exported must be a node, a name, or a list of these"),
        (["x"], {}, "an input and an output are both called 'x': ONNX files need different names"),
        (["far"], {}, "there is no program for all lengths"),
        (["W"], {"frames": 3}, "frames are those of inputs with samples, of which the outputs need none"),
    ],
)
def test_bad_input_leaves_nothing_behind(nodes: Any, options: dict[str, Any], message: str, tmp_path: Path) -> None:
    x, W = cn.input("x", 3), cn.parameter("W", (2, 3))
    network = cn.Network(outputs=[cn.tanh(W @ x, name="h"), cn.delay(x, 200, name="far")])
    with pytest.raises(Nnet3Error, match=f"^{message}"):
        network.export_onnx(tmp_path / "network.onnx", nodes, **options)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_does_not_agree_is_not_kept_and_the_old_one_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = ExportedNetwork(lstm(), tmp_path, frames=3).path.read_bytes()
    monkeypatch.setattr(agreement, "TOLERANCE", -1.0)
    with pytest.raises(ExportError, match=r"^onnxruntime and nnet3 do not agree on output 'h': the difference is "):
        ExportedNetwork(lstm(), tmp_path, frames=4)
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [old]
