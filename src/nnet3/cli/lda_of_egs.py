"""Statistics for LDA of tables of examples, and the transform that they give."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from nnet3.chain import CHAIN_EXAMPLES, ChainExample
from nnet3.chain.numerator import pdf_weights
from nnet3.cli.files import load_network_to, open_file
from nnet3.cli.messages import say
from nnet3.errors import Nnet3Error, TrainingError
from nnet3.examples import EXAMPLES, Example, ExampleReader
from nnet3.kaldi_io import SparseMatrix, Writer, write_wxfilename
from nnet3.kaldi_io.sparse import sparse_of
from nnet3.nnet import Nnet
from nnet3.options import FeatureTransformOptions
from nnet3.train.example_outputs import ExampleOutputs
from nnet3.train.feature_transform import estimate_transform
from nnet3.train.lda_stats import LdaStats, packed, pruned
from nnet3.train.minibatch import Minibatch, WantedOutput
from nnet3.train.to_minibatch import to_input, to_unlabelled

_SEED = 0
_Labelled = tuple[Minibatch, SparseMatrix]  # what to compute, and the class weights of the rows of `output`


def accumulate(device: str, network: str, examples: str, output: str, rand_prune: float, binary: bool) -> None:
    """Writes statistics of the outputs that a network has for examples, by the classes of their supervision."""
    nnet = load_network_to(device, network)
    inputs, names = nnet.input_dims, nnet.output_names

    def labelled(key: str, example: Example) -> _Labelled:
        weights = next((io.matrix for io in example.ios if io.name == "output"), None)
        if weights is None:
            raise TrainingError("there is no 'output' in the example")
        return to_unlabelled(example.ios, inputs, names, key), sparse_of(weights)

    with ExampleReader(examples, EXAMPLES) as table:
        _accumulate(nnet, examples, (labelled(*entry) for entry in table), output, rand_prune, binary)


def accumulate_chain(device: str, network: str, examples: str, output: str, rand_prune: float, binary: bool) -> None:
    """Writes statistics of the outputs that a network has for chain examples, by the pdfs of their supervision."""
    nnet = load_network_to(device, network)

    def labelled(key: str, example: ChainExample) -> _Labelled:
        if len(example.outputs) != 1:
            raise TrainingError(f"a chain example of one output is expected, not of {len(example.outputs)}")
        target = example.outputs[0]
        inputs = [to_input(io, nnet.input_dims) for io in example.inputs if io.name in nnet.input_dims]
        return Minibatch(inputs, [WantedOutput("output", target.indexes)], key), pdf_weights(target.supervision)

    with ExampleReader(examples, CHAIN_EXAMPLES) as table:
        _accumulate(nnet, examples, (labelled(*entry) for entry in table), output, rand_prune, binary)


def _accumulate(
    nnet: Nnet, source: str, examples: Iterator[_Labelled], output: str, rand_prune: float, binary: bool
) -> None:
    computer, rng, total, count = ExampleOutputs(nnet), np.random.default_rng(_SEED), None, 0
    for minibatch, weights in examples:
        features = computer.compute(minibatch)["output"].cpu().numpy()
        own = LdaStats.of_rows(features, pruned(weights, rand_prune, rng))
        total = own if total is None else total + own
        count += 1
    if total is None or total.zero.sum() == 0:
        raise Nnet3Error(f"{source}: {f'{count} examples have no weight' if count else 'there are no examples'}")
    say(f"Processed {count} examples.")
    _save(output, total.write_to, binary)
    say(f"Accumulated stats, soft frame count = {total.zero.sum():g}.  Wrote to {output}")


def add_files(inputs: Sequence[str], output: str, binary: bool) -> None:
    """Writes the sum of statistics in files."""
    _save(output, _sum_of_files(inputs).write_to, binary)
    say(f"Summed {len(inputs)} LDA stats, wrote to {output}")


def write_transform(
    inputs: Sequence[str], output: str, binary: bool, options: FeatureTransformOptions, cholesky: str, within: str
) -> None:
    """Writes the transform of the statistics in files; where they are named, the covariance within classes too."""
    transform = estimate_transform(_sum_of_files(inputs), options)
    for line in transform.log:
        say(line)
    factor = transform.cholesky
    if cholesky:
        _save(cholesky, lambda writer: writer.packed(packed(factor)), binary)
    if within:
        _save(within, lambda writer: writer.packed(packed(factor @ factor.T)), binary)
    _save(output, lambda writer: writer.matrix(transform.matrix), binary)


def _sum_of_files(names: Sequence[str]) -> LdaStats:
    total = None
    for name in names:
        reader = open_file(name)
        own = LdaStats.read(reader)
        reader.finish()
        try:
            total = own if total is None else total + own
        except TrainingError as error:
            raise Nnet3Error(f"{name}: {error}") from None
    assert total is not None
    return total


def _save(name: str, write: Callable[[Writer], None], binary: bool) -> None:
    writer = Writer.of_file(binary)
    write(writer)
    write_wxfilename(name, writer)
