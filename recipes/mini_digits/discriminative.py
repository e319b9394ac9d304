"""Discriminative training: a trained model decodes its own training strings, and learns from what it mistakes them for.

The lines are those of Kaldi's `steps/nnet3/get_degs.sh` and `train_discriminative.sh`, for a chain model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from recipes.mini_digits.lines import Lines
from recipes.mini_digits.settings import Lattices
from recipes.mini_digits.speech import FACTOR

_RUN = """\
[model]
file = "{model}/final.mdl"

[data]
kind = "discriminative"
train = {train}
valid = {valid}
minibatch-size = "{minibatch}"
shuffle-buffer = 0
frame-shifts = 3

[objective]
kind = "discriminative"
model = "{model}/final.mdl"
criterion = "{criterion}"
acoustic-scale = 1.0
silence-phones = {silence}
one-silence-class = true

[training]
epochs = {epochs}
initial-learning-rate = {rate}
final-learning-rate = {rate}
max-param-change = 2.0
threads = 1

[output]
folder = "{folder}"
print-every = 5
tensorboard = false
"""


def make_examples(
    lattices: Lattices, context: str, parts: Sequence[str], names: Mapping[str, str], folder: Path, lines: Lines
) -> None:
    """`PART.JOB.degs` in the folder: chunks of strings with their alignments and lattices.

    `names` has the places that lines name: `here`, `lang` with a unigram as grammar, `model`, `data`, and `ali`, the
    alignments by the model. `context` are the options that say how many frames examples have on either side.
    """
    lines.run(folder, "mkgraph --self-loop-scale=1.0 {lang} {model} {here}/graph".format(**names))
    for part in parts:
        lines.run(
            folder,
            "latgen-faster --determinize-lattice=false --acoustic-scale=1.0 --frame-subsampling-factor={factor} "
            "--beam={beam} --lattice-beam={lattice_beam} {model}/final.mdl {here}/graph/HCLG.fst "
            "scp:{data}/{part}/feats.JOB.scp ark:{here}/raw.{part}.JOB.lat"
            "".format(part=part, factor=FACTOR, beam=lattices.beam, lattice_beam=lattices.lattice_beam, **names),
            "lattice-determinize-non-compact --acoustic-scale=1.0 --minimize=true --prune=true --beam={beam} "
            "ark:{here}/raw.{part}.JOB.lat ark:{here}/{part}.JOB.lat"
            "".format(part=part, beam=lattices.lattice_beam, **names),
            "discriminative-get-egs --srand=JOB --acoustic-scale=1.0 --frame-subsampling-factor={factor} {context} "
            "--num-frames={frames} --num-frames-overlap={overlap} {model}/final.mdl scp:{data}/{part}/feats.JOB.scp "
            "ark:{here}/{part}.JOB.lat ark:{ali}/ali.{part}.JOB.ark ark:{here}/{part}.JOB.degs"
            "".format(
                part=part, factor=FACTOR, context=context, frames=lattices.frames, overlap=lattices.overlap, **names
            ),
        )


def train(
    lattices: Lattices, archives: Mapping[str, Sequence[Path]], lang: Path, model: Path, folder: Path, lines: Lines
) -> None:
    """`final.mdl` in the folder, with the tree beside it: the model after some epochs on such examples."""
    silence = [int(phone) for phone in (lang / "phones" / "silence.int").read_text().split()]
    tables = {part: [f"ark:{path}" for path in paths] for part, paths in archives.items()}
    text = _RUN.format(folder=folder, model=model, silence=silence, **tables, **vars(lattices))
    (folder / "run.toml").write_text(text)
    lines.train(folder, folder / "run.toml")
    (folder / "tree").write_bytes((model / "tree").read_bytes())
