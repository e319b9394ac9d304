"""Statistics for LDA of tables of examples, and the transform that they give."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from nnet3.chain import CHAIN_EXAMPLES
from nnet3.chain.lda_of_examples import labelled_by_pdf
from nnet3.cli.files import load_network_to, open_file, save
from nnet3.cli.messages import say
from nnet3.errors import Nnet3Error, TrainingError
from nnet3.examples import EXAMPLES, ExampleKind, ExampleReader
from nnet3.nnet import Nnet
from nnet3.options import FeatureTransformOptions
from nnet3.train.lda_of_examples import Labelled, accumulated, labelled_by_class
from nnet3.train.lda_stats import LdaStats, estimate_transform, packed

E = TypeVar("E")


def accumulate(device: str, network: str, examples: str, output: str, rand_prune: float, binary: bool) -> None:
    """Writes statistics of the outputs that a network has for examples, by the classes of their supervision."""
    nnet = load_network_to(device, network)
    _accumulate(nnet, examples, EXAMPLES, labelled_by_class(nnet), output, rand_prune, binary)


def accumulate_chain(device: str, network: str, examples: str, output: str, rand_prune: float, binary: bool) -> None:
    """Writes statistics of the outputs that a network has for chain examples, by the pdfs of their supervision."""
    nnet = load_network_to(device, network)
    _accumulate(nnet, examples, CHAIN_EXAMPLES, labelled_by_pdf(nnet), output, rand_prune, binary)


def _accumulate(
    nnet: Nnet,
    source: str,
    kind: ExampleKind[E],
    labelled: Callable[[str, E], Labelled],
    output: str,
    rand_prune: float,
    binary: bool,
) -> None:
    with ExampleReader(source, kind) as table:
        stats, count = accumulated(nnet, (labelled(*entry) for entry in table), rand_prune)
    if stats is None:
        raise Nnet3Error(f"{source}: {f'{count} examples have no weight' if count else 'there are no examples'}")
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
    transform = estimate_transform(_sum_of_files(inputs), options)
    for line in transform.log:
        say(line)
    factor = transform.cholesky
    if cholesky:
        save(cholesky, binary, lambda writer: writer.packed(packed(factor)))
    if within:
        save(within, binary, lambda writer: writer.packed(packed(factor @ factor.T)))
    save(output, binary, lambda writer: writer.matrix(transform.matrix))


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
