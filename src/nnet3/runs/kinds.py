"""The kinds of data and of objectives that `nnet3 train-model` knows. What they do is imported when it is done."""

from __future__ import annotations

from nnet3 import runs
from nnet3.runs.kind_sections import ArchivesSection, ByNodeSection, ChainExamplesSection, ChainSection
from nnet3.runs.plugs import Entry, Kinds

KINDS = Kinds(
    data={
        "frames": Entry(ArchivesSection, lambda: runs.frames.FramesKind()),
        "chain": Entry(ChainExamplesSection, lambda: runs.chain.ChainExamplesKind()),
    },
    objective={
        "by-node": Entry(ByNodeSection, lambda: runs.by_node.ByNodeKind()),
        "chain": Entry(ChainSection, lambda: runs.chain.ChainKind()),
    },
)
