"""The kinds of data and objectives that `nnet3 train-model` knows, with their sections, which need no PyTorch.

Their code is imported when it is used.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from nnet3.base.kaldi_io.specifiers import parse_rspecifier
from nnet3.base.options.chain import ChainOptions, DenominatorOptions
from nnet3.base.options.declaring import Options, again, option
from nnet3.base.options.discriminative import DiscriminativeOptions
from nnet3.base.text.values import Boolean, Integer, Numbers, Text, Texts, at_least, choice
from nnet3.training import runs
from nnet3.training.examples.merging import MinibatchSizes
from nnet3.training.runs.interfaces import Entry, Kinds

AS_IT_IS = "as-it-is"  # a minibatch size: examples are minibatches already


def _check_sizes(text: str) -> None:
    if text != AS_IT_IS:
        MinibatchSizes.parse(text)


_NODES = Texts(description="the name of an output node, or a list of such")
_TABLES = Texts(description="a table of examples such as ark:train.ark, or a list of such", parse=parse_rspecifier)


@dataclass(frozen=True)
class ArchivesSection(Options):
    """Examples: tables as Kaldi names them, such as ark:train.ark or scp:train.scp."""

    train: tuple[str, ...] = option((), _TABLES, "tables of training examples")
    valid: tuple[str, ...] = option((), _TABLES, "tables of held-out examples, watched while training", steers=False)
    combine: tuple[str, ...] = option((), _TABLES, "tables by which the final model is chosen; none: those of valid")
    minibatch_size: str = option(
        "64",
        Text(description=f"a rule such as 64, 1:64 or 64,32, or {AS_IT_IS}", parse=_check_sizes),
        f"examples; {AS_IT_IS}: no merging",
    )
    valid_minibatch_size: str = option(
        "1:64", Text(description="a rule such as 1:64", parse=_check_sizes), "of held-out examples"
    )
    shuffle_buffer: int = option(5000, Integer(at_least(0)), "examples held to be shuffled; 0: all")
    on_damage: str = option("error", choice("error", "skip"), "what a damaged example means")
    ahead: int = option(4, Integer(at_least(1)), "minibatches that are made ahead", steers=False)
    train_outputs: tuple[str, ...] = option(
        (), _NODES, "output nodes, one for each table of train: languages or tasks; none: as the examples say"
    )
    train_weights: tuple[float, ...] = option(
        (), Numbers(at_least(0)), "how much each table of train counts: its supervision is multiplied; none: 1"
    )
    valid_outputs: tuple[str, ...] = option((), _NODES, "output nodes, one for each table of valid", steers=False)
    combine_outputs: tuple[str, ...] = option((), _NODES, "output nodes, one for each table of combine")

    def conflicts(self) -> Iterator[tuple[str, str]]:
        for key in ("train_outputs", "train_weights", "valid_outputs", "combine_outputs"):
            given, tables = getattr(self, key), getattr(self, key.partition("_")[0])
            if given and len(given) != len(tables):
                yield key, f"expected one for each of {len(tables)} tables, got {len(given)}"
        if self.train_weights and not any(self.train_weights):
            yield "train_weights", "all are 0: there would be nothing to train on; give one above 0"


@dataclass(frozen=True)
class ChainExamplesSection(ArchivesSection):
    """Chain examples (Kaldi's `<Nnet3ChainEg>`): tables as Kaldi names them, such as ark:cegs.1.ark."""

    frame_shifts: int = option(
        1, Integer(at_least(1)), "epochs shift input by 0 .. n - 1 frames in turn; examples must have context for it"
    )


@dataclass(frozen=True)
class DiscriminativeExamplesSection(ChainExamplesSection):
    """Discriminative examples (Kaldi's `<Nnet3DiscriminativeEg>`): tables such as ark:degs.1.ark."""


@dataclass(frozen=True)
class ByNodeSection(Options):
    """Linear or quadratic, as each output node of the network says."""


@dataclass(frozen=True)
class ChainSection(ChainOptions):
    """LF-MMI; names as in Kaldi, defaults as in its recipes."""

    den_fst: str = option("", Text(), "the denominator graph")
    den_fsts: tuple[str, ...] = option(
        (),
        Texts(description="OUTPUT=FILE, or a list of such"),
        "denominator graphs of output nodes, as output-en=en.den.fst",
    )
    leaky_hmm_coefficient: float = again(DenominatorOptions, "leaky_hmm_coefficient", 0.1)
    insist_on_den_fst: bool = again(DenominatorOptions, "insist_on_den_fst", False)
    xent_regularize: float = again(ChainOptions, "xent_regularize", 0.1)
    apply_deriv_weights: bool = option(False, Boolean(), "scale derivatives of frames as the examples say")


@dataclass(frozen=True)
class DiscriminativeSection(DiscriminativeOptions):
    """MMI, sMBR or MPFE on lattices; names and defaults as in Kaldi."""

    model: str = option("", Text(), "an acoustic model, for its transition model and its priors")
    apply_deriv_weights: bool = option(True, Boolean(), "scale derivatives of frames as the examples say")


KINDS = Kinds(
    data={
        "frames": Entry(ArchivesSection, lambda: runs.archives.FramesKind()),
        "chain": Entry(ChainExamplesSection, lambda: runs.archives.ChainExamplesKind()),
        "discriminative": Entry(DiscriminativeExamplesSection, lambda: runs.archives.DiscriminativeExamplesKind()),
    },
    objective={
        "by-node": Entry(ByNodeSection, lambda: runs.objectives.ByNodeKind()),
        "chain": Entry(ChainSection, lambda: runs.objectives.ChainKind()),
        "discriminative": Entry(DiscriminativeSection, lambda: runs.objectives.DiscriminativeKind()),
    },
)
