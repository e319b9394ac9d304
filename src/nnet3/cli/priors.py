"""Priors of an acoustic model from summed posteriors."""

from __future__ import annotations

import numpy as np

from nnet3.cli.files import open_file
from nnet3.cli.messages import naming
from nnet3.errors import Nnet3Error
from nnet3.model.nnet import AcousticModel
from nnet3.training.train.priors import normalised


def adjust(model: AcousticModel, posteriors: str, floor: float) -> str:
    """Sets the priors to the vector in the file `posteriors`, normalised; says what changed most if there were any."""
    old = _replaced(model, posteriors, floor)
    if len(old) == 0:
        return ""
    pdf = _most_changed(model, old)
    return f"largest change: pdf {pdf}, {old[pdf]:.6g} -> {model.priors[pdf]:.6g}"


def adjust_as_kaldi(model: AcousticModel, posteriors: str) -> list[str]:
    """Sets the priors, without a floor; returns the lines that Kaldi's program logs."""
    old = _replaced(model, posteriors, 0.0)
    if len(old) == 0:
        return ["Model did not previously have priors attached."]
    pdf, new = _most_changed(model, old), np.asarray(model.priors, np.float64)
    seen = old > 0
    with np.errstate(divide="ignore"):
        divergence = float((old[seen] * np.log(old[seen] / new[seen])).sum())
    return [
        f"Adjusting priors: largest absolute difference was for pdf {pdf}, {old[pdf]:g} -> {new[pdf]:g}",
        f"Adjusting priors: K-L divergence from old to new is {divergence:g}",
    ]


def _replaced(model: AcousticModel, posteriors: str, floor: float) -> np.ndarray:
    """Sets the priors; returns the old ones, (pdfs,) float64."""
    counts = open_file(posteriors).whole(lambda reader: reader.vector(np.float64))
    dim = model.nnet.node_dim("output")
    if len(counts) != dim:
        raise Nnet3Error(f"{posteriors}: {len(counts)} posteriors, but the model's output has dimension {dim}")
    with naming(posteriors):
        priors = np.maximum(normalised(counts), np.float32(floor))
    old, model.priors = np.asarray(model.priors, np.float64), priors
    return old


def _most_changed(model: AcousticModel, old: np.ndarray) -> int:
    return int(np.abs(np.asarray(model.priors) - old).argmax())
