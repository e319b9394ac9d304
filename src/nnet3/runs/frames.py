"""Data of kind `frames`: examples whose supervision is a matrix (Kaldi's `<Nnet3Eg>`)."""

from __future__ import annotations

from nnet3.examples import EXAMPLES, Example
from nnet3.nnet import Nnet
from nnet3.runs.archives import ArchiveSource
from nnet3.runs.kind_sections import ArchivesSection
from nnet3.runs.plugs import DataSource, Share
from nnet3.train.minibatch import Minibatch
from nnet3.train.to_minibatch import to_minibatch


class FramesKind:
    """The entry of the registry."""

    def open(self, section: ArchivesSection, nnet: Nnet, share: Share, seed: int) -> DataSource:
        inputs, outputs = nnet.input_dims, nnet.output_dims

        def prepare(example: Example, key: str) -> Minibatch:
            return to_minibatch(example, inputs, outputs, key)

        return ArchiveSource(section, EXAMPLES, prepare, share, seed)
