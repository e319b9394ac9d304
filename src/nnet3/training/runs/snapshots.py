"""Models kept from the last part of training, for the final combination."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from nnet3.errors import Nnet3Error


@dataclass(frozen=True)
class Snapshots:
    """Keeps models at `models` equal distances in the last `part` of a run, the end included.

    Models are files readable by Kaldi, named by the number of minibatches done. The final combination reads these files
    and nothing else, so that the result is equal even if the run was cut short meanwhile.
    """

    folder: Path
    models: int
    part: float

    def prepare(self) -> None:
        """Makes the folder."""
        try:
            if self.models:
                self.folder.mkdir(exist_ok=True)
        except OSError as error:
            raise Nnet3Error(f"{self.folder}: models cannot be kept here: {error.strerror}") from None

    def are_due(self, before: float, after: float) -> bool:
        """Returns true if a minibatch takes the run past such a point, from part `before` to part `after`."""
        return self._passed(after) > self._passed(before)

    def path(self, step: int) -> Path:
        return self.folder / f"{step:09d}.raw"

    def newest_first(self, steps: list[int]) -> list[Path]:
        """Returns the files of these steps."""
        return [self.path(step) for step in sorted(steps, reverse=True)]

    def remove_others(self, steps: list[int]) -> None:
        """Removes models not made by this run, or to be made again."""
        kept = {self.path(step) for step in steps}
        for path in self.folder.glob("*.raw"):
            if path not in kept:
                path.unlink(missing_ok=True)

    def _passed(self, done: float) -> int:
        if self.models == 0 or done <= 1.0 - self.part:
            return 0
        return math.floor(self.models * (done - (1.0 - self.part)) / self.part + 1e-9)
