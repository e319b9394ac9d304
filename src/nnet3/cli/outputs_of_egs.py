"""Tables of training examples: as minibatches, networks' outputs for the examples, statistics of outputs for LDA."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

import click
from torch import Tensor

from nnet3.base.kaldi_io.replacing import MODEL
from nnet3.base.kaldi_io.table_values import matrix_writer
from nnet3.base.kaldi_io.writer import Writer
from nnet3.base.options.training import FeatureTransformOptions
from nnet3.cli.device import given_device
from nnet3.cli.files import check_can_save, load_network_to, numbers_kind, open_file, save, save_model, save_together
from nnet3.cli.messages import say
from nnet3.errors import Nnet3Error, TrainingError
from nnet3.model.nnet import Nnet
from nnet3.training.chain.example import CHAIN_EXAMPLES, chain_minibatch, labelled_by_pdf
from nnet3.training.discriminative.lattice_example import DISCRIMINATIVE_EXAMPLES
from nnet3.training.examples.example import EXAMPLES, ExampleKind, ExampleReader
from nnet3.training.train.compute_prob import gradient_lines
from nnet3.training.train.evaluation import ExampleOutputs
from nnet3.training.train.lda_stats import (
    Labelled,
    LdaStats,
    accumulated,
    estimate_transform,
    labelled_by_class,
    packed,
)
from nnet3.training.train.minibatch import Minibatch
from nnet3.training.train.to_minibatch import to_minibatch, to_unlabelled

E = TypeVar("E")


def minibatches(rspecifier: str, nnet: Nnet) -> Iterator[Minibatch]:
    """Yields the (merged) examples of a table as minibatches for the network."""
    inputs, outputs = nnet.input_dims, nnet.output_dims
    return minibatches_of(rspecifier, EXAMPLES, lambda example, key: to_minibatch(example, inputs, outputs, key))


def minibatches_of(
    rspecifier: str, kind: ExampleKind[E], prepare: Callable[[E, str], Minibatch]
) -> Iterator[Minibatch]:
    """Yields the minibatches that `prepare` makes of a table's examples and keys. Errors name the table and the key."""
    with ExampleReader(rspecifier, kind) as examples:
        for key, example in examples:
            try:
                made = prepare(example, key)
            except TrainingError as error:
                raise TrainingError(f"{rspecifier}: the entry '{key}': {error}") from None
            yield made


def network_to_measure(model: str, output: str, gradient: bool) -> Nnet:
    """Returns the network of a model. `output`: where its gradient will be written, "" for nowhere.

    Raises click.UsageError if no gradient is asked for, Nnet3Error if it could not be written.
    """
    if output and not gradient:
        raise click.UsageError(f"'{output}' would have the gradient: say --compute-deriv=true")
    check_can_save(MODEL, output)
    return load_network_to(given_device(), model)


def report_gradient(gradient: Nnet | None, output: str) -> None:
    """Prints the norms of a gradient, if any, and writes the gradient if `output` is a name."""
    if gradient is None:
        return
    for line in gradient_lines(gradient):
        say(line)
    if output:
        save_model(gradient, output, True)


def write_outputs(
    device: str, model: str, examples: str, output: str, node: str, exponentiate: bool, *, of_lattices: bool = False
) -> None:
    """Writes the rows of an output node for each example, for an empty table an empty table.

    `of_lattices`: the examples are discriminative ones. Raises Nnet3Error if an example lacks the output.
    """
    nnet = load_network_to(device, model)
    if node not in nnet.output_names:
        raise Nnet3Error(f"{model}: there is no output '{node}': the network has {', '.join(nnet.output_names)}")
    with matrix_writer(output) as writer:
        for key, outputs in _outputs(nnet, examples, of_lattices):
            if node not in outputs:
                raise Nnet3Error(f"{examples}: the entry '{key}' has no output '{node}', but {', '.join(outputs)}")
            rows = outputs[node].exp() if exponentiate else outputs[node]
            writer.write(key, rows.cpu().numpy())
        say(f"Processed {writer.count} examples.")


def _outputs(nnet: Nnet, examples: str, of_lattices: bool) -> Iterator[tuple[str, dict[str, Tensor]]]:
    inputs, names, computer = nnet.input_dims, nnet.output_names, ExampleOutputs(nnet)
    found = (
        minibatches_of(examples, DISCRIMINATIVE_EXAMPLES, lambda example, key: chain_minibatch(example, inputs, key))
        if of_lattices
        else minibatches_of(examples, EXAMPLES, lambda example, key: to_unlabelled(example.ios, inputs, names, key))
    )
    for minibatch in found:
        yield minibatch.key, computer.compute(minibatch)


def accumulate(
    network: str, examples: str, output: str, rand_prune: float, binary: bool, *, chain: bool = False
) -> None:
    """Writes statistics of the outputs that a network has for examples, by the classes or pdfs of their supervision."""
    check_can_save(MODEL, output)
    nnet = load_network_to(given_device(), network)
    kind: ExampleKind[Any] = CHAIN_EXAMPLES if chain else EXAMPLES
    labelled: Callable[[str, Any], Labelled] = labelled_by_pdf(nnet) if chain else labelled_by_class(nnet)
    with ExampleReader(examples, kind) as table:
        stats, count = accumulated(nnet, (labelled(*entry) for entry in table), rand_prune)
    if stats is None:
        raise Nnet3Error(f"{examples}: {f'{count} examples have no weight' if count else 'there are no examples'}")
    say(f"Processed {count} examples.")
    save(output, binary, stats.write_to)
    say(f"Accumulated stats, soft frame count = {stats.zero.sum():g}.  Wrote to {output}")


def add_files(inputs: Sequence[str], output: str, binary: bool) -> None:
    """Writes the sum of statistics in files."""
    save(output, binary, _sum_of_files(inputs).write_to)
    say(f"Summed {len(inputs)} LDA stats, wrote to {output}")


def write_transform(
    inputs: Sequence[str], output: str, binary: bool, options: FeatureTransformOptions, cholesky: str, within: str
) -> None:
    """Writes the transform of the statistics in files; where they are named, the covariance within classes too."""
    check_can_save(numbers_kind(binary), cholesky, within, output)
    transform = estimate_transform(_sum_of_files(inputs), options)
    for line in transform.log:
        say(line)
    factor = transform.cholesky
    covariances = ((name, packed(matrix)) for name, matrix in ((cholesky, factor), (within, factor @ factor.T)) if name)
    save_together(
        binary,
        *((name, partial(Writer.packed, elements=triangle)) for name, triangle in covariances),
        (output, lambda writer: writer.matrix(transform.matrix)),
    )


def _sum_of_files(names: Sequence[str]) -> LdaStats:
    total = None
    for name in names:
        own = open_file(name).whole(LdaStats.read)
        try:
            total = own if total is None else total + own
        except TrainingError as error:
            raise Nnet3Error(f"{name}: {error}") from None
    assert total is not None
    return total
