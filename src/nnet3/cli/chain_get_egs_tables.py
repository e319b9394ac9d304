"""Makes chain examples of tables of features and supervision, and weights them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from nnet3.chain import CHAIN_EXAMPLES, ChainExample
from nnet3.chain.graphs.chunks import supervision_of_graph
from nnet3.chain.graphs.normalization import NormalizationWeights
from nnet3.chain.graphs.phone_hmms import TransitionTables
from nnet3.chain.making import ChainExampleMaker, Utterance, normalized
from nnet3.chain.supervision_file import read_supervision
from nnet3.cli.egs_tables import write
from nnet3.cli.files import load_transitions
from nnet3.cli.messages import say
from nnet3.errors import TrainingError
from nnet3.examples import ExampleReader, MakingStatistics
from nnet3.examples.making import entry_of
from nnet3.kaldi_io import (
    RandomAccessTable,
    load_fst,
    open_general_matrix_table,
    random_access_fsts,
    random_access_matrices,
    random_access_vectors,
)
from nnet3.options import ChainMakingOptions

T = TypeVar("T")
Made = Iterator[tuple[str, ChainExample]]


def make(
    normalization: str | None,
    features: str,
    supervision: str,
    output: str,
    options: ChainMakingOptions,
    *,
    transition_model: str | None,
    normalization_fst_scale: float,
    deriv_weights_rspecifier: str | None,
    online_ivectors: str | None,
) -> None:
    """Examples of chunks."""
    weights = _weights(normalization, normalization_fst_scale) if normalization else None
    transitions = TransitionTables(load_transitions(transition_model)) if transition_model else None
    maker = ChainExampleMaker(options, weights, transitions)
    supervisions = RandomAccessTable(supervision, read_supervision)

    def examples(utterance: Utterance) -> list[tuple[str, ChainExample]]:
        return maker.make(utterance, entry_of(supervisions, utterance.key, "supervision"))

    counts = MakingStatistics()
    made = _made(features, online_ivectors, deriv_weights_rspecifier, examples, counts)
    write(CHAIN_EXAMPLES, output, made, counts)
    say(f"{counts}; {maker.splitter.summary()}")


def make_end_to_end(
    normalization: str,
    features: str,
    graphs: str,
    model: str,
    output: str,
    options: ChainMakingOptions,
    *,
    normalization_fst_scale: float,
    online_ivectors: str | None,
) -> None:
    """Examples of whole utterances."""
    transitions = TransitionTables(load_transitions(model))
    maker = ChainExampleMaker(options, _weights(normalization, normalization_fst_scale))
    table = random_access_fsts(graphs)

    def examples(utterance: Utterance) -> list[tuple[str, ChainExample]]:
        graph = supervision_of_graph(entry_of(table, utterance.key, "training graph"), transitions.pdf_of_id)
        return [(utterance.key, maker.make_end_to_end(utterance, graph, transitions.num_pdfs))]

    counts = MakingStatistics()
    write(CHAIN_EXAMPLES, output, _made(features, online_ivectors, None, examples, counts), counts)
    say(str(counts))


def normalize(normalization: str, examples: str, output: str, scale: float) -> None:
    """Examples with weights."""
    weights = _weights(normalization, scale)
    counts = MakingStatistics()
    with ExampleReader(examples, CHAIN_EXAMPLES) as entries:
        write(CHAIN_EXAMPLES, output, _normalized(entries, weights, counts))
    say(f"{counts.examples} examples normalized; {counts.failed} could not be")


def _normalized(entries: ExampleReader[ChainExample], weights: NormalizationWeights, counts: MakingStatistics) -> Made:
    for key, example in entries:
        try:
            changed = normalized(example, weights)
        except TrainingError as error:
            counts.failed += 1
            say(f"warning: {key} is left out: {error}")
            continue
        counts.examples += 1
        yield key, changed


def _weights(normalization: str, scale: float) -> NormalizationWeights:
    return NormalizationWeights(load_fst(normalization), scale)


def _made(
    features: str,
    ivectors: str | None,
    deriv_weights: str | None,
    make_examples: Callable[[Utterance], list[tuple[str, ChainExample]]],
    counts: MakingStatistics,
) -> Made:
    """The examples of all utterances; one that cannot be used is warned of and left out."""
    ivector_table = random_access_matrices(ivectors) if ivectors else None
    weight_table = random_access_vectors(deriv_weights) if deriv_weights else None
    with open_general_matrix_table(features) as table:
        for key, matrix in table:
            counts.utterances += 1
            try:
                own = None if ivector_table is None else entry_of(ivector_table, key, "ivectors")
                weights = None if weight_table is None else entry_of(weight_table, key, "deriv-weights")
                examples = make_examples(Utterance(key, matrix, own, weights))
            except TrainingError as error:
                counts.failed += 1
                say(f"warning: {key} is left out: {error}")
                continue
            if not examples:
                counts.short += 1
                say(f"warning: {key} is left out: no chunk could be made of its {matrix.shape[0]} frames")
            counts.examples += len(examples)
            yield from examples
