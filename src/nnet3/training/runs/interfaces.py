"""Interfaces between a run and its kinds of data and objectives.

Another kind is an entry in `KINDS` (kinds.py); nothing else in a run knows of kinds.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from nnet3.base.options.declaring import Options
from nnet3.errors import TrainingError
from nnet3.training.runs.settings import RunSettings, read_settings
from nnet3.training.runs.settings_text import SettingsText

if TYPE_CHECKING:
    from nnet3.model.nnet import Nnet
    from nnet3.training.train.lda_stats import Labelled
    from nnet3.training.train.objectives import Objective


class SettingError(TrainingError):
    """A key of a kind's own section has a value that cannot be meant; `train_model` says where it stands."""

    def __init__(self, key: str, message: str):
        super().__init__(f"{key}: {message}")
        self.key, self.message = key, message


@dataclass(frozen=True, eq=False)
class Placed:
    """A minibatch, and the reader's position after it.

    The minibatch is of the kind from which the run's network learns. `position`, of JSON values, is all that is needed
    to go on; `done` is the finished part of the epoch, 0 to 1; `keys` are the keys of the minibatch's examples.
    """

    minibatch: Any
    position: Any
    done: float
    keys: tuple[str, ...] = ()


@dataclass(frozen=True)
class Share:
    """This process's part of the data: one part of `size`, numbered from 0.

    `num_halved`: the first so many minibatches of each process are to have half the size.
    """

    rank: int = 0
    size: int = 1
    num_halved: int = 0


class DataSource(Protocol):
    """The data of a run, opened. Readers of the data may work in the background."""

    def training(self, epoch: int, position: Any) -> Generator[Placed]:
        """Yields the minibatches of an epoch (from 0), from a position in it on; equal calls, equal minibatches."""

    def validation(self) -> Iterable[Any]:
        """Returns held-out minibatches to watch; none if there are none."""

    def combination(self) -> Iterable[Any]:
        """Returns minibatches for the choice of the final model; perhaps none."""

    def identity(self) -> dict[str, Any]:
        """Returns JSON values that change when the data change: sizes of files, say."""

    def counts(self) -> dict[str, float]:
        """Returns numbers to report at the end of an epoch: damaged records left out, examples dropped, time waited."""

    def close(self) -> None:
        """Tells the source that no more minibatches are wanted."""


class DataKind(Protocol):
    """A kind of data; opens the data named by a section of settings."""

    def open(self, section: Any, nnet: Nnet, share: Share, seed: int) -> DataSource:
        """Returns opened data. Raises SettingError, or another Nnet3Error for data that is damaged or does not fit."""

    def labelled(self, section: Any, nnet: Nnet) -> Iterator[tuple[str, Iterator[Labelled]]]:
        """Yields an output node and training examples for it, for LDA of what `nnet` computes, table by table."""


@dataclass(frozen=True)
class RunObjectives:
    """The objectives of a run, for all networks of the same structure.

    `train` is maximised; `compare` is the part of `train` by which networks are watched and compared; `statistics`
    looks at all output nodes behind batch-norm. `gives_posteriors`: the node `output` is trained to give
    log-probabilities of pdfs.
    """

    train: Objective
    compare: Objective
    statistics: Objective
    gives_posteriors: bool = False


class ObjectiveKind(Protocol):
    """A kind of objective, made as a section of settings describes it."""

    def make(self, section: Any, nnet: Nnet) -> RunObjectives:
        """Returns objectives. Raises SettingError, or another Nnet3Error for objectives unfit for the network."""

    def identity(self, section: Any) -> dict[str, Any]:
        """Returns JSON values that change when files named by the section change."""


K = TypeVar("K")


@dataclass(frozen=True)
class Entry(Generic[K]):
    """A kind: the options of its section, and a function that returns the kind and may import modules for it."""

    section: type[Options]
    kind: Callable[[], K]


@dataclass(frozen=True)
class Kinds:
    """The kinds of data and objectives that settings may name; the first kinds are the defaults."""

    data: Mapping[str, Entry[DataKind]]
    objective: Mapping[str, Entry[ObjectiveKind]]

    @property
    def sections(self) -> tuple[dict[str, type[Options]], dict[str, type[Options]]]:
        """The sections of all kinds of data, and of all kinds of objectives."""
        return (
            {name: entry.section for name, entry in self.data.items()},
            {name: entry.section for name, entry in self.objective.items()},
        )

    def read(self, text: SettingsText) -> RunSettings:
        """Returns checked settings. Raises ConfigError."""
        return read_settings(text, *self.sections)
