"""RNNLMs as modules of PyTorch and as ONNX files: the scores that Rnnlm gives."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import nnet3
from nnet3.export import export_onnx
from tests.asr.small_rnnlm import OPTIONS, embedding, network, small_rnnlm

SENTENCES = [[4, 5, 8, 6], [7, 7, 4, 5]]


def _inputs() -> torch.Tensor:
    """Returns the embeddings of <s> and the words of both sentences, (2, 5, dim)."""
    return torch.from_numpy(embedding())[torch.tensor([[OPTIONS.bos_symbol, *words] for words in SENTENCES])]


def _expected() -> np.ndarray:
    """Returns scores of all words but 0 after each beginning of both sentences, (2, 5, words - 1)."""
    rnnlm = small_rnnlm("lstm")
    rows = rnnlm.log_probs([words[:end] for words in SENTENCES for end in range(5)])
    return rows[:, 1:].reshape(2, 5, -1).numpy()


def test_modules_give_scores_and_teach_the_embedding() -> None:
    module, words = nnet3.TorchModule(network("lstm")), torch.from_numpy(embedding()).requires_grad_()
    scores = module(_inputs()) @ words.t()
    np.testing.assert_allclose(scores.detach()[:, :, 1:], _expected(), atol=1e-5)
    scores.sum().backward()
    assert words.grad is not None
    assert all(parameter.grad is not None for parameter in module.parameters())


def test_files_give_scores_of_whole_sentences(tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    export_onnx(network("lstm"), tmp_path / "rnnlm.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "rnnlm.onnx")
    (rows,) = session.run(None, {"input": _inputs().numpy()})
    np.testing.assert_allclose((rows @ embedding().T)[:, :, 1:], _expected(), atol=1e-5)


def test_files_of_streams_take_a_word_at_a_time(tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    export_onnx(network("lstm"), tmp_path / "rnnlm.onnx", frames_per_chunk=1, streaming=True)
    session = onnxruntime.InferenceSession(tmp_path / "rnnlm.onnx")
    shapes = {each.name: [2 if size == "batch" else size for size in each.shape] for each in session.get_inputs()}
    state = {name: np.zeros(shape, np.float32) for name, shape in shapes.items() if name.startswith("state.")}
    place, found = np.zeros([], np.int64), []
    for time in range(5):
        given = {"input": _inputs()[:, time : time + 1].numpy(), "place": place, **state}
        names = [each.name for each in session.get_outputs()]
        after = dict(zip(names, session.run(names, given), strict=True))
        state = {name.removeprefix("next_"): value for name, value in after.items() if name.startswith("next_state")}
        place = after["next_place"]
        found.append(after["output"][:, 0])
    np.testing.assert_allclose((np.stack(found, axis=1) @ embedding().T)[:, :, 1:], _expected(), atol=1e-5)
