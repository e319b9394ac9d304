"""Kaldi's text and binary streams: tokens, numbers, vectors, matrices, tables; no network here."""

from nnet3.kaldi_io.compressed import CompressedMatrix, CompressionMethod, compress
from nnet3.kaldi_io.files import write_atomically
from nnet3.kaldi_io.fst import Fst
from nnet3.kaldi_io.fst_file import (
    fst_writer,
    load_fst,
    open_fst_table,
    random_access_fsts,
    read_fst,
    save_fst,
    write_acceptor,
    write_fst,
)
from nnet3.kaldi_io.general import GeneralMatrix
from nnet3.kaldi_io.load import load_matrix, load_vector, open_rxfilename, write_wxfilename
from nnet3.kaldi_io.reader import Reader
from nnet3.kaldi_io.replacing import keeping_inputs
from nnet3.kaldi_io.sparse import SparseMatrix
from nnet3.kaldi_io.specifiers import NO_TABLE, is_table
from nnet3.kaldi_io.table_values import (
    Posterior,
    finished_matrices,
    int32_writer,
    int_vector_writer,
    matrix_writer,
    open_general_matrix_table,
    open_int_vector_table,
    open_matrix_table,
    open_pair_table,
    open_posterior_table,
    open_token_table,
    open_vector_table,
    open_words_table,
    pair_writer,
    posterior_writer,
    random_access_int_vectors,
    random_access_matrices,
    random_access_posteriors,
    random_access_reals,
    random_access_tokens,
    random_access_vectors,
    read_alignment,
    read_posterior,
    read_token,
    real_writer,
    token_writer,
    vector_writer,
    write_alignment,
    write_int32,
    write_posterior,
    write_real,
    write_token,
)
from nnet3.kaldi_io.table_writer import Finished, TableWriter
from nnet3.kaldi_io.tables import RandomAccessTable, TableReader
from nnet3.kaldi_io.writer import Writer
