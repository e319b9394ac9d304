"""Scalars for TensorBoard, if it is installed."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any


class Scalars:
    """Writes numbers by name and step into a folder, or nothing."""

    def __init__(self, folder: Path, wanted: bool, first_step: int):
        """`first_step`: what was written for later ones, by a run that was cut short, is not shown."""
        self._writer: Any = None
        if wanted and importlib.util.find_spec("tensorboard") is not None:
            from torch.utils.tensorboard import SummaryWriter  # an extra, and slow to import

            self._writer = SummaryWriter(str(folder), purge_step=first_step or None)

    def write(self, group: str, step: int, **values: float | None) -> None:
        if self._writer is None:
            return
        for name, value in values.items():
            if value is not None:
                self._writer.add_scalar(f"{group}/{name}", value, step)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
