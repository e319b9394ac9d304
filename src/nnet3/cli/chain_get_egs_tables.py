"""Makes chain examples of tables of features and supervision, and weights them."""

from __future__ import annotations

from collections.abc import Callable

from nnet3.base.kaldi_io.fst_file import load_fst, random_access_fsts
from nnet3.base.kaldi_io.general import GeneralMatrix, dense
from nnet3.base.kaldi_io.table_values import open_general_matrix_table, random_access_matrices, random_access_vectors
from nnet3.base.kaldi_io.tables import RandomAccessTable
from nnet3.base.options.examples import ChainMakingOptions
from nnet3.cli.egs_tables import write
from nnet3.cli.files import load_transitions
from nnet3.cli.messages import LeftOut, say
from nnet3.training.chain.example import CHAIN_EXAMPLES, ChainExample
from nnet3.training.chain.graphs.chunks import supervision_of_graph
from nnet3.training.chain.graphs.normalization import NormalizationWeights
from nnet3.training.chain.graphs.phone_hmms import TransitionTables
from nnet3.training.chain.making import ChainExampleMaker, Utterance, normalized
from nnet3.training.chain.supervision_file import read_supervision
from nnet3.training.examples.example import ExampleReader
from nnet3.training.examples.making import MakingStatistics, entry_of, examples_of

_SHORT = "no chunk could be made of its %d frames"  # or the normalization graph has none of their sequences


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

    utterance = _utterances(online_ivectors, deriv_weights_rspecifier)

    def made(key: str, matrix: GeneralMatrix) -> list[tuple[str, ChainExample]]:
        return maker.make(utterance(key, matrix), entry_of(supervisions, key, "supervision"))

    say(f"{_write(features, made, output)}; {maker.splitter.summary()}")


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

    utterance = _utterances(online_ivectors)

    def made(key: str, matrix: GeneralMatrix) -> list[tuple[str, ChainExample]]:
        whole = utterance(key, dense(matrix))  # Kaldi decodes these, and compresses them again
        graph = supervision_of_graph(entry_of(table, key, "training graph"), transitions.pdf_of_id)
        return [(key, maker.make_end_to_end(whole, graph, transitions.num_pdfs))]

    say(str(_write(features, made, output)))


def _write(
    features: str, make: Callable[[str, GeneralMatrix], list[tuple[str, ChainExample]]], output: str
) -> MakingStatistics:
    counts = MakingStatistics()
    with open_general_matrix_table(features) as table:
        write(CHAIN_EXAMPLES, output, examples_of(table, make, counts, _SHORT), counts)
    return counts


def normalize(normalization: str, examples: str, output: str, scale: float) -> None:
    """Examples with weights."""
    weights, left_out = _weights(normalization, scale), LeftOut("{} is left out: {}")
    with ExampleReader(examples, CHAIN_EXAMPLES) as entries:
        made = left_out.each(entries, lambda _, example: normalized(example, weights))
        count = write(CHAIN_EXAMPLES, output, made)
    say(f"{count} examples normalized; {left_out.failed} could not be")


def _weights(normalization: str, scale: float) -> NormalizationWeights:
    return NormalizationWeights(load_fst(normalization), scale)


def _utterances(ivectors: str | None, deriv_weights: str | None = None) -> Callable[[str, GeneralMatrix], Utterance]:
    """Returns a function from key and features to an utterance, with TrainingError for missing entries."""
    ivector_table = random_access_matrices(ivectors) if ivectors else None
    weight_table = random_access_vectors(deriv_weights) if deriv_weights else None

    def utterance(key: str, features: GeneralMatrix) -> Utterance:
        own = None if ivector_table is None else entry_of(ivector_table, key, "ivectors")
        weights = None if weight_table is None else entry_of(weight_table, key, "deriv-weights")
        return Utterance(key, features, own, weights)

    return utterance
