"""The chain cases of the golden data: what their commands say, and their tables."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from nnet3.chain import CHAIN_EXAMPLES, ChainExample
from nnet3.examples import ExampleReader
from nnet3.kaldi_io import Reader
from nnet3.model.hmm.transition_model import TransitionModel
from nnet3.model.hmm.tree import ContextDependency
from nnet3.training.chain.graphs.phone_hmms import PhoneHmms


@dataclass(frozen=True)
class ChainCase:
    folder: Path

    def options(self, program: str) -> dict[str, str]:
        """The options of the first command line of this program."""
        text = (self.folder / "graph.cmd").read_text() + (self.folder / "egs.cmd").read_text()
        line = next(line for line in text.splitlines() if line.startswith(program))
        return dict(re.findall(r"--([a-z-]+)=(\S+)", line))

    @cached_property
    def hmms(self) -> PhoneHmms:
        tree = ContextDependency.read(Reader.open(self.folder / "tree"))
        return PhoneHmms(tree, TransitionModel.read(Reader.open(self.folder / "0.trans_mdl")))

    def examples(self, name: str) -> dict[str, ChainExample]:
        with ExampleReader(f"ark:{self.folder}/{name}", CHAIN_EXAMPLES) as table:
            return dict(table)
