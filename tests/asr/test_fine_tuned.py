"""A model that is trained further in PyTorch is recognized with as it is: only its file has changed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

import nnet3
from nnet3.asr import Model, Recognizer
from nnet3.speech.features.features import FeatureStream
from tests.asr.small_recognizer import RATE, audio, write_recognizer

AUDIO = audio(3.0)
LAST = "last"  # the component that is trained
STEPS = 100


def heard(folder: Path) -> list[str]:
    recognizer = Recognizer(Model(folder), RATE)
    first = [recognizer.result().text] if recognizer.accept(AUDIO) else []
    return [word for text in [*first, recognizer.finish().text] for word in text.split()]


def frames_of(folder: Path) -> torch.Tensor:
    """Returns the features of the recording as the recognizer makes them: (1, frames, dim)."""
    stream = FeatureStream(Model(folder).front.features, RATE)
    return torch.from_numpy(stream.accept(AUDIO.astype(np.float32), last=True))[np.newaxis]


def module_of(model: nnet3.AcousticModel) -> nnet3.TorchModule:
    return nnet3.TorchModule(model, frame_subsampling_factor=3, outputs=["output"]).eval()


def test_words_come_back_with_training(tmp_path: Path) -> None:
    """A model that mistakes each word for the other is told in each frame which scores are right."""
    folder = write_recognizer(tmp_path / "model")
    right, path = heard(folder), folder / "am/final.mdl"
    teacher = nnet3.load(path)
    assert isinstance(teacher, nnet3.AcousticModel)
    assert set(right) == {"high", "low"}
    wrong = teacher.copy()
    for parameter in wrong.nnet.components[LAST].parameters().values():
        parameter.copy_(parameter[[0, 1, 4, 5, 2, 3]].clone())
    wrong.save(path)
    before = heard(folder)
    assert before == [{"high": "low", "low": "high"}[word] for word in right]

    features, ivectors = frames_of(folder), torch.zeros(1, wrong.nnet.node_dim("ivector"))
    with torch.no_grad():
        targets = module_of(teacher)(features, ivectors)
    module = module_of(wrong)
    for name, parameter in module.named_parameters():
        parameter.requires_grad_(LAST in name)
    trained = [each for each in module.parameters() if each.requires_grad]
    optimizer = torch.optim.LBFGS(trained, max_iter=STEPS, line_search_fn="strong_wolfe")

    def loss() -> float:
        optimizer.zero_grad()
        error = torch.nn.functional.mse_loss(module(features, ivectors), targets)
        error.backward()
        return error.item()

    optimizer.step(loss)
    module.nnet.save(path)
    assert heard(folder) == right
