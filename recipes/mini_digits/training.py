"""The two networks: one structure, trained by `nnet3 train-model` on chain examples of either kind."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from nnet3.kaldi_io import Reader
from nnet3.model.hmm.tree import ContextDependency
from nnet3.model.nnet import Nnet
from recipes.mini_digits.lines import Lines
from recipes.mini_digits.settings import MiniDigits, Network

XCONFIG = Path(__file__).with_name("network.xconfig")
_RUN = """\
[model]
file = "{folder}/0.mdl"

[data]
kind = "chain"
train = {train}
valid = {valid}
minibatch-size = "{minibatch}"
shuffle-buffer = 0
{shifts}

[objective]
kind = "chain"
den-fst = "{graphs}/den.fst"

[training]
epochs = {epochs}
initial-learning-rate = {first_rate}
final-learning-rate = {last_rate}
max-param-change = 2.0
seed = {seed}
threads = 1

[checkpoints]
every = 50

[combination]
models = {models}
part = 0.3

[output]
folder = "{folder}"
print-every = 5
tensorboard = false
"""


def xconfig(settings: MiniDigits, pdfs: int) -> str:
    """The text of the network, with sizes."""
    return XCONFIG.read_text().format(width=settings.width, bottleneck=settings.bottleneck, pdfs=pdfs)


def context(settings: MiniDigits) -> int:
    """The frames that the network sees on either side, or on the one where it sees more."""
    nnet = Nnet.from_xconfig(xconfig(settings, 1), source=str(XCONFIG))
    return max(nnet.left_context, nnet.right_context)


def train(
    settings: MiniDigits,
    network: Network,
    graphs: Path,
    archives: Mapping[str, Sequence[Path]],
    shifted: bool,
    folder: Path,
    lines: Lines,
) -> None:
    """`final.mdl` in the folder, with the tree beside it. `graphs` has tree, transition model and denominator graph.

    `shifted`: each example is seen with its frames shifted by 0, 1 and 2, as chunks are but whole utterances are not.
    """
    tree = ContextDependency.read(Reader.open(graphs / "tree"))
    (folder / "network.xconfig").write_text(xconfig(settings, tree.num_pdfs))
    place = shlex.quote(str(folder))
    if not (folder / "0.mdl").exists():
        lines.run(
            folder,
            f"init --srand={network.seed} {place}/network.xconfig {place}/0.raw",
            f"am-init {shlex.quote(str(graphs))}/0.trans_mdl {place}/0.raw {place}/0.mdl",
        )
    tables = {part: [f"ark:{path}" for path in paths] for part, paths in archives.items()}
    shifts = "frame-shifts = 3" if shifted else ""
    text = _RUN.format(folder=folder, graphs=graphs, shifts=shifts, **tables, **vars(network))
    (folder / "run.toml").write_text(text)
    lines.train(folder, folder / "run.toml")
    (folder / "tree").write_bytes((graphs / "tree").read_bytes())
