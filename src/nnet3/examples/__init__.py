"""Training examples: files of them, and what is done with them before a trainer sees them.

Nothing here needs PyTorch but `to_minibatch`, which is to be imported from its own file.
"""

from nnet3.examples.chunks import Chunk, ChunkSplitter
from nnet3.examples.copying import Changes
from nnet3.examples.example import EXAMPLES, Example, read_example, write_example
from nnet3.examples.io import NnetIo, read_io, write_io
from nnet3.examples.kind import ExampleKind, ExampleReader, example_writer
from nnet3.examples.making import ExampleMaker, MakingStatistics, make_examples
from nnet3.examples.merging import MergingStatistics, MinibatchSizes, merge_examples
from nnet3.examples.order import shuffled, subset
from nnet3.examples.source import MinibatchSource, Position, Prepared, SourceOptions
from nnet3.kaldi_io.background import Background
from nnet3.options import ChunkOptions, MakingOptions

__all__ = [
    "EXAMPLES",
    "Background",
    "Changes",
    "Chunk",
    "ChunkOptions",
    "ChunkSplitter",
    "Example",
    "ExampleKind",
    "ExampleMaker",
    "ExampleReader",
    "MakingOptions",
    "MakingStatistics",
    "MergingStatistics",
    "MinibatchSizes",
    "MinibatchSource",
    "NnetIo",
    "Position",
    "Prepared",
    "SourceOptions",
    "example_writer",
    "make_examples",
    "merge_examples",
    "read_example",
    "read_io",
    "shuffled",
    "subset",
    "write_example",
    "write_io",
]
