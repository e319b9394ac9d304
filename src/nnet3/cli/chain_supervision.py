"""What `nnet3 chain-get-supervision` does with its tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from nnet3.chain.graphs.phone_hmms import PhoneHmms
from nnet3.chain.graphs.supervising import supervise
from nnet3.chain.graphs.timed_phones import TimedPhones, phones_of_durations, phones_of_lattice
from nnet3.chain.supervision import Supervision
from nnet3.chain.supervision_file import write_supervision
from nnet3.cli.chain_graphs import load_hmms
from nnet3.cli.messages import say
from nnet3.errors import TrainingError
from nnet3.kaldi_io import TableReader, TableWriter, open_pair_table
from nnet3.kaldi_io.lattice import open_lattice_table
from nnet3.options import SupervisingOptions

T = TypeVar("T")


def make(
    tree: str,
    model: str,
    phones: str,
    output: str,
    lattice_input: bool,
    settings: SupervisingOptions,
) -> int:
    """Write the supervision of all utterances; the exit status."""
    hmms = load_hmms(tree, model)
    with TableWriter(output, write_supervision) as writer:
        if lattice_input:
            table = open_lattice_table(phones)
            failed = _write(
                table, lambda lattice: phones_of_lattice(lattice, settings.lm_scale), hmms, settings, writer
            )
        else:
            failed = _write(open_pair_table(phones), phones_of_durations, hmms, settings, writer)
    say(f"supervision of {writer.count} utterances; {failed} could not be used")
    return 0 if writer.count > failed else 1


def _write(
    table: TableReader[T],
    phones_of: Callable[[T], TimedPhones],
    hmms: PhoneHmms,
    settings: SupervisingOptions,
    writer: TableWriter[Supervision],
) -> int:
    """How many utterances could not be used."""
    failed = 0
    with table:
        for key, value in table:
            try:
                supervision = supervise(phones_of(value), hmms, settings)
            except TrainingError as error:
                failed += 1
                say(f"warning: {key} is left out: {error}")
                continue
            writer.write(key, supervision)
    return failed
