"""Writes posteriors of denominator graphs: of utterances, and of chain examples, as an input of theirs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from nnet3.base.kaldi_io.reader import Reader
from nnet3.base.options.utterances import ScoreOptions
from nnet3.cli.compute_tables import (
    ComputedTables,
    ComputeSettings,
    Result,
    Runner,
    Utterance,
    batch_runner,
    compute_tables,
    load_scored,
)
from nnet3.cli.device import given_device
from nnet3.cli.egs_tables import write
from nnet3.cli.files import load_network_to, open_file
from nnet3.cli.messages import say
from nnet3.errors import Nnet3Error, NumericalError, TrainingError
from nnet3.training.chain.denominator import OUTPUT, Denominator, load_denominator
from nnet3.training.chain.example import CHAIN_EXAMPLES, ChainExample, chain_minibatch
from nnet3.training.chain.supervision import ChainTarget
from nnet3.training.examples.chunk_ios import indexes
from nnet3.training.examples.example import ExampleReader, NnetIo
from nnet3.training.train.evaluation import ExampleOutputs
from nnet3.training.train.minibatch import Minibatch, WantedOutput

ADDED = "__LWF-posteriors"
_STEP = 3  # frames between the rows of what is added, whatever the network's factor


def write_posteriors(
    model: str,
    den_fst: str,
    tables: ComputedTables,
    settings: ComputeSettings,
    acoustic_scale: float,
    leaky_hmm_coefficient: float,
    transform: str,
) -> None:
    """Writes the posteriors of utterances, (frames, pdfs), or with a matrix in a file (rows, pdfs) their sums by row.

    Raises Nnet3Error as `compute_tables` does, and for a matrix of another number of columns.
    """
    nnet, scoring = load_scored(model, settings.device, settings.precision, ScoreOptions(acoustic_scale))
    denominator = load_denominator(den_fst, nnet, leaky_hmm_coefficient)
    matrix = open_file(transform).whole(Reader.matrix) if transform else None
    pdfs = denominator.graph.num_pdfs
    if matrix is not None and matrix.shape[1] != pdfs:
        raise Nnet3Error(f"{transform}: expected a matrix with a column for each of {pdfs} pdfs, got {matrix.shape[1]}")
    compute_tables(tables, _Posteriors(batch_runner(nnet, scoring, settings), denominator, matrix))


class _Posteriors:
    """Computes posteriors of utterances in order, and says their log-probability per frame."""

    def __init__(self, scores: Runner, denominator: Denominator, matrix: np.ndarray | None):
        self._scores, self._denominator = scores, denominator
        self._matrix = None if matrix is None else torch.from_numpy(matrix)

    def __call__(self, utterances: Iterable[Utterance]) -> Iterator[Result]:
        log_prob, frames = 0.0, 0
        for key, scores in self._scores(utterances):
            if isinstance(scores, Nnet3Error):
                yield key, scores
                continue
            try:
                posteriors, own = posteriors_of(scores, 1, self._denominator)
            except NumericalError as error:
                yield key, error
                continue
            log_prob, frames = log_prob + own, frames + len(scores)
            yield key, posteriors if self._matrix is None else posteriors @ self._matrix.to(posteriors).T
        if frames:
            say(f"Overall log-prob per (output) frame was {log_prob / frames:g} over {frames} frames.")


def posteriors_of(output: Tensor, num_sequences: int, denominator: Denominator) -> tuple[Tensor, float]:
    """Returns posteriors (rows, pdfs) of an output, and the log-probability of all sequences.

    Raises NumericalError where they cannot be computed.
    """
    found = denominator.forward_backward(output, num_sequences)
    log_prob = float(found.log_probs.sum())
    if found.failed or not np.isfinite(log_prob) or found.posteriors is None:
        raise NumericalError(f"the denominator has the log-probability {log_prob:g}: the output is out of all bounds")
    return found.posteriors.reshape(output.shape), log_prob


def add_posteriors(
    model: str,
    den_fst: str,
    examples: str,
    output: str,
    *,
    kind: str,
    clip_threshold: float,
    apply_exp: bool,
    leaky_hmm_coefficient: float,
    batchnorm_test_mode: bool,
    dropout_test_mode: bool,
) -> None:
    """Writes chain examples with a network's output (`raw`) or posteriors (`den`) as a further input."""
    nnet = load_network_to(given_device(), model)
    denominator = load_denominator(den_fst, nnet, leaky_hmm_coefficient)
    outputs = ExampleOutputs(nnet, batchnorm_test_mode=batchnorm_test_mode, dropout_test_mode=dropout_test_mode)

    def added(key: str, example: ChainExample) -> ChainExample:
        first, minibatch = example.outputs[0], chain_minibatch(example, nnet.input_dims, key)
        rows = outputs.compute(Minibatch(minibatch.inputs, [WantedOutput(OUTPUT, _rows(example))], key))[OUTPUT]
        if kind == "den":
            rows, _ = posteriors_of(rows, first.supervision.num_sequences, denominator)
            rows = torch.where(rows.trunc().abs() < clip_threshold, 0.0, rows)  # as Kaldi: of the integer part
        elif apply_exp:
            rows = rows.exp()
        io = NnetIo(ADDED, indexes(0, len(rows), _STEP), rows.float().cpu().numpy())
        return replace(example, inputs=(*example.inputs, io))

    with ExampleReader(examples, CHAIN_EXAMPLES) as entries:
        changed = ((key, added(key, each) if kind in ("raw", "den") else each) for key, each in entries)
        count = write(CHAIN_EXAMPLES, output, changed)
    say(f"{count} examples written")


def _rows(example: ChainExample) -> np.ndarray:
    """Returns the indexes of `output`."""
    found: ChainTarget | None = next((target for target in example.outputs if target.name == OUTPUT), None)
    if found is None:
        raise TrainingError(f"it has no '{OUTPUT}', but {', '.join(target.name for target in example.outputs)}")
    return found.indexes
