"""Training examples: their files, and the steps from a file to a trainer.

Nothing here needs PyTorch but `to_minibatch`, which is to be imported from its own file.
"""

from nnet3.examples.chunks import Chunk, ChunkSplitter
from nnet3.examples.copying import Changes
from nnet3.examples.example import (
    EXAMPLES,
    Example,
    ExampleKind,
    ExampleReader,
    NnetIo,
    example_writer,
    read_example,
    read_io,
    write_example,
    write_io,
)
from nnet3.examples.making import ExampleMaker, MakingStatistics, make_examples
from nnet3.examples.merging import MergingStatistics, MinibatchSizes, merge_examples
from nnet3.examples.order import shuffled, subset
from nnet3.examples.source import MinibatchSource, Position, Prepared, SourceOptions
from nnet3.kaldi_io.background import Background
from nnet3.options import ChunkOptions, MakingOptions
