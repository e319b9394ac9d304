"""`nnet3 compute`: run a network over utterances (Kaldi: nnet3-compute)."""

from __future__ import annotations

from dataclasses import replace

import click
from click.core import ParameterSource

from nnet3.cli import later
from nnet3.cli.click_types import click_type, integer
from nnet3.cli.declared import takes
from nnet3.cli.options import KALDI_BOOL
from nnet3.cli.verb import RUNNING, take_internal, take_use_gpu, verb
from nnet3.options import UtteranceOptions
from nnet3.text.values import Number


@verb("run a network over utterances", RUNNING, program="nnet3-compute")
@click.option("--ivectors", metavar="RSPECIFIER", help="One ivector per utterance, or per speaker with --utt2spk.")
@click.option("--utt2spk", metavar="RSPECIFIER", help="The speaker of each utterance, for --ivectors.")
@click.option("--online-ivectors", metavar="RSPECIFIER", help="Matrices of ivectors, one row every so many frames.")
@click.option(
    "--online-ivector-period", type=integer(0), default=0, help="Frames per online ivector; needed with them."
)
@takes("chunks", UtteranceOptions, omit=("online_ivector_period",))
@click.option(
    "--acoustic-scale", type=click_type(Number()), default=1.0, show_default=True, help="Multiplies the result."
)
@click.option("--apply-exp", type=KALDI_BOOL, default=False, help="Write exp(output), for instance posteriors.")
@click.option("--use-priors", type=KALDI_BOOL, default=False, help="Subtract the log-priors of an acoustic model.")
@click.option("--device", "device_name", metavar="DEVICE", help="Where to compute: cpu, cuda, cuda:1.")
@click.option("--resume", type=KALDI_BOOL, default=False, help="Skip what the output, an ark,scp:, already has.")
@click.argument("network", metavar="MODEL")
@click.argument("features", metavar="FEATURES-RSPECIFIER")
@click.argument("output", metavar="MATRIX-WSPECIFIER")
def command(
    network: str,
    features: str,
    output: str,
    ivectors: str | None,
    utt2spk: str | None,
    online_ivectors: str | None,
    online_ivector_period: int,
    acoustic_scale: float,
    apply_exp: bool,
    use_priors: bool,
    device_name: str | None,
    resume: bool,
    chunks: UtteranceOptions,
) -> None:
    """Run a network over tables of features in chunks, as Kaldi does, and write a matrix for each utterance.

    Without --frames-per-chunk whole utterances are computed where chunks make no difference: for networks without
    recurrences, statistics and attention, unless there are online ivectors.

    Batch-norm and dropout are in test mode. The first and last frame are repeated for context. An utterance that
    cannot be computed is reported and left out. When the run is interrupted or fails, what is finished is kept, and
    --resume goes on from there. The exit status is 1 if no utterance was computed or a record could not be read.

    \b
    Example:
      nnet3 compute --online-ivectors=scp:ivectors.scp --online-ivector-period=10 final.raw scp:feats.scp ark:out.ark
    """
    if ivectors and online_ivectors:
        raise click.UsageError("give --ivectors or --online-ivectors, not both")
    if utt2spk and not ivectors:
        raise click.UsageError("--utt2spk says whose --ivectors to take: give these too")
    if online_ivectors and online_ivector_period == 0:
        raise click.UsageError("--online-ivectors need --online-ivector-period=N, the frames per ivector; usually 10")
    is_given = click.get_current_context().get_parameter_source("frames_per_chunk") is not ParameterSource.DEFAULT
    later.compute_tables.compute_tables(
        later.compute_tables.ComputedTables(features, output, ivectors, utt2spk, online_ivectors, resume),
        later.compute_tables.load(
            network,
            later.compute_tables.ComputeSettings(
                device=later.device.choose_device(device_name, take_use_gpu()),
                chunks=replace(chunks, online_ivector_period=online_ivector_period or chunks.online_ivector_period),
                whole_if_same=not is_given and online_ivectors is None,
                acoustic_scale=acoustic_scale,
                apply_exp=apply_exp,
                use_priors=use_priors,
                optimize=take_internal("optimization.optimize", True),
                debug=take_internal("computation.debug", False),
            ),
        ),
    )
