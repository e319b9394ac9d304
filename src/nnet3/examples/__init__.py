"""Training examples: files of them, and what is done with them before a trainer sees them.

Nothing here needs PyTorch but `to_minibatch`, which is to be imported from its own file.
"""

from nnet3.examples.chunks import Chunk as Chunk
from nnet3.examples.chunks import ChunkSplitter as ChunkSplitter
from nnet3.examples.copying import Changes as Changes
from nnet3.examples.example import EXAMPLES as EXAMPLES
from nnet3.examples.example import Example as Example
from nnet3.examples.example import ExampleKind as ExampleKind
from nnet3.examples.example import ExampleReader as ExampleReader
from nnet3.examples.example import NnetIo as NnetIo
from nnet3.examples.example import example_writer as example_writer
from nnet3.examples.example import read_example as read_example
from nnet3.examples.example import read_io as read_io
from nnet3.examples.example import write_example as write_example
from nnet3.examples.example import write_io as write_io
from nnet3.examples.making import ExampleMaker as ExampleMaker
from nnet3.examples.making import MakingStatistics as MakingStatistics
from nnet3.examples.making import make_examples as make_examples
from nnet3.examples.merging import MergingStatistics as MergingStatistics
from nnet3.examples.merging import MinibatchSizes as MinibatchSizes
from nnet3.examples.merging import merge_examples as merge_examples
from nnet3.examples.order import shuffled as shuffled
from nnet3.examples.order import subset as subset
from nnet3.examples.source import MinibatchSource as MinibatchSource
from nnet3.examples.source import Position as Position
from nnet3.examples.source import Prepared as Prepared
from nnet3.examples.source import SourceOptions as SourceOptions
from nnet3.kaldi_io.background import Background as Background
from nnet3.options import ChunkOptions as ChunkOptions
from nnet3.options import MakingOptions as MakingOptions
