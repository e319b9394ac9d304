"""Makes discriminative examples of tables, and trains and evaluates models on such examples."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from nnet3.base.kaldi_io.general import GeneralMatrix
from nnet3.base.kaldi_io.lattice import read_lattice
from nnet3.base.kaldi_io.table_values import (
    open_general_matrix_table,
    random_access_int_vectors,
    random_access_matrices,
)
from nnet3.base.kaldi_io.tables import RandomAccessTable
from nnet3.base.options.discriminative import DebuggingSums, DiscriminativeMakingOptions, DiscriminativeOptions
from nnet3.base.options.training import TrainerOptions
from nnet3.cli.device import given_device
from nnet3.cli.egs_tables import write
from nnet3.cli.egs_training import PlainFiles
from nnet3.cli.files import load_acoustic_model, load_transitions
from nnet3.cli.messages import say
from nnet3.cli.outputs_of_egs import minibatches_of
from nnet3.engine.driver import ComputationCache
from nnet3.errors import Nnet3Error
from nnet3.model.nnet import AcousticModel, Nnet
from nnet3.training.chain.example import chain_minibatch
from nnet3.training.discriminative.compute_objf import objf_lines, objf_sums
from nnet3.training.discriminative.lattice_example import DISCRIMINATIVE_EXAMPLES, DiscriminativeExample
from nnet3.training.discriminative.making import DiscriminativeExampleMaker, LatticeUtterance
from nnet3.training.discriminative.objective import DiscriminativeObjective
from nnet3.training.discriminative.trainer import DiscriminativeTrainer
from nnet3.training.examples.making import MakingStatistics, entry_of, examples_of
from nnet3.training.train.minibatch import Minibatch


def make(
    model: str,
    features: str,
    lattices: str,
    alignments: str,
    output: str,
    options: DiscriminativeMakingOptions,
    online_ivectors: str | None,
) -> None:
    """Writes the examples of chunks. Raises Nnet3Error if there are none, or if lattices and alignments do not fit."""
    maker = DiscriminativeExampleMaker(options, load_transitions(model))
    lattice_table = RandomAccessTable(lattices, read_lattice)
    alignment_table = random_access_int_vectors(alignments)
    ivector_table = random_access_matrices(online_ivectors) if online_ivectors else None

    def made(key: str, matrix: GeneralMatrix) -> list[tuple[str, DiscriminativeExample]]:
        lattice = entry_of(lattice_table, key, "denominator lattice")
        alignment = entry_of(alignment_table, key, "numerator alignment")
        ivectors = None if ivector_table is None else entry_of(ivector_table, key, "ivectors")
        return maker.make(LatticeUtterance(key, matrix, alignment, lattice, ivectors))

    counts = MakingStatistics()
    with open_general_matrix_table(features) as table:
        write(DISCRIMINATIVE_EXAMPLES, output, examples_of(table, made, counts), counts)
    say(f"{counts}; {maker.splitter.summary()}")


@dataclass
class DiscriminativeFiles(PlainFiles):
    """Discriminative examples; the objective takes priors and transitions of the model."""

    written = "raw nnet model"
    options: DiscriminativeOptions
    apply_deriv_weights: bool = True
    dropout_test_mode: bool = True
    _model: AcousticModel | None = field(default=None, init=False)

    @property
    def model(self) -> AcousticModel:
        """The acoustic model that was loaded."""
        assert self._model is not None, "load it first"
        return self._model

    def load(self, model: str) -> Nnet:
        """Returns the network of an acoustic model. Raises Nnet3Error for a raw network, or without NAME-xent."""
        self._model = load_acoustic_model(model)
        nnet = self._model.nnet.to(device=given_device())
        if self.options.xent_regularize and "output-xent" not in nnet.output_names:
            raise Nnet3Error(
                f"{model}: --xent-regularize needs an output 'output-xent', which the network does not have"
            )
        return nnet

    def objective(self, nnet: Nnet) -> DiscriminativeObjective:
        return DiscriminativeObjective.of_model(self.model, self.options, self.apply_deriv_weights)

    def trainer(self, nnet: Nnet, options: TrainerOptions, cache: ComputationCache) -> DiscriminativeTrainer:
        if self.dropout_test_mode:
            for _, leaf in (each for component in nnet.components.values() for each in component.leaves()):
                if not leaf.has_running_statistics:
                    leaf.set_test_mode(True)
        return DiscriminativeTrainer(nnet, options, self.objective(nnet), cache, say=say)

    def minibatches(self, rspecifier: str, nnet: Nnet) -> Iterator[Minibatch]:
        inputs = nnet.input_dims
        return minibatches_of(rspecifier, DISCRIMINATIVE_EXAMPLES, lambda each, key: chain_minibatch(each, inputs, key))


def compute_objf(
    model: str, examples: str, options: DiscriminativeOptions, debugging: DebuggingSums, **modes: bool
) -> None:
    """Says the objective that a model reaches on merged examples."""
    files = DiscriminativeFiles(options)
    nnet = files.load(model)
    criterion = files.objective(nnet).criterion
    sums = objf_sums(nnet, files.minibatches(examples, nnet), criterion, **modes)
    for line in objf_lines(sums, options.criterion, debugging):
        say(line)
