"""Small RNNLMs with random parameters, and what they say of a sentence when it is computed as a whole."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from nnet3 import Nnet
from nnet3.asr import Rnnlm, RnnlmOptions

WORDS, DIM = 9, 6
OPTIONS = RnnlmOptions(bos_symbol=1, eos_symbol=2, brk_symbol=3)
_LAYERS = {
    "lstm": """relu-renorm-layer name=tdnn1 dim=6 input=Append(0, IfDefined(-1))
fast-lstmp-layer name=lstm1 cell-dim=6 recurrent-projection-dim=2 non-recurrent-projection-dim=3
relu-renorm-layer name=tdnn2 dim=6 input=Append(0, IfDefined(-2))""",
    "tdnn": """relu-renorm-layer name=tdnn1 dim=6 input=Append(0, IfDefined(-1))
relu-renorm-layer name=tdnn2 dim=6 input=Append(0, IfDefined(-3))""",
    "batchnorm": "relu-batchnorm-layer name=tdnn1 dim=6 input=Append(0, IfDefined(-1))",
}
KINDS = tuple(_LAYERS)


def network(kind: str) -> Nnet:
    """Returns a network of a kind, with statistics."""
    text = f"input dim={DIM} name=input\n{_LAYERS[kind]}\noutput-layer name=output include-log-softmax=false dim={DIM}"
    nnet = Nnet.from_xconfig(text)
    generator = torch.Generator().manual_seed(1)
    for component in nnet.components.values():
        for parameter in component.parameters().values():
            parameter.copy_(0.7 * torch.randn(parameter.shape, generator=generator))
        if component.has_running_statistics:
            x = torch.randn(50, DIM, generator=generator)
            y, memo = component.propagate(x)
            component.store_stats(x, y, memo)
    return nnet


def embedding() -> np.ndarray:
    return np.random.default_rng(2).normal(size=(WORDS, DIM)).astype(np.float32)


def small_rnnlm(kind: str, **modes: bool) -> Rnnlm:
    return Rnnlm(network(kind), embedding(), OPTIONS, **modes)


def scores_of_whole(kind: str, words: Sequence[int]) -> np.ndarray:
    """Returns y e(w) of all words after all of `words`, from one computation of the sentence in test mode."""
    rows = network(kind).compute(embedding()[[OPTIONS.bos_symbol, *words]])
    return np.asarray(rows)[-1] @ embedding().T
