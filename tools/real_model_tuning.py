"""Fine-tuning the upper half of a model in PyTorch, to hear in noise what it heard in quiet; back to a Kaldi file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

import nnet3

STEPS, LEARNING_RATE, NOISE = 20, 1e-4, 5.0  # the noise is on MFCCs that are not normalised
FACTOR = 3  # frames of input for each of output


def mfcc(samples: np.ndarray, rate: int) -> Tensor:
    """40 MFCCs every 10 ms (frames, 40), as the configuration of deployed models has them."""
    import kaldi_native_fbank

    options = kaldi_native_fbank.MfccOptions()
    options.frame_opts.samp_freq, options.frame_opts.dither = rate, 0.0
    options.num_ceps = options.mel_opts.num_bins = 40
    options.mel_opts.low_freq, options.mel_opts.high_freq = 20, 7600
    options.use_energy = False
    computer = kaldi_native_fbank.OnlineMfcc(options)
    computer.accept_waveform(rate, samples.tolist())
    computer.input_finished()
    return torch.from_numpy(np.stack([computer.get_frame(frame) for frame in range(computer.num_frames_ready)]))


def fine_tune(
    am: nnet3.AcousticModel, utterances: Sequence[Tensor], path: Path, report: Callable[[str, bool], None]
) -> None:
    """Train the upper half of the parameters of a copy by Adam, save it, and report whether all went well.

    Targets are the pdfs that the model finds best in the utterances (frames, dim); it is given them with noise.
    """
    tuned, generator = am.copy(), torch.Generator().manual_seed(0)
    module = nnet3.TorchModule(tuned, frame_subsampling_factor=FACTOR, outputs=["output"]).eval()
    features = torch.nn.utils.rnn.pad_sequence(list(utterances), batch_first=True)
    lengths = torch.tensor([len(each) for each in utterances])
    ivectors = None
    if "ivector" in tuned.nnet.input_names:
        ivectors = torch.zeros(len(utterances), tuned.nnet.node_dim("ivector"))
    with torch.no_grad():
        targets = module(features, ivectors, lengths).argmax(dim=2)
    targets[torch.arange(targets.shape[1]) >= module.output_lengths(lengths)[:, None]] = -100  # not looked at
    noisy = features + NOISE * torch.randn(features.shape, generator=generator)
    parameters = dict(module.named_parameters())
    frozen = list(parameters)[: len(parameters) // 2]
    for name in frozen:
        parameters[name].requires_grad_(False)
    optimizer = torch.optim.Adam([p for p in parameters.values() if p.requires_grad], lr=LEARNING_RATE)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        outputs = module(noisy, ivectors, lengths)
        loss = torch.nn.functional.cross_entropy(outputs.flatten(0, 1), targets.flatten())
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    report(f"fine-tuning: the loss fell from {losses[0]:.2f} to {losses[-1]:.2f}", losses[-1] < 0.6 * losses[0])
    module.nnet.save(path)
    _compare(am, nnet3.load(path), tuned, frozen, report)


def _compare(
    am: nnet3.AcousticModel,
    saved: object,
    tuned: nnet3.AcousticModel,
    frozen: Sequence[str],
    report: Callable[[str, bool], None],
) -> None:
    assert isinstance(saved, nnet3.AcousticModel)
    before, after, again = (dict(nnet3.TorchModule(model).named_parameters()) for model in (am, tuned, saved))
    same = [name for name in before if torch.equal(before[name], after[name])]
    kept = set(frozen) <= set(same) and len(same) < len(before)
    report(f"fine-tuning: the {len(frozen)} frozen of {len(before)} parameters are the same to the bit", kept)
    equal = all(torch.equal(after[name], again[name]) for name in after)
    report("fine-tuning: the saved model has the parameters of the tuned one", equal)
