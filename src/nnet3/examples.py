"""Training examples: their files, and the steps from a file to a trainer.

Nothing here needs PyTorch but `to_minibatch`, which is to be imported from its own file."""

from nnet3.base.kaldi_io.background import Background as Background
from nnet3.base.options.examples import ChunkOptions as ChunkOptions, MakingOptions as MakingOptions
from nnet3.training.examples.chunks import Chunk as Chunk, ChunkSplitter as ChunkSplitter
from nnet3.training.examples.copying import Changes as Changes
from nnet3.training.examples.example import (
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
from nnet3.training.examples.making import (
    ExampleMaker as ExampleMaker,
    MakingStatistics as MakingStatistics,
    make_examples as make_examples,
)
from nnet3.training.examples.merging import (
    MergingStatistics as MergingStatistics,
    MinibatchSizes as MinibatchSizes,
    merge_examples as merge_examples,
)
from nnet3.training.examples.order import shuffled as shuffled, subset as subset
from nnet3.training.examples.source import (
    MinibatchSource as MinibatchSource,
    Position as Position,
    Prepared as Prepared,
    SourceOptions as SourceOptions,
)
