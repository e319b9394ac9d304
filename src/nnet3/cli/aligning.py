"""Makes training graphs of tables of transcripts, and aligns tables of features with them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import numpy as np
from torch import Tensor

from nnet3.base.kaldi_io.fst import Fst
from nnet3.base.kaldi_io.fst_file import fst_writer, open_fst_table, read_fst
from nnet3.base.kaldi_io.specifiers import NO_TABLE, check_different
from nnet3.base.kaldi_io.table_values import (
    int_vector_writer,
    open_int_vector_table,
    random_access_matrices,
    real_writer,
    vector_writer,
)
from nnet3.base.kaldi_io.tables import TableReader
from nnet3.base.options.alignment import AlignmentOptions, TrainingGraphOptions
from nnet3.cli.compute_tables import ComputedTables, ComputeSettings, Ivectors, Utterance, batch_runner
from nnet3.cli.files import load_acoustic_model, load_transitions, load_tree, open_file, read_integers
from nnet3.cli.messages import LeftOut, say
from nnet3.errors import Nnet3Error
from nnet3.inference.scores import Scoring, log_priors
from nnet3.speech.search.alignment import Aligner, Alignment
from nnet3.training.chain.graphs.phone_hmms import PhoneHmms
from nnet3.training.chain.graphs.training_graph import TrainingGraphs

G = TypeVar("G")


def compile_graphs(
    said: str, output: str, tree: str, model: str, lexicon: str, disambiguation: str, options: TrainingGraphOptions,
    *, of_fsts: bool = False,
) -> int:  # fmt: skip
    """Writes the training graph of each transcript, or acceptor of words.

    Returns an exit status: 1 if there is no graph, but 0 for a table without acceptors, as in Kaldi.

    `disambiguation`: labels of the lexicon that are no phones, "" for none. Raises Nnet3Error for files that do not fit
    together.
    """
    hmms, left_out = PhoneHmms(load_tree(tree), load_transitions(model)), LeftOut()
    symbols = read_integers(disambiguation) if disambiguation else ()
    graphs = TrainingGraphs(hmms, read_fst(open_file(lexicon)), options, symbols)
    make: Callable[[Any], Fst] = graphs.make_of if of_fsts else graphs.make
    table: TableReader[Any] = open_fst_table(said) if of_fsts else open_int_vector_table(said)
    with table, fst_writer(output) as writer:
        for key, graph in left_out.each(table, lambda _, each: make(each)):
            writer.write(key, graph)
        say(f"succeeded for {writer.count} graphs, failed for {left_out.failed}")
        return int(writer.count == 0 and (left_out.failed > 0 or not of_fsts))


class WaitingToAlign(deque[tuple[G, int]]):
    """The transcripts of utterances in computation, with their numbers of frames."""


class AlignmentTally(LeftOut):
    """Utterances that were aligned, tried again, and left out; log-likelihoods and frames of the first."""

    def __init__(self) -> None:
        super().__init__()
        self.done = self.retried = self.frames = 0
        self.likelihood = 0.0

    def add(self, alignment: Alignment) -> None:
        """Counts an utterance that was aligned."""
        self.done += 1
        self.frames += len(alignment.transition_ids)
        self.likelihood += alignment.score


def align_tables(
    model: str, inputs: ComputedTables, options: AlignmentOptions, settings: ComputeSettings,
    *, graphs: str, alignments: str, scores: str, loglikes: str,
) -> int:  # fmt: skip
    """Aligns all utterances that have a graph. Returns 1, an exit status, if none could be aligned, else 0.

    Tables of scores and of log-likelihoods may be "".
    """
    check_different(alignments, scores, loglikes)
    acoustic = load_acoustic_model(model)
    compute = batch_runner(
        acoustic.nnet.to(device=settings.device), Scoring(log_priors(acoustic), options.acoustic_scale), settings
    )
    aligner, tally, waiting = Aligner(acoustic.transition_model, options), AlignmentTally(), WaitingToAlign[Fst]()
    with (
        open_fst_table(graphs) as said,
        int_vector_writer(alignments) as aligned,
        real_writer(scores or NO_TABLE) as scored,
        vector_writer(loglikes or NO_TABLE) as likely,
    ):
        computed = compute(utterances_to_align(said, inputs, waiting, tally))
        for key, alignment in tally.each(
            computed, lambda key, rows: _aligned(aligner, key, waiting.popleft()[0], rows, tally)
        ):
            tally.add(alignment)
            aligned.write(key, alignment.transition_ids)
            scored.write(key, alignment.score)
            likely.write(key, alignment.acoustic / np.float32(options.acoustic_scale))
    report(tally, options)
    return int(tally.done == 0)


def report(tally: AlignmentTally, options: AlignmentOptions) -> None:
    average = tally.likelihood / options.acoustic_scale / tally.frames if tally.frames else np.nan
    say(f"Overall log-likelihood per frame is {average:g} over {tally.frames} frames.")
    say(f"Retried {tally.retried} out of {tally.done + tally.failed} utterances.")
    say(f"Done {tally.done}, errors on {tally.failed}")


def utterances_to_align(
    graphs: Iterable[tuple[str, G]], inputs: ComputedTables, waiting: WaitingToAlign[G], tally: AlignmentTally
) -> Iterator[Utterance]:
    """Yields the utterances to compute, in the order of the graphs, which wait with their numbers of frames."""
    features, ivectors = random_access_matrices(inputs.features), Ivectors(inputs.ivectors)

    def utterance(key: str, graph: G) -> Utterance:
        matrix = features.get(key)
        if matrix is None:
            raise Nnet3Error("there are no features for it")
        found = key, matrix, *ivectors.of(key)
        waiting.append((graph, len(matrix)))
        return found

    return (found for _, found in tally.each(graphs, utterance))


def _aligned(aligner: Aligner, key: str, graph: Fst, rows: Tensor | Nnet3Error, tally: AlignmentTally) -> Alignment:
    """Returns the alignment of an utterance. Raises Nnet3Error if there is none."""
    options, scores = aligner.options, scores_of(rows)
    alignment = aligner.align(graph, scores, options.beam)
    if alignment is None and options.retry_beam > 0:
        say(f"warning: utterance '{key}' is tried again with beam {options.retry_beam:g}")
        tally.retried += 1
        alignment = aligner.align(graph, scores, options.retry_beam)
    if alignment is None:
        raise Nnet3Error(f"no path of its graph comes to an end with its {len(scores)} rows")
    return alignment


def scores_of(rows: Tensor | Nnet3Error) -> np.ndarray:
    """Returns computed scores, (rows, columns). Raises `rows` if it is an error."""
    if isinstance(rows, Nnet3Error):
        raise rows
    return np.asarray(rows.float().cpu())
