"""Kinds of data in archives of examples, read and prepared in the background: `frames`, `chain`, `discriminative`."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Any, Generic, TypeVar

from nnet3.errors import TrainingError
from nnet3.model.nnet import Nnet
from nnet3.training.chain.changes import ChainChanges
from nnet3.training.chain.example import CHAIN_EXAMPLES, ChainExample, chain_minibatch, labelled_by_pdf
from nnet3.training.discriminative.lattice_example import DISCRIMINATIVE_EXAMPLES, DiscriminativeExample
from nnet3.training.examples.example import EXAMPLES, Example, ExampleKind, ExampleReader
from nnet3.training.examples.merging import short
from nnet3.training.examples.sequence_example import SequenceExample
from nnet3.training.examples.source import MinibatchSource, NoMinibatchesError, Position, SourceOptions
from nnet3.training.runs.data_kinds import AS_IT_IS, ArchivesSection, ChainExamplesSection
from nnet3.training.runs.interfaces import DataSource, Placed, SettingError, Share
from nnet3.training.train.lda_stats import Labelled, labelled_by_class
from nnet3.training.train.minibatch import Minibatch
from nnet3.training.train.to_minibatch import to_minibatch

E = TypeVar("E")
S = TypeVar("S", bound=SequenceExample[Any])


class ArchiveSource(Generic[E]):
    """Data of a run in archives of examples of any kind.

    `prepare` makes a minibatch of a merged example and its key; `change`, if given, turns an example into its form in
    an epoch (from 0). The examples of an epoch that make minibatches are counted at the beginning, by reading all
    examples once: schedules depend on the part of the examples done.
    """

    def __init__(
        self,
        section: ArchivesSection,
        kind: ExampleKind[E],
        prepare: Callable[[E, str], Minibatch],
        share: Share,
        seed: int,
        change: Callable[[E, int], E] | None = None,
    ):
        if not section.train:
            raise SettingError("train", "expected tables of training examples such as ark:train.ark, got none")
        self._section, self._kind, self._prepare = section, kind, prepare
        if share.num_halved and section.minibatch_size == AS_IT_IS:
            raise SettingError(
                "minibatch-size", f"{AS_IT_IS} cannot be halved: leave out halve-first-round, or give a rule"
            )
        options = SourceOptions(
            minibatch_size=_rule(section.minibatch_size),
            on_damage="skip" if section.on_damage == "skip" else "error",
            ahead=section.ahead,
            seed=seed,
        )
        self._options = options
        options = replace(options, rank=share.rank, num_ranks=share.size)
        with _naming("train"):
            of_table = _for_tables(kind, section.train_outputs, section.train_weights)
            counted = MinibatchSource(section.train, kind, prepare, options, of_table=of_table)
            self._per_epoch, self._examples_per_epoch = counted.count()
        self._num_examples, self._num_damaged = counted.statistics.num_examples, counted.num_damaged
        self._checksums = counted.checksums
        for key in ("valid", "combine"):
            with _naming(key), closing(self._held_out(key)) as held_out:
                next(held_out, None)  # what is wrong with them is found now, not at the end of an epoch
        options = replace(options, shuffle_buffer=section.shuffle_buffer, num_halved=share.num_halved)
        mixed = counted.table_sizes if section.train_outputs else None
        stored = counted.stored
        self._training = MinibatchSource(section.train, kind, prepare, options, change, of_table, mixed, stored)
        self._idle_share = 0.0

    def training(self, epoch: int, position: Any) -> Generator[Placed]:
        first = Position(epoch, 0 if position is None else position)
        with self._training.epoch(first) as items:
            for item in items:
                number = item.position.minibatch
                minibatch = _named(item.minibatch, item.example_keys)
                done = min(item.examples_done / self._examples_per_epoch, 1.0)  # halved minibatches may discard fewer
                yield Placed(minibatch, number, done, item.example_keys)
            self._idle_share = items.idle_share

    def validation(self) -> Iterator[Minibatch]:
        return self._held_out("valid")

    def combination(self) -> Iterator[Minibatch]:
        return self._held_out("combine" if self._section.combine else "valid")

    def identity(self) -> dict[str, Any]:
        tables = zip(self._section.train, self._checksums, strict=True)
        checksums = {f"checksum of {table}": f"{checksum:08x}" for table, checksum in tables}
        return {"training examples": self._num_examples, "minibatches": self._per_epoch, **checksums}

    def counts(self) -> dict[str, float]:
        counts = {"damaged": self._num_damaged, "discarded": self._training.statistics.num_discarded}
        return {name: count for name, count in counts.items() if count} | {"idle_share": round(self._idle_share, 5)}

    def close(self) -> None:
        """Does nothing: each epoch closes its own files."""

    def _held_out(self, key: str) -> Generator[Minibatch]:
        tables = getattr(self._section, key)
        if not tables:
            return
        options = replace(self._options, minibatch_size=_rule(self._section.valid_minibatch_size))
        of_table = _for_tables(self._kind, getattr(self._section, f"{key}_outputs"), ())
        source = MinibatchSource(tables, self._kind, self._prepare, options, of_table=of_table)
        with source.epoch(Position()) as items:
            for item in items:
                yield _named(item.minibatch, item.example_keys)


def _for_tables(kind: ExampleKind[E], outputs: Sequence[str], weights: Sequence[float]) -> Callable[[E, int], E] | None:
    """Returns a function that gives an example, by its table's number, the output and the weight of the table."""
    if not outputs and not weights:
        return None

    def of_table(example: E, number: int) -> E:
        if weights and weights[number] != 1.0:
            example = kind.weighted(example, weights[number])
        return kind.renamed(example, outputs[number]) if outputs else example

    return of_table


def _check_outputs(section: ArchivesSection, nnet: Nnet) -> None:
    """Raises SettingError for outputs of tables that the network does not have."""
    known = nnet.output_names
    for kind in ("train", "valid", "combine"):
        for name in getattr(section, f"{kind}_outputs"):
            if name not in known:
                raise SettingError(f"{kind}-outputs", f"the network has no output '{name}'; it has {', '.join(known)}")


@contextmanager
def _naming(key: str) -> Iterator[None]:
    """Makes errors within it name the key of the settings whose tables have no minibatches."""
    try:
        yield
    except NoMinibatchesError as error:
        raise SettingError(key, str(error)) from None


def _named(minibatch: Minibatch, keys: Sequence[str]) -> Minibatch:
    """Returns the minibatch with a key for finding its examples."""
    return replace(minibatch, key=short(keys))


def _labelled(
    section: ArchivesSection, kind: ExampleKind[E], labelled: Callable[[str, E], Labelled]
) -> Iterator[tuple[str, Iterator[Labelled]]]:
    outputs = section.train_outputs or ["output"] * len(section.train)
    for table, output in zip(section.train, outputs, strict=True):
        with ExampleReader(table, kind, "skip" if section.on_damage == "skip" else "error") as examples:
            yield output, (labelled(*entry) for entry in examples)


def _rule(text: str) -> str | None:
    return None if text == AS_IT_IS else text


class FramesKind:
    """Examples whose supervision is a matrix (Kaldi's `<Nnet3Eg>`)."""

    def open(self, section: ArchivesSection, nnet: Nnet, share: Share, seed: int) -> DataSource:
        _check_outputs(section, nnet)
        inputs, outputs = nnet.input_dims, nnet.output_dims

        def prepare(example: Example, key: str) -> Minibatch:
            return to_minibatch(example, inputs, outputs, key)

        return ArchiveSource(section, EXAMPLES, prepare, share, seed)

    def labelled(self, section: ArchivesSection, nnet: Nnet) -> Iterator[tuple[str, Iterator[Labelled]]]:
        return _labelled(section, EXAMPLES, labelled_by_class(nnet))


class _SequencesKind(Generic[S]):
    """Examples whose supervision is of sequences; `kind` says which."""

    kind: ExampleKind[S]

    def open(self, section: ChainExamplesSection, nnet: Nnet, share: Share, seed: int) -> DataSource:
        _check_outputs(section, nnet)
        inputs = nnet.input_dims

        def prepare(example: S, key: str) -> Minibatch:
            return chain_minibatch(example, inputs, key)

        def change(example: S, epoch: int) -> S:
            return ChainChanges(frame_shift=epoch % section.frame_shifts).apply(example)

        shifted = change if section.frame_shifts > 1 else None
        return ArchiveSource(section, self.kind, prepare, share, seed, shifted)


class DiscriminativeExamplesKind(_SequencesKind[DiscriminativeExample]):
    """Examples of discriminative training (docs/discriminative.md)."""

    kind = DISCRIMINATIVE_EXAMPLES

    def labelled(self, section: ChainExamplesSection, nnet: Nnet) -> Iterator[tuple[str, Iterator[Labelled]]]:
        raise TrainingError(
            "discriminative examples are for networks that are trained already: leave out [lda], which is for new ones"
        )


class ChainExamplesKind(_SequencesKind[ChainExample]):
    """Examples of sequence training (docs/chain.md)."""

    kind = CHAIN_EXAMPLES

    def labelled(self, section: ChainExamplesSection, nnet: Nnet) -> Iterator[tuple[str, Iterator[Labelled]]]:
        return _labelled(section, CHAIN_EXAMPLES, labelled_by_pdf(nnet))
