"""The files of a model directory with which its results are rescored."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

from nnet3.errors import ModelFormatError

_LOG = logging.getLogger("nnet3")
OLD, NEW, _RNNLM, _NETWORK = "rescore/G.fst", "rescore/G.carpa", "rnnlm", "rnnlm/final.raw"


@dataclass(frozen=True)
class RescoringFiles:
    """The model inside the search graph, the n-gram model in its place, and the folder of an RNNLM, or None."""

    old: Path
    new: Path
    rnnlm: Path | None

    @classmethod
    def of(cls, folder: Path) -> RescoringFiles | None:
        """Finds the files in a model directory; None without rescore/G.carpa, with a warning about useless files.

        Raises ModelFormatError without the graph's own model.
        """
        if not (folder / NEW).is_file():
            unused = [name for name in (OLD, _NETWORK) if (folder / name).is_file()]
            if unused:
                _LOG.warning("%s: %s: not used without %s", folder, ", ".join(unused), NEW)
            return None
        if not (folder / OLD).is_file():
            raise ModelFormatError(f"{NEW} needs {OLD} beside it, the language model of the search graph", str(folder))
        rnnlm = folder / _RNNLM
        if (folder / _NETWORK).is_file():
            return cls(folder / OLD, folder / NEW, rnnlm)
        if rnnlm.is_dir():
            _LOG.warning("%s: %s: not used without %s", folder, _RNNLM, _NETWORK)
        return cls(folder / OLD, folder / NEW, None)
