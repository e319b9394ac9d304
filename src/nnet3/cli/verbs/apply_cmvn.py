"""`nnet3 apply-cmvn`: normalises means and variances of features (Kaldi: apply-cmvn)."""

from __future__ import annotations

import click

from nnet3.cli import later
from nnet3.cli.options import KALDI_BOOL, arguments, flag
from nnet3.cli.verb import TABLES, verb


@verb("normalise means and variances of features", TABLES, program="apply-cmvn")
@click.option(
    "--utt2spk", default="", metavar="RSPECIFIER", help="The speaker of each utterance, whose statistics count."
)
@click.option("--norm-means", type=KALDI_BOOL, default=True, show_default=True, help="Subtract means; else only copy.")
@flag("--norm-vars", help="Divide by standard deviations, too.")
@flag("--reverse", help="The other way round: to data of these means and variances.")
@click.option("--skip-dims", default="", metavar="N:N:...", help="Columns that stay as they are.")
@arguments(stats="CMVN-STATS", features="FEATURES-RSPECIFIER", output="FEATURES-WSPECIFIER")
def command(
    stats: str,
    features: str,
    output: str,
    utt2spk: str,
    norm_means: bool,
    norm_vars: bool,
    reverse: bool,
    skip_dims: str,
) -> int:
    """Normalise features by statistics of each utterance or speaker, (2, columns + 1): sums and the count, sums of
    squares. CMVN-STATS is a table or one file for all.

    \b
    Example:
      nnet3 apply-cmvn --utt2spk=ark:utt2spk scp:cmvn.scp scp:feats.scp ark:normalised.ark
    """
    if norm_vars and not norm_means:
        raise click.UsageError("--norm-vars=true needs --norm-means=true")
    skipped = skip_dims.split(":") if skip_dims else []
    if not all(each.isdecimal() for each in skipped):
        raise click.UsageError(f"--skip-dims: expected numbers such as 13:14:15, got '{skip_dims}'")
    options = later.cmvn.Normalising(norm_vars, reverse, tuple(map(int, skipped)))
    return later.normalising.normalise_tables(stats, features, output, utt2spk, options if norm_means else None)
