"""Training examples: files of them, and what is done with them before a trainer sees them."""

from nnet3.train.examples.example import EXAMPLES, Example, read_example, write_example
from nnet3.train.examples.io import NnetIo, read_io, write_io
from nnet3.train.examples.kind import ExampleKind
from nnet3.train.examples.table import ExampleReader, example_writer

__all__ = [
    "EXAMPLES",
    "Example",
    "ExampleKind",
    "ExampleReader",
    "NnetIo",
    "example_writer",
    "read_example",
    "read_io",
    "write_example",
    "write_io",
]
