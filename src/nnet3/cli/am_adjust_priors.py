"""`nnet3 am-adjust-priors`: set an acoustic model's priors (Kaldi: nnet3-am-adjust-priors)."""

from __future__ import annotations

import click
import numpy as np

from nnet3.cli.files import load_acoustic_model, open_file, save_model
from nnet3.cli.options import FiniteFloat, binary_option
from nnet3.errors import Nnet3Error


@click.command("am-adjust-priors")
@binary_option
@click.option("--prior-floor", type=FiniteFloat(0.0), default=1e-15, show_default=True, help="Smallest prior.")
@click.argument("source", metavar="MODEL-IN")
@click.argument("posteriors", metavar="SUMMED-POSTERIORS")
@click.argument("output", metavar="MODEL-OUT")
def command(source: str, posteriors: str, output: str, binary: bool, prior_floor: float) -> None:
    """Set the priors to a vector of summed or averaged posteriors, normalised to sum to one.

    \b
    Example:
      nnet3 am-adjust-priors final.mdl counts.vec final_with_priors.mdl
    """
    model = load_acoustic_model(source)
    reader = open_file(posteriors)
    counts = reader.vector(np.float64)
    reader.finish()
    dim = model.nnet.node_dim("output")
    if len(counts) != dim:
        raise Nnet3Error(f"{posteriors}: {len(counts)} posteriors, but the model's output has dimension {dim}")
    if not np.isfinite(counts).all() or (counts < 0).any() or counts.sum() <= 0:
        raise Nnet3Error(f"{posteriors}: posteriors must be finite, not negative, and not all zero")
    priors = np.maximum(counts / counts.sum(), prior_floor).astype(np.float32)
    if len(model.priors):
        change = np.abs(priors - np.asarray(model.priors))
        pdf = int(change.argmax())
        click.echo(f"largest change: pdf {pdf}, {float(model.priors[pdf]):.6g} -> {priors[pdf]:.6g}", err=True)
    model.priors = priors
    save_model(model, output, binary)
