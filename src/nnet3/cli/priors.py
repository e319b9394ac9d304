"""Priors of an acoustic model from summed posteriors."""

from __future__ import annotations

import numpy as np

from nnet3.cli.files import open_file
from nnet3.errors import Nnet3Error
from nnet3.nnet import AcousticModel


def adjust(model: AcousticModel, posteriors: str, floor: float) -> str:
    """Set the priors to the vector in the file `posteriors`, normalised; says what changed most if there were any."""
    reader = open_file(posteriors)
    counts = reader.vector(np.float64)
    reader.finish()
    dim = model.nnet.node_dim("output")
    if len(counts) != dim:
        raise Nnet3Error(f"{posteriors}: {len(counts)} posteriors, but the model's output has dimension {dim}")
    if not np.isfinite(counts).all() or (counts < 0).any() or counts.sum() <= 0:
        raise Nnet3Error(f"{posteriors}: posteriors must be finite, not negative, and not all zero")
    priors = np.maximum(counts / counts.sum(), floor).astype(np.float32)
    old, model.priors = model.priors, priors
    if len(old) == 0:
        return ""
    pdf = int(np.abs(priors - np.asarray(old)).argmax())
    return f"largest change: pdf {pdf}, {float(old[pdf]):.6g} -> {priors[pdf]:.6g}"
