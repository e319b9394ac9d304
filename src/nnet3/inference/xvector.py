"""X-vectors: a vector for each utterance, from a network with pooled statistics of the frames."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from nnet3.base.kaldi_io.background import Background
from nnet3.base.options.compiling import CompileOptions
from nnet3.base.options.utterances import EqualXvectorOptions, XvectorOptions
from nnet3.engine.driver import ComputationCache, default_cache
from nnet3.engine.ir.matrices import Matrix, as_tensor
from nnet3.engine.ir.objects import Recent
from nnet3.engine.runtime import NnetComputer
from nnet3.errors import ExecutionError, NetworkError, Nnet3Error, NotComputableError, check_kind
from nnet3.inference.grouping import AHEAD, windows
from nnet3.inference.inputs import checked_matrix
from nnet3.inference.long_utterances import MAX_BYTES, PIECE_BYTES, PIECE_FRAMES, bytes_per_frame
from nnet3.inference.running import NetworkKernels, indexes_of
from nnet3.inference.whole_utterance import kept_computer
from nnet3.model.nnet import Nnet
from nnet3.model.requests import ComputationRequest, IoSpecification


class XvectorChunk(NamedTuple):
    """The frames `first` .. `end - 1`, padded to `rows` rows, and the weight of the chunk's vector in the mean.

    `before` rows repeat the first frame; rows missing at the end repeat the last frame.
    """

    first: int
    end: int
    before: int
    rows: int
    weight: int

    def frames(self) -> np.ndarray:
        """Returns the frame of each row, (rows,)."""
        return np.clip(np.arange(self.rows) + self.first - self.before, self.first, self.end - 1)


def chunks_in_row(num_frames: int, options: XvectorOptions) -> list[XvectorChunk]:
    """Returns chunks of `chunk_size` frames, one behind the other; the last chunk may be shorter.

    A chunk weighs as many as it has frames. Raises ExecutionError for a too short utterance.

    >>> for chunk in chunks_in_row(250, XvectorOptions(chunk_size=100, min_chunk_size=60)):
    ...     print(tuple(chunk))
    (0, 100, 0, 100, 100)
    (100, 200, 0, 100, 100)
    (200, 250, 5, 60, 50)
    """
    least = options.min_chunk_size
    if num_frames < least and not options.pad_input:
        raise ExecutionError(f"its {num_frames} frames are fewer than the {least} of the smallest chunk")
    size = num_frames if options.chunk_size < 0 else min(options.chunk_size, num_frames)
    chunks = []
    for first in range(0, num_frames, size):
        count = min(size, num_frames - first)
        if count >= least or options.pad_input:
            chunks.append(XvectorChunk(first, first + count, max(least - count, 0) // 2, max(count, least), count))
    return chunks


def equal_chunks(num_frames: int, options: EqualXvectorOptions, context: int) -> list[XvectorChunk]:
    """Returns chunks of `chunk_size` frames; neighbours share the network's `context` frames.

    The number of chunks is the smallest that leaves no frame out, with ends that overlap, or one fewer, with gaps
    between chunks, if the smaller number makes the weights of frames in the mean of the chunks' vectors more alike.
    A too short utterance has no chunk without padding.

    >>> for num_frames in (233, 300):
    ...     chunks = equal_chunks(num_frames, EqualXvectorOptions(chunk_size=100), context=10)
    ...     print([(chunk.first, chunk.end) for chunk in chunks])
    [(0, 100), (67, 167), (133, 233)]
    [(5, 105), (100, 200), (195, 295)]
    """
    size = options.chunk_size
    if num_frames <= size:
        return [XvectorChunk(0, num_frames, 0, size, 1)] if num_frames == size or options.pad_input else []
    length, step = num_frames - context, size - context
    count = length // step
    twice = (count + 1) * step - length  # frames in two chunks if there is one chunk more
    once = length - twice
    if (once + 2 * twice) ** 2 <= count * step * (once + 4 * twice):
        gaps = _pieces(length - count * step, count + 1)[:count]
        starts = np.cumsum(gaps) + step * np.arange(count)
    else:
        starts = np.append(0, np.cumsum(step - _pieces(twice, count)))
    return [XvectorChunk(first, first + size, 0, size, 1) for first in starts.tolist()]


def _pieces(number: int, count: int) -> np.ndarray:
    """Splits a number into `count` integers, equal or the larger ones last."""
    return number // count + (np.arange(count) >= count - number % count)


K = TypeVar("K")
_MOST_SEQUENCES = 32
_MOST_COMPUTERS = 32
_MOST_HELD = 2**16  # frames


@dataclass
class _Utterance:
    """An utterance that waits for the vectors of its chunks; `failure`: the reason for having no vector."""

    features: Tensor = field(default_factory=lambda: torch.empty(0))
    chunks: list[XvectorChunk] = field(default_factory=list)
    vectors: dict[int, Tensor] = field(default_factory=dict)
    failure: Nnet3Error | None = None

    def result(self, dim: int) -> Tensor | Nnet3Error:
        """Returns the mean vector (dim,) of the chunks, by their weights; zeros without any chunk, as Kaldi writes."""
        if self.failure is not None:
            return self.failure
        if not self.chunks:
            return self.features.new_zeros(dim)
        vectors = torch.stack([self.vectors[number] for number in range(len(self.chunks))])
        weights = vectors.new_tensor([chunk.weight for chunk in self.chunks])
        return weights @ vectors / weights.sum()


class XvectorComputer:
    """Computes output `output` at t = 0 of chunks of utterances, many chunks of one size at a time.

    The network runs in test mode, has one input, `input`, and pools statistics from t = 0 on over a chunk. Options for
    equal chunks cut utterances as Kaldi's nnet3-xvector-compute-batched does, other options as Kaldi's
    nnet3-xvector-compute.
    """

    def __init__(
        self,
        nnet: Nnet,
        options: XvectorOptions | EqualXvectorOptions | None = None,
        device: str | torch.device = "cpu",
        *,
        compile_options: CompileOptions | None = None,
        cache: ComputationCache | None = None,
        debug: bool = False,
    ):
        if nnet.input_names != ["input"] or "output" not in nnet.output_names:
            raise NetworkError(
                "x-vectors are computed by a network with one input, 'input', and an output 'output'; this one has "
                f"inputs {nnet.input_names} and outputs {nnet.output_names}"
            )
        self.nnet, self.device = nnet.in_test_mode(), device
        self._dim = nnet.node_dim("output")
        self._kernels, self._compile_options, self._debug = NetworkKernels.of(self.nnet), compile_options, debug
        self._cache = default_cache() if cache is None else cache
        self._computers, self._most = Recent[NnetComputer](_MOST_COMPUTERS), _MOST_SEQUENCES
        self._lock = threading.Lock()
        self._bytes_per_frame = bytes_per_frame(self.nnet)
        self._cut = partial(chunks_in_row, options=options if isinstance(options, XvectorOptions) else XvectorOptions())
        if isinstance(options, EqualXvectorOptions):
            context = self.nnet.left_context + self.nnet.right_context
            if options.chunk_size <= context:
                raise ExecutionError(
                    f"chunk_size is {options.chunk_size}, but must be more than the network's context of "
                    f"{context} frames"
                )
            self._cut = partial(equal_chunks, options=options, context=context)
            self._most = options.batch_size

    def compute(self, features: Matrix) -> Tensor:
        """Returns the vector (dim,), on the device, of features (frames, dim).

        Raises ExecutionError for an utterance of another shape, without frames or too short for chunks in a row, for a
        NaN or an infinity in it or in the outputs, and for a chunk that would need more memory than 4 GiB;
        NotComputableError if a chunk is too short for the network.
        """
        utterance = self._begin(features)
        self._compute_window([utterance])
        result = utterance.result(self._dim)
        if isinstance(result, Nnet3Error):
            raise result
        return result

    def compute_all(self, utterances: Iterable[tuple[K, Matrix]]) -> Iterator[tuple[K, Tensor | Nnet3Error]]:
        """Yields, in order, the key of an utterance and its vector, or the error that `compute` would raise.

        A thread reads utterances ahead; some minutes of speech are held at a time.
        """
        source = Background(((key, self._begin(features)) for key, features in utterances), AHEAD)
        try:
            for window in windows(source, lambda pair: 1 + len(pair[1].features), _MOST_HELD):
                self._compute_window([utterance for _, utterance in window])
                for key, utterance in window:
                    yield key, utterance.result(self._dim)
        finally:
            source.close(seconds=0)

    def _compute_window(self, window: list[_Utterance]) -> None:
        groups: dict[int, list[tuple[_Utterance, int]]] = {}  # chunks by their rows
        for utterance in window:
            for number, chunk in enumerate(utterance.chunks):
                groups.setdefault(chunk.rows, []).append((utterance, number))
        for rows, group in groups.items():
            size = min(self._most, max(1, PIECE_BYTES // (rows * self._bytes_per_frame)))
            for start in range(0, len(group), size):
                self._run(group[start : start + size], rows)

    def _begin(self, features: Matrix) -> _Utterance:
        try:
            frames = checked_matrix(self.nnet, "features", features, "input", 2, self.device)
            return _Utterance(frames, self._cut(len(frames)))
        except Nnet3Error as error:
            return _Utterance(failure=error)

    def _run(self, group: list[tuple[_Utterance, int]], rows: int) -> None:
        """Gives a vector to each chunk of a group, or to the chunk's utterance the reason for having no vector."""
        frames = [utterance.features[torch.from_numpy(utterance.chunks[k].frames())] for utterance, k in group]
        try:
            with self._lock:
                computer = self._computers.get_or_make((len(group), rows), lambda: self._new_computer(len(group), rows))
                computer.accept_input("input", torch.cat(frames))
                computer.run()
                vectors = computer.get_output("output")
        except Nnet3Error as error:
            for utterance, _ in group:
                utterance.failure = error
            return
        is_finite = torch.isfinite(vectors).all(dim=1).tolist()
        for (utterance, number), vector, good in zip(group, vectors, is_finite, strict=True):
            utterance.vectors[number] = vector
            if not good:
                utterance.failure = ExecutionError("its vector is not finite")

    def _new_computer(self, sequences: int, rows: int) -> NnetComputer:
        if rows > PIECE_FRAMES:
            raise ExecutionError(f"a chunk of {rows} frames is too long, {PIECE_FRAMES} are allowed: give a chunk_size")
        given, wanted = (indexes_of([np.arange(count)] * sequences) for count in (rows, 1))
        request = ComputationRequest([IoSpecification("input", given)], [IoSpecification("output", wanted)])
        try:
            computation = self._cache.compile(self.nnet, request, self._compile_options)
        except NotComputableError as error:
            raise NotComputableError(
                f"a chunk of {rows} frames is too short for the network, or it is no network of x-vectors: {error}"
            ) from None
        computer = NnetComputer(computation, self._kernels, device=self.device, debug=self._debug)
        size = computer.plan.num_bytes
        if size > MAX_BYTES:
            raise ExecutionError(
                f"a chunk of {rows} frames needs {size / 2**30:,.1f} GiB of memory, and {MAX_BYTES / 2**30:g} are "
                "allowed: give a smaller chunk_size"
            )
        return computer


def xvectors(
    nnet: Nnet,
    features: Matrix | Iterable[Matrix],
    chunk_size: int = -1,
    min_chunk_size: int = 100,
    pad_input: bool = True,
) -> Tensor:
    """Returns the vector (dim,) of features (frames, dim), or the vectors (utterances, dim) of several utterances.

    The vector is the value of output `output` at t = 0, with pooled statistics of all frames, or, unless it is -1, of
    chunks of `chunk_size` frames. Scripts
    make an inner layer the output (`nnet.apply_config("output-node name=output input=tdnn6.affine")`). The vector of an
    utterance in chunks is the mean of the chunks' vectors, weighted by frames. A chunk of fewer than `min_chunk_size`
    frames repeats its ends as often as necessary; without `pad_input` a short chunk is left out. Chunks of equal size,
    also of different utterances, are computed together.

    Raises NetworkError for a network with other inputs; ExecutionError, with the utterance in its message, for no
    frames, too few frames without `pad_input`, or NaNs; NotComputableError for chunks too short for the network.
    """
    check_kind(nnet, Nnet, "the network", "an Nnet")
    check_kind(features, Iterable, "the features", "a matrix, or several in a list or an iterator")
    single = isinstance(features, Tensor | np.ndarray) and features.ndim == 2
    utterances: Iterable[Matrix] = (features,) if single else features  # type: ignore[assignment]
    options = XvectorOptions(chunk_size, min_chunk_size, pad_input)
    computer = kept_computer(nnet, options, XvectorComputer)
    vectors = []
    for number, result in computer.compute_all(enumerate(utterances)):
        if isinstance(result, Nnet3Error):
            raise result if single else type(result)(f"utterance {number}: {result}") from None
        vectors.append(result)
    if single:
        return vectors[0]
    return torch.stack(vectors) if vectors else torch.empty(0, nnet.node_dim("output"))


def cosine_scores(vectors: Matrix, others: Matrix | None = None) -> Tensor:
    """Returns the cosines (rows, other rows) of the angles between vectors, rows (vectors, dim), and others.

    Without `others` between the vectors themselves. Cosines of a vector of zeros are 0. Subtract the mean of many
    speakers' vectors first (`vectors - mean`): scores tell speakers apart better then. Raises ExecutionError for
    matrices that do not fit.
    """
    rows = as_tensor(vectors, "the vectors")
    columns = rows if others is None else as_tensor(others, "the other vectors").to(rows)
    if rows.ndim != 2 or columns.ndim != 2 or rows.shape[1] != columns.shape[1]:
        shapes = " and ".join(str(tuple(each.shape)) for each in (rows, columns))
        raise ExecutionError(f"the vectors must be two matrices (vectors, dim) with one dim, got {shapes}")
    return torch.nn.functional.normalize(rows) @ torch.nn.functional.normalize(columns).T
