"""What a run asks of kinds of data and of objectives, and the kinds that there are.

Another kind is an entry in `KINDS` (kinds.py); nothing else in a run knows of kinds.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from nnet3.errors import TrainingError
from nnet3.options import Options
from nnet3.runs.settings import RunSettings, read_settings
from nnet3.runs.settings_text import SettingsText

if TYPE_CHECKING:
    from nnet3.nnet import Nnet
    from nnet3.train.minibatch import Minibatch
    from nnet3.train.objectives import Objective


class SettingError(TrainingError):
    """A key of a kind's own section has a value that cannot be meant; `train_model` says where it stands."""

    def __init__(self, key: str, message: str):
        super().__init__(f"{key}: {message}")
        self.key, self.message = key, message


@dataclass(frozen=True, eq=False)
class Placed:
    """A minibatch, and where the reader stands after it: `position` is made of JSON values and all that is needed to
    go on; `done` is the part of the epoch that is over, 0 to 1; `keys` are those of its examples.
    """

    minibatch: Minibatch
    position: Any
    done: float
    keys: tuple[str, ...] = ()


@dataclass(frozen=True)
class Share:
    """Which part of the data is this process's: one of `size`, numbered from 0."""

    rank: int = 0
    size: int = 1


class DataSource(Protocol):
    """Opened data of a run. Readers of it may work in the background."""

    def training(self, epoch: int, position: Any) -> Generator[Placed]:
        """The minibatches of an epoch (from 0), or those after a position in it. Equal calls give equal minibatches."""

    def validation(self) -> Iterable[Minibatch]:
        """Held-out minibatches to watch; none if there are none."""

    def combination(self) -> Iterable[Minibatch]:
        """Minibatches by which the final model is chosen; none if there are none."""

    def identity(self) -> dict[str, Any]:
        """JSON values that change when the data change: sizes of files, say."""

    def counts(self) -> dict[str, float]:
        """What is worth reporting at the end of an epoch: damaged records left out, examples dropped, time waited."""

    def close(self) -> None:
        """No minibatch is wanted any more."""


class DataKind(Protocol):
    """A kind of data: how to open what a section of settings names."""

    def open(self, section: Any, nnet: Nnet, share: Share, seed: int) -> DataSource:
        """Raises SettingError, or another Nnet3Error for what cannot be read or does not fit the network."""


@dataclass(frozen=True)
class RunObjectives:
    """`train`: what is maximised; `compare`: the part of it by which networks are watched and compared; `statistics`:
    one that looks at all output nodes that batch-norm lies before. They serve all networks of the same structure.
    """

    train: Objective
    compare: Objective
    statistics: Objective


class ObjectiveKind(Protocol):
    """A kind of objective: the one that a section of settings describes."""

    def make(self, section: Any, nnet: Nnet) -> RunObjectives:
        """Raises SettingError, or another Nnet3Error for an objective that does not fit the network."""

    def identity(self, section: Any) -> dict[str, Any]:
        """JSON values that change when files change that the section names."""


K = TypeVar("K")


@dataclass(frozen=True)
class Entry(Generic[K]):
    """A kind by the options of its section, and how to get it, which may import what it needs."""

    section: type[Options]
    kind: Callable[[], K]


@dataclass(frozen=True)
class Kinds:
    """The kinds of data and objectives that settings may name; the first ones are the defaults."""

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
        """Settings, checked. Raises ConfigError."""
        return read_settings(text, *self.sections)
