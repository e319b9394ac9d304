"""The network, trained by `nnet3 train-model` on chain examples."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import nnet3
from nnet3.model.hmm.transition_model import TransitionModel
from recipes.spoken_digits.words import run_train_model

NETWORK = Path(__file__).with_name("network.xconfig")
_RUN = """\
[model]
file = "{folder}/0.mdl"

[data]
kind = "chain"
train = "ark:{examples}/train.cegs"
valid = "ark:{examples}/valid.cegs"
minibatch-size = "{minibatch}"
shuffle-buffer = 0
frame-shifts = 3

[objective]
kind = "chain"
den-fst = "{graphs}/den.fst"

[training]
epochs = {epochs}
initial-learning-rate = {first_rate}
final-learning-rate = {last_rate}
seed = {seed}
threads = 1

[checkpoints]
every = 200

[combination]
models = {models}
part = 0.3

[output]
folder = "{folder}"
print-every = {print_every}
tensorboard = false
"""


@dataclass(frozen=True)
class ChainTraining:
    """An epoch sees each chunk once, shifted by 0, 1 or 2 frames."""

    epochs: int = 6
    minibatch: int = 64
    first_rate: float = 0.002
    last_rate: float = 0.0002
    models: int = 10
    print_every: int = 10
    seed: int = 0


def network(seed: int) -> nnet3.Nnet:
    """With the parameters that training begins with."""
    return nnet3.Nnet.from_xconfig(NETWORK.read_text(), source=str(NETWORK), seed=seed)


def train_chain(model: TransitionModel, examples: Path, graphs: Path, training: ChainTraining, folder: Path) -> None:
    """`folder/final.mdl`; goes on where it was if it has been interrupted."""
    if not (folder / "0.mdl").exists():
        nnet3.AcousticModel(model, network(training.seed)).save(folder / "0.mdl")
    run_train_model(_RUN.format(examples=examples, graphs=graphs, folder=folder, **vars(training)), folder)
