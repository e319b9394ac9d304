"""Kaldi's text and binary streams: tokens, numbers, vectors, matrices, tables; no network here."""

from nnet3.base.kaldi_io.compressed import (
    CompressedMatrix as CompressedMatrix,
    CompressionMethod as CompressionMethod,
    compress as compress,
)
from nnet3.base.kaldi_io.files import write_atomically as write_atomically
from nnet3.base.kaldi_io.fst import Fst as Fst
from nnet3.base.kaldi_io.fst_file import (
    fst_writer as fst_writer,
    load_fst as load_fst,
    open_fst_table as open_fst_table,
    random_access_fsts as random_access_fsts,
    read_fst as read_fst,
    save_fst as save_fst,
    write_acceptor as write_acceptor,
    write_fst as write_fst,
)
from nnet3.base.kaldi_io.general import GeneralMatrix as GeneralMatrix
from nnet3.base.kaldi_io.load import (
    load_matrix as load_matrix,
    load_vector as load_vector,
    open_rxfilename as open_rxfilename,
    write_wxfilename as write_wxfilename,
)
from nnet3.base.kaldi_io.reader import Reader as Reader
from nnet3.base.kaldi_io.replacing import keeping_inputs as keeping_inputs
from nnet3.base.kaldi_io.sparse import SparseMatrix as SparseMatrix
from nnet3.base.kaldi_io.specifiers import NO_TABLE as NO_TABLE, is_table as is_table
from nnet3.base.kaldi_io.table_values import (
    Posterior as Posterior,
    finished_matrices as finished_matrices,
    int32_writer as int32_writer,
    int_vector_writer as int_vector_writer,
    matrix_writer as matrix_writer,
    open_general_matrix_table as open_general_matrix_table,
    open_int_vector_table as open_int_vector_table,
    open_matrix_table as open_matrix_table,
    open_pair_table as open_pair_table,
    open_posterior_table as open_posterior_table,
    open_token_table as open_token_table,
    open_vector_table as open_vector_table,
    open_words_table as open_words_table,
    pair_writer as pair_writer,
    posterior_writer as posterior_writer,
    random_access_int_vectors as random_access_int_vectors,
    random_access_matrices as random_access_matrices,
    random_access_posteriors as random_access_posteriors,
    random_access_reals as random_access_reals,
    random_access_tokens as random_access_tokens,
    random_access_vectors as random_access_vectors,
    read_alignment as read_alignment,
    read_posterior as read_posterior,
    read_token as read_token,
    real_writer as real_writer,
    token_writer as token_writer,
    vector_writer as vector_writer,
    write_alignment as write_alignment,
    write_int32 as write_int32,
    write_posterior as write_posterior,
    write_real as write_real,
    write_token as write_token,
)
from nnet3.base.kaldi_io.table_writer import Finished as Finished, TableWriter as TableWriter
from nnet3.base.kaldi_io.tables import RandomAccessTable as RandomAccessTable, TableReader as TableReader
from nnet3.base.kaldi_io.writer import Writer as Writer
