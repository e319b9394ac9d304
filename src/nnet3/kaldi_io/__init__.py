"""Kaldi's text and binary streams: tokens, numbers, vectors, matrices; no network here."""

from nnet3.kaldi_io.compressed import CompressedMatrix, CompressionMethod, compress
from nnet3.kaldi_io.files import write_atomically
from nnet3.kaldi_io.load import load_matrix, load_vector
from nnet3.kaldi_io.reader import Reader
from nnet3.kaldi_io.sparse import SparseMatrix
from nnet3.kaldi_io.writer import Writer

__all__ = [
    "CompressedMatrix",
    "CompressionMethod",
    "Reader",
    "SparseMatrix",
    "Writer",
    "compress",
    "load_matrix",
    "load_vector",
    "write_atomically",
]
