"""Small tasks for training runs that are to be killed: examples, a network with all that draws and remembers."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from nnet3.base.kaldi_io.sparse import SparseMatrix
from nnet3.examples import EXAMPLES, Example, NnetIo, example_writer
from tools import kill_chain_data

CONFIG = """
input-node name=input dim=5
component name=affine1 type=NaturalGradientAffineComponent input-dim=15 output-dim=8 orthonormal-constraint=-1
component name=relu type=RectifiedLinearComponent dim=8 self-repair-scale=0.05
component name=norm type=BatchNormComponent dim=8
component name=dropout type=DropoutComponent dim=8 dropout-proportion=0.1
component name=affine2 type=NaturalGradientAffineComponent input-dim=8 output-dim=3 l2-regularize=0.001
component name=softmax type=LogSoftmaxComponent dim=3
component-node name=affine1 component=affine1 input=Append(Offset(input, -1), input, Offset(input, 1))
component-node name=relu component=relu input=affine1
component-node name=norm component=norm input=relu
component-node name=dropout component=dropout input=norm
component-node name=affine2 component=affine2 input=dropout
component-node name=softmax component=softmax input=affine2
output-node name=output input=softmax
"""
SETTINGS = """
[model]
file = "{folder}/{config}"
[data]
kind = "{kind}"
train = "ark:{folder}/train.{ending}"
valid = "ark:{folder}/valid.{ending}"
minibatch-size = 8
{shifts}shuffle-buffer = 20
[training]
epochs = 3
initial-learning-rate = 0.02
final-learning-rate = 0.002
{more}
[checkpoints]
every = 3
[output]
folder = "{folder}/{name}"
print-every = 4
curves = false
tensorboard = false
"""
FRAMES = {"kind": "frames", "config": "net.config", "ending": "ark", "shifts": ""}
CHAIN_MORE = "[combination]\nmodels = 4"
CHAIN = {"kind": "chain", "config": "chain.config", "ending": "cegs", "shifts": "frame-shifts = 3\n"}
VARIANTS = {
    "plain": "[combination]\nmodels = 4",
    "momentum": 'momentum = 0.5\ndropout-schedule = "0,0.5@0.5,0.1"\n[combination]\nmodels = 0',
    "backstitch": "backstitch-training-scale = 0.3\nbackstitch-training-interval = 2\n[combination]\nmodels = 4",
}


def write_task(folder: Path) -> dict[str, Path]:
    """Examples, configs and one settings file for each variant; returns the latter by name."""
    write_examples(folder / "train.ark", 100, 1)
    write_examples(folder / "valid.ark", 20, 2)
    (folder / "net.config").write_text(CONFIG)
    kill_chain_data.write_chain_task(folder)
    texts = {name: SETTINGS.format(folder=folder, name=name, more=more, **FRAMES) for name, more in VARIANTS.items()}
    chain = SETTINGS.format(folder=folder, name="chain", more=CHAIN_MORE, **CHAIN)
    texts["chain"] = chain + kill_chain_data.OBJECTIVE.format(folder=folder)
    for name, text in texts.items():
        (folder / f"{name}.toml").write_text(text)
    return {name: folder / f"{name}.toml" for name in texts}


def write_tasks_of_processes(folder: Path) -> dict[str, Path]:
    """The same for several processes that share minibatches of unequal sizes, and for some that average models."""
    tasks = write_task(folder)
    averaging = folder / "averaging.toml"
    averaging.write_text(tasks["momentum"].read_text().replace(f"{folder}/momentum", f"{folder}/averaging"))
    for settings in (*tasks.values(), averaging):
        mode = "averaging" if settings == averaging else "all-reduce"
        text = settings.read_text().replace("minibatch-size = 8", 'minibatch-size = "1:7"')
        settings.write_text(f'{text}[distributed]\nmode = "{mode}"\nround = 4\n')
    return {**tasks, "averaging": averaging}


def write_examples(path: Path, count: int, seed: int) -> None:
    """Examples of four frames with a label each, which can be told from three of five features."""
    rng = np.random.default_rng(seed)
    with example_writer(f"ark:{path}", EXAMPLES) as writer:
        for number in range(count):
            label = rng.integers(0, 3, 4)
            features = rng.standard_normal((6, 5)).astype(np.float32)
            features[1:5, :3] += 2 * np.eye(3, dtype=np.float32)[label]
            target = SparseMatrix(4, 3, np.arange(5), label.astype(np.int32), np.ones(4, np.float32))
            ios = (NnetIo("input", _indexes(-1, 5), features), NnetIo("output", _indexes(0, 4), target))
            writer.write(f"example-{number}", Example(ios))


def _indexes(first: int, last: int) -> np.ndarray:
    times = np.arange(first, last)
    return np.stack([0 * times, times, 0 * times], axis=1).astype(np.int32)
