"""Minibatches of RNNLM training in files (Kaldi: RnnlmExample)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nnet3.base.index import IndexTable
from nnet3.base.kaldi_io.reader import Reader
from nnet3.base.kaldi_io.table_values import TableKind
from nnet3.base.kaldi_io.writer import Writer

TOKEN = "<RnnlmExample>"
_SIZES = ("<VocabSize>", "<NumChunks>", "<ChunkLength>", "<SampleGroupSize>", "<NumSamples>")
_MOST_ROWS = 1 << 28


@dataclass(frozen=True, eq=False)
class RnnlmExample:
    """A minibatch of `num_chunks` rows of `chunk_length` words; row t * num_chunks + n is word t of row n.

    `input_words`, `output_words`, `output_weights` (rows,): the word before, the word, its weight. With sampling
    `sampled_words` (groups * num_samples,) has the words of each group of `sample_group_size` times, ascending in a
    group, and `sample_inv_probs` one over the probability of each to be there; `output_words` are then positions in the
    group's sample. Without sampling both are empty, and `sample_group_size` is 1.
    """

    vocab_size: int
    num_chunks: int
    chunk_length: int
    sample_group_size: int
    num_samples: int
    input_words: np.ndarray
    output_words: np.ndarray
    output_weights: np.ndarray
    sampled_words: np.ndarray
    sample_inv_probs: np.ndarray

    @property
    def is_sampled(self) -> bool:
        """True if the objective is to be estimated from sampled words."""
        return len(self.sampled_words) > 0

    @property
    def num_groups(self) -> int:
        """The number of groups of times, each with a separate sample of words; 1 without sampling."""
        return self.chunk_length // self.sample_group_size if self.is_sampled else 1

    @property
    def indexes(self) -> IndexTable:
        """The indexes n, t, x of the network's input and output (rows, 3)."""
        n, t = np.tile(np.arange(self.num_chunks), self.chunk_length), np.arange(self.chunk_length)
        return np.stack([n, np.repeat(t, self.num_chunks), np.zeros_like(n)], axis=1).astype(np.int32)


def read_example(reader: Reader) -> RnnlmExample:
    """Reads the example at the reader's position. Raises ModelFormatError for damaged or impossible examples."""
    start = reader.position
    reader.expect(TOKEN)
    vocab_size, num_chunks, length, group, num_samples = (reader.after(token).int32() for token in _SIZES)
    example = RnnlmExample(
        *(vocab_size, num_chunks, length, group, num_samples),
        reader.after("<InputWords>").int_vector(),
        reader.after("<OutputWords>").int_vector(),
        reader.after("<OutputWeights>").vector(),
        reader.after("<SampledWords>").int_vector(),
        reader.after("<SampleInvProbs>").vector(),
    )
    reader.expect("</RnnlmExample>")
    fault = fault_of(example)
    if fault:
        raise reader.error_at(start, f"this RNNLM example cannot be: {fault}")
    return example


def fault_of(example: RnnlmExample) -> str:
    """Returns what is wrong with the sizes, words or weights of an example; empty for nothing."""
    sizes = example.vocab_size, example.num_chunks, example.chunk_length, example.sample_group_size
    if min(sizes) < 1 or example.num_chunks * example.chunk_length > _MOST_ROWS or example.num_samples < 0:
        return f"its sizes are {', '.join(map(str, (*sizes, example.num_samples)))}"
    num_rows, samples = example.num_chunks * example.chunk_length, example.num_groups * example.num_samples
    if example.is_sampled and example.chunk_length % example.sample_group_size:
        return f"{example.chunk_length} times are no whole number of groups of {example.sample_group_size}"
    lengths = {
        "input words": (example.input_words, num_rows),
        "output words": (example.output_words, num_rows),
        "output weights": (example.output_weights, num_rows),
        "sampled words": (example.sampled_words, samples if example.is_sampled else 0),
        "inverse probabilities": (example.sample_inv_probs, samples if example.is_sampled else 0),
    }
    for what, (values, wanted) in lengths.items():
        if len(values) != wanted:
            return f"expected {wanted} {what}, got {len(values)}"
    most = example.num_samples if example.is_sampled else example.vocab_size
    for what, words, limit in (
        ("input word", example.input_words, example.vocab_size),
        ("output word", example.output_words, most),
        ("sampled word", example.sampled_words, example.vocab_size),
    ):
        if len(words) and not 0 <= words.min() <= words.max() < limit:
            return f"an {what} is not within 0 and {limit - 1}"
    numbers = np.concatenate([example.output_weights, example.sample_inv_probs])
    return "" if np.isfinite(numbers).all() and (numbers >= 0).all() else "a weight or probability is negative or NaN"


def write_example(writer: Writer, example: RnnlmExample) -> None:
    """Writes what `read_example` reads, byte for byte as Kaldi does."""
    writer.token(TOKEN)
    sizes = (getattr(example, name) for name in list(RnnlmExample.__dataclass_fields__)[: len(_SIZES)])
    for token, size in zip(_SIZES, sizes, strict=True):
        writer.token(token).int32(size)
    for token, values in (("<InputWords>", example.input_words), ("<OutputWords>", example.output_words)):
        writer.token(token).int_vector(values)
    writer.token("<OutputWeights>").vector(example.output_weights)
    writer.token("<SampledWords>").int_vector(example.sampled_words)
    writer.token("<SampleInvProbs>").vector(example.sample_inv_probs)
    writer.token("</RnnlmExample>")


RNNLM_EXAMPLES: TableKind[RnnlmExample, RnnlmExample] = TableKind(read_example, write_example)
