"""Small examples for tests, and how to compare them."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from nnet3.examples import Example, NnetIo, write_example
from nnet3.kaldi_io import CompressionMethod, GeneralMatrix, SparseMatrix, Writer, compress


def grid(num_sequences: int, times: np.ndarray) -> np.ndarray:
    """Indexes, sequence by sequence."""
    n = np.repeat(np.arange(num_sequences), len(times))
    return np.stack([n, np.tile(times, num_sequences), np.zeros(len(n), int)], axis=1).astype(np.int32)


def one_hot(labels: np.ndarray, columns: int) -> SparseMatrix:
    rows = len(labels)
    return SparseMatrix(rows, columns, np.arange(rows + 1), labels.astype(np.int32), np.ones(rows, np.float32))


def frame_example(rng: np.random.Generator, frames: int = 4, context: int = 1, **ios: NnetIo) -> Example:
    """`input` of 3 columns and a sparse `output` of 5, as get-egs makes them."""
    times = np.arange(-context, frames + context)
    features = rng.normal(size=(len(times), 3)).astype(np.float32)
    labels = rng.integers(5, size=frames)
    return Example(
        (
            NnetIo("input", grid(1, times), features),
            *ios.values(),
            NnetIo("output", grid(1, np.arange(frames)), one_hot(labels, 5)),
        )
    )


def written(example: Example, binary: bool = True) -> bytes:
    writer = Writer(binary)
    write_example(writer, example)
    return writer.getvalue()


_numbers = st.floats(-1000, 1000, width=32)


@st.composite
def matrices(draw: st.DrawFn, rows: int) -> GeneralMatrix:
    """Any kind of matrix with so many rows."""
    columns = draw(st.integers(1, 4))
    values = np.array(draw(st.lists(_numbers, min_size=rows * columns, max_size=rows * columns)), np.float32)
    full = values.reshape(rows, columns)
    kinds: list[str | CompressionMethod] = ["full", "sparse", *CompressionMethod]
    kind = draw(st.sampled_from(kinds))
    if kind == "full":
        return full
    if isinstance(kind, CompressionMethod):
        return compress(full, kind)
    kept = np.array(draw(st.lists(st.booleans(), min_size=full.size, max_size=full.size)), bool).reshape(full.shape)
    indptr = np.concatenate([[0], np.cumsum(kept.sum(axis=1))])
    return SparseMatrix(rows, columns, indptr, np.nonzero(kept)[1].astype(np.int32), full[kept])


@st.composite
def examples(draw: st.DrawFn) -> Example:
    """Any example: one to three ios of any indexes and matrices."""
    ios = []
    for name in draw(st.lists(st.sampled_from(["input", "ivector", "output", "ä"]), min_size=1, max_size=3)):
        rows = draw(st.integers(1, 12))
        index = st.tuples(st.integers(0, 3), st.integers(-200, 200), st.integers(-2, 2))
        indexes = np.array(draw(st.lists(index, min_size=rows, max_size=rows)), np.int32)
        ios.append(NnetIo(name, indexes, draw(matrices(rows))))
    return Example(tuple(ios))
