"""The kinds of data and of objectives that `nnet3 train-model` knows. What they do is imported when it is done."""

from __future__ import annotations

from nnet3.train import run
from nnet3.train.run.kind_sections import ArchivesSection, ByNodeSection, ChainExamplesSection, ChainSection
from nnet3.train.run.plugs import Entry, Kinds

KINDS = Kinds(
    data={
        "frames": Entry(ArchivesSection, lambda: run.frames.FramesKind()),
        "chain": Entry(ChainExamplesSection, lambda: run.chain.ChainExamplesKind()),
    },
    objective={
        "by-node": Entry(ByNodeSection, lambda: run.by_node.ByNodeKind()),
        "chain": Entry(ChainSection, lambda: run.chain.ChainKind()),
    },
)
