"""torch.nn.CTCLoss on real speech: strings of two spoken digits, with batch-norm and lengths that differ."""

from __future__ import annotations

import io
import wave
import zipfile

import numpy as np
import pytest
import torch

import nnet3
from nnet3.cli.demo.speech import mfcc
from tests.shared_data import SHARED

RECORDINGS = SHARED / "data" / "fsdd" / "recordings.zip"
CONFIG = """
input-node name=input dim=13
component name=tdnn1 type=NaturalGradientAffineComponent input-dim=65 output-dim=48
component-node name=tdnn1 component=tdnn1 input=Append(Offset(input, -2), Offset(input, -1), input, Offset(input, 1), \
Offset(input, 2))
component name=relu1 type=RectifiedLinearComponent dim=48
component-node name=relu1 component=relu1 input=tdnn1
component name=norm1 type=BatchNormComponent dim=48
component-node name=norm1 component=norm1 input=relu1
component name=tdnn2 type=TdnnComponent input-dim=48 output-dim=48 time-offsets=-3,0,3
component-node name=tdnn2 component=tdnn2 input=norm1
component name=relu2 type=RectifiedLinearComponent dim=48
component-node name=relu2 component=relu2 input=tdnn2
component name=norm2 type=BatchNormComponent dim=48
component-node name=norm2 component=norm2 input=relu2
component name=last type=NaturalGradientAffineComponent input-dim=48 output-dim=11 param-stddev=0.0 bias-stddev=0.0
component-node name=last component=last input=norm2
component name=log-softmax type=LogSoftmaxComponent dim=11
component-node name=log-softmax component=log-softmax input=last
output-node name=output input=log-softmax
"""


def _strings() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Features (10, frames, 13) of two digits each, their numbers of frames, the digits plus one (10, 2)."""
    pieces = []
    with zipfile.ZipFile(RECORDINGS) as archive:
        for digit in range(10):
            with wave.open(io.BytesIO(archive.read(f"recordings/{digit}_jackson_0.wav"))) as file:
                samples = np.frombuffer(file.readframes(file.getnframes()), "<i2").astype(np.float32)
                rows = mfcc(samples, file.getframerate())
            pieces.append((rows - rows.mean(0)) / (rows.std(0) + 1e-3))
    pairs = [(digit, (3 * digit + 1) % 10) for digit in range(10)]
    utterances = [torch.from_numpy(np.concatenate([pieces[a], pieces[b]])).float() for a, b in pairs]
    lengths = torch.tensor([len(each) for each in utterances])
    return torch.nn.utils.rnn.pad_sequence(utterances, batch_first=True), lengths, torch.tensor(pairs) + 1


@pytest.mark.skipif(not RECORDINGS.is_file(), reason=f"the recordings of spoken digits are not at {RECORDINGS}")
def test_ctc_learns_strings_of_digits():
    pytest.importorskip("kaldi_native_fbank", reason="features of speech need kaldi-native-fbank")
    features, lengths, targets = _strings()
    module = nnet3.TorchModule(nnet3.Nnet.from_config(CONFIG, seed=0), frame_subsampling_factor=3)
    loss_function = torch.nn.CTCLoss()
    optimizer = torch.optim.Adam(module.parameters(), lr=0.01)
    losses = []
    for _ in range(60):
        optimizer.zero_grad()
        outputs = module(features, lengths=lengths)
        target_lengths = torch.full((10,), 2)
        loss = loss_function(outputs.transpose(0, 1), targets, module.output_lengths(lengths), target_lengths)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.05 * losses[0]
    module.eval()
    with torch.no_grad():
        best = module(features, lengths=lengths).argmax(dim=2)
    found = []
    for row, frames in zip(best, module.output_lengths(lengths), strict=True):
        labels = torch.unique_consecutive(row[:frames])
        found.append(labels[labels != 0].tolist())
    right = sum(string == target for string, target in zip(found, targets.tolist(), strict=True))
    assert right >= 9
