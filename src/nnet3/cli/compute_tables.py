"""Runs a network over tables, and keeps what is finished however it ends."""

from __future__ import annotations

import logging
import sys
from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

import numpy as np
from torch import Tensor
from typing_extensions import Self

from nnet3.base.kaldi_io.table_values import (
    finished_matrices,
    matrix_writer,
    open_matrix_table,
    random_access_matrices,
    random_access_tokens,
    random_access_vectors,
    vector_writer,
)
from nnet3.base.kaldi_io.table_writer import Finished
from nnet3.base.kaldi_io.tables import RandomAccessTable
from nnet3.base.options.compiling import CompileOptions
from nnet3.base.options.utterances import (
    EqualXvectorOptions,
    IvectorTables,
    PrecisionOptions,
    ScoreOptions,
    XvectorOptions,
)
from nnet3.cli.files import load_model, load_network
from nnet3.cli.messages import say
from nnet3.cli.tally import UtteranceTally
from nnet3.engine.driver import ComputationCache
from nnet3.errors import NetworkError, Nnet3Error, TableError
from nnet3.inference.batch import BatchComputer
from nnet3.inference.cutting import BatchOptions
from nnet3.inference.long_utterances import is_the_same_in_pieces
from nnet3.inference.scores import Scoring, log_priors
from nnet3.inference.xvector import XvectorComputer
from nnet3.model.nnet import AcousticModel, Nnet, network_of

T = TypeVar("T")
_LOG = logging.getLogger("nnet3")
_MOST_WAITING = 8  # results that are to be written
Utterance = tuple[str, np.ndarray, np.ndarray | None, np.ndarray | None]
"""Key, features, one ivector, online ivectors."""
Result = tuple[str, Tensor | Nnet3Error]
Runner = Callable[[Iterable[Utterance]], Iterator[Result]]
"""Computes utterances in order, or says why there is nothing for one; it may read ahead."""
Worker = Callable[[Iterable[Utterance]], Iterator[tuple[str, Any]]]
"""As a Runner; what it gives is what the table's writer takes, or tensors."""


class Features(Protocol):
    """Yields keys and features; an entry that cannot be had is an error, and the next one follows."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *exception: object) -> None: ...
    def __next__(self) -> tuple[str, np.ndarray]: ...
    def leave_out(self, is_left_out: Callable[[str], bool]) -> None: ...


class ResultWriter(Protocol):
    """Takes results; has the members of TableWriter in use here."""

    count: int

    @property
    def makes_files(self) -> bool: ...
    def write(self, key: str, value: Any) -> None: ...
    def close(self) -> None: ...
    def keep(self) -> str: ...
    def discard(self) -> None: ...


class MissingError(Nnet3Error):
    """A table has no entry for an utterance."""


@dataclass(frozen=True)
class ComputedTables:
    """Kaldi's specifiers of the input and output. With `resume` the output goes on from what it has already.

    `opened` opens the features, `writer` the output, tables of matrices unless said otherwise.
    """

    features: str
    output: str
    ivectors: IvectorTables = field(default_factory=IvectorTables)
    resume: bool = False
    opened: Callable[[str], Features] = open_matrix_table
    writer: Callable[[str, Finished | None], ResultWriter] = matrix_writer


@dataclass(frozen=True)
class ComputeSettings:
    """The settings of a computation. With `whole_if_same` there are no chunks where they make no difference.

    With `short_last_chunk` utterances are cut as by nnet3-compute, else as by nnet3-compute-batch.
    """

    device: str = "cpu"
    chunks: BatchOptions = field(default_factory=BatchOptions)
    short_last_chunk: bool = True
    precision: PrecisionOptions = field(default_factory=PrecisionOptions)
    whole_if_same: bool = False
    scores: ScoreOptions = field(default_factory=ScoreOptions)
    compile_options: CompileOptions = field(default_factory=CompileOptions)
    debug: bool = False


def load(path: str, settings: ComputeSettings) -> Runner:
    """Returns a runner for the model in a file. Raises Nnet3Error for missing priors and priors of 0."""
    return batch_runner(*load_scored(path, settings.device, settings.precision, settings.scores), settings)


def batch_runner(nnet: Nnet, scoring: Scoring, settings: ComputeSettings) -> Runner:
    """Returns a runner for a network on its device."""
    chunks = settings.chunks
    if settings.whole_if_same and is_the_same_in_pieces(nnet):
        chunks = replace(chunks, frames_per_chunk=0)
    batch = BatchComputer(
        *(nnet, chunks, settings.device),
        scoring=scoring,
        short_last_chunk=settings.short_last_chunk,
        compile_options=settings.compile_options,
        debug=settings.debug,
    )
    return lambda utterances: batch.compute_all(
        (key, features, ivector if online is None else online) for key, features, ivector, online in utterances
    )


def load_scored(
    path: str, device: str, precision: PrecisionOptions, scores: ScoreOptions, *, many_rows: bool = True
) -> tuple[Nnet, Scoring]:
    """Returns the network of a model file, on a device, and the scoring of its outputs; see `on_device`."""
    model = load_model(path)
    priors = _priors(model, path) if scores.use_priors else None
    nnet = network_of(model)
    scoring = Scoring(priors, scores.acoustic_scale, scores.apply_exp)
    return on_device(nnet, device, precision, many_rows=many_rows), scoring


def on_device(nnet: Nnet, device: str, precision: PrecisionOptions, *, many_rows: bool = True) -> Nnet:
    """Returns a network that nobody trains on a device, with products of that precision.

    `many_rows`: see `Nnet.pack`.
    """
    nnet = nnet.to(device=device)
    return nnet.pack(many_rows=many_rows) if precision.dtype == "float32" else nnet.quantize(precision.dtype)


def compute_xvectors(
    network: str,
    tables: ComputedTables,
    options: XvectorOptions | EqualXvectorOptions,
    settings: ComputeSettings,
    cache: ComputationCache,
) -> None:
    """Computes a vector for each utterance, as `compute_tables` does matrices."""
    nnet = on_device(load_network(network), settings.device, settings.precision)
    compile_options = settings.compile_options
    computer = XvectorComputer(
        nnet, options, settings.device, compile_options=compile_options, cache=cache, debug=settings.debug
    )
    writes_vectors = replace(tables, writer=vector_writer)
    compute_tables(writes_vectors, lambda utterances: computer.compute_all(each[:2] for each in utterances))


def compute_tables(tables: ComputedTables, run: Worker) -> None:
    """Computes all utterances; one that fails is left out, with a warning.

    Raises Nnet3Error at the end if none was computed or a record could not be read. What is finished is kept then,
    and also after an interrupt.
    """
    conclude(tables, compute_share(tables, run))


def compute_share(tables: ComputedTables, run: Worker, share: Container[str] | None = None) -> UtteranceTally:
    """Computes all utterances, or the utterances with the given keys, and returns their number."""
    ivectors = Ivectors(tables.ivectors)
    finished = finished_matrices(tables.output) if tables.resume else None
    with tables.opened(tables.features) as features:
        writer = tables.writer(tables.output, finished)
        tally = UtteranceTally(quiet=sys.stdout.isatty() and not writer.makes_files)
        if share is not None:
            features.leave_out(lambda key: key not in share)
        try:
            with tally.shown():
                _compute_all(features, finished.keys if finished else set(), share, ivectors, run, writer, tally)
        except BaseException:
            with suppress(Nnet3Error):  # the first error is told
                _keep(writer)
            raise
        if tally.damaged or tally.done + tally.resumed == 0:
            _keep(writer)
        else:
            writer.close()
    return tally


def conclude(tables: ComputedTables, tally: UtteranceTally) -> None:
    """Says how many utterances there were. Raises Nnet3Error if none was computed or some could not be read."""
    if tally.done + tally.resumed == 0:
        reason = f"no utterance was computed ({tally.failed} left out)" if tally.failed else "no utterances"
        raise Nnet3Error(reason if tally.failed else f"{tables.features}: {reason}")
    say(str(tally))
    if tally.damaged:
        raise Nnet3Error(f"{tally.damaged} records could not be read: see above")


def _compute_all(
    features: Features,
    finished: set[str],
    share: Container[str] | None,
    ivectors: Ivectors,
    run: Worker,
    writer: ResultWriter,
    tally: UtteranceTally,
) -> None:
    lengths = deque[int]()  # of the utterances that are being computed
    written = deque[Future[None]]()
    with ThreadPoolExecutor(1) as thread:
        for key, result in run(_utterances(features, finished, share, ivectors, tally, lengths)):
            frames = lengths.popleft()
            if isinstance(result, Nnet3Error):
                _leave_out(key, result, tally)
                continue
            value = np.asarray(result.float().cpu()) if isinstance(result, Tensor) else result
            if not writer.makes_files:  # a pipe may make us wait, which an interrupt is to end
                writer.write(key, value)
            else:
                written.append(thread.submit(writer.write, key, value))
                while len(written) > _MOST_WAITING:
                    written.popleft().result()
            tally.add(done=1, frames=frames)
            _LOG.debug("utterance '%s' computed: %d rows", key, len(value))
        for each in written:
            each.result()


def _utterances(
    features: Features,
    finished: set[str],
    share: Container[str] | None,
    ivectors: Ivectors,
    tally: UtteranceTally,
    lengths: deque[int],
) -> Iterator[Utterance]:
    """Yields the utterances to compute, and notes their lengths; an unreadable utterance is left out."""
    while True:
        try:
            entry = next(features, None)
        except (MissingError, TableError) as error:
            say(f"warning: {error}")
            tally.add(failed=1, damaged=int(isinstance(error, TableError)))
            continue
        if entry is None:
            return
        key, matrix = entry
        if share is not None and key not in share:
            continue
        if key in finished:
            tally.add(resumed=1)
            continue
        try:
            given = ivectors.of(key)
        except Nnet3Error as error:
            _leave_out(key, error, tally)
            continue
        lengths.append(len(matrix))
        yield key, matrix, *given


def _leave_out(key: str, error: Nnet3Error, tally: UtteranceTally) -> None:
    say(f"warning: utterance '{key}' left out: {error}")
    tally.add(failed=1, damaged=int(isinstance(error, TableError)))


def _keep(writer: ResultWriter) -> None:
    """Keeps what is finished, after a failure."""
    if writer.count == 0 or not writer.makes_files:
        writer.discard()
        return
    name = writer.keep()
    say(f"{writer.count} finished utterances are kept in {name}")


class Ivectors:
    """Looks up the ivectors of utterances."""

    def __init__(self, tables: IvectorTables):
        self._single = random_access_vectors(tables.ivectors) if tables.ivectors else None
        self._online = random_access_matrices(tables.online_ivectors) if tables.online_ivectors else None
        self._speakers = random_access_tokens(tables.utt2spk) if tables.utt2spk else None

    def of(self, key: str) -> tuple[np.ndarray | None, np.ndarray | None]:
        """Returns an ivector, or online ivectors, or neither."""
        speaker = _look_up(self._speakers, key, "no speaker for it in --utt2spk") or key
        missing = "no ivector for it" if speaker == key else f"no ivector for its speaker '{speaker}'"
        return _look_up(self._single, speaker, missing), _look_up(self._online, key, missing)


def _look_up(table: RandomAccessTable[T] | None, key: str, missing: str) -> T | None:
    if table is None:
        return None
    if key not in table:
        raise MissingError(missing)
    return table[key]


def _priors(model: object, path: str) -> Tensor | None:
    if not isinstance(model, AcousticModel):
        raise NetworkError(f"{path}: --use-priors needs an acoustic model, this is a raw network")
    try:
        priors = log_priors(model)
    except NetworkError as error:
        raise NetworkError(f"{path}: {error}") from None
    if priors is None:
        say(f"warning: {path}: --use-priors was given, but the model has no priors: nothing is subtracted")
    return priors
