"""Training examples: files of them, and what is done with them before a trainer sees them.

Nothing here needs PyTorch but `to_minibatch`, which is to be imported from its own file.
"""

from nnet3.examples.chunks import Chunk as Chunk, ChunkSplitter as ChunkSplitter
from nnet3.examples.copying import Changes as Changes
from nnet3.examples.example import (
    EXAMPLES as EXAMPLES,
    Example as Example,
    ExampleKind as ExampleKind,
    ExampleReader as ExampleReader,
    NnetIo as NnetIo,
    example_writer as example_writer,
    read_example as read_example,
    read_io as read_io,
    write_example as write_example,
    write_io as write_io,
)
from nnet3.examples.making import (
    ExampleMaker as ExampleMaker,
    MakingStatistics as MakingStatistics,
    make_examples as make_examples,
)
from nnet3.examples.merging import (
    MergingStatistics as MergingStatistics,
    MinibatchSizes as MinibatchSizes,
    merge_examples as merge_examples,
)
from nnet3.examples.order import shuffled as shuffled, subset as subset
from nnet3.examples.source import (
    MinibatchSource as MinibatchSource,
    Position as Position,
    Prepared as Prepared,
    SourceOptions as SourceOptions,
)
from nnet3.kaldi_io.background import Background as Background
from nnet3.options import ChunkOptions as ChunkOptions, MakingOptions as MakingOptions
