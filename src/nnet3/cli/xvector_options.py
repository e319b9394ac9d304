"""What both verbs that compute x-vectors share."""

from __future__ import annotations

import click

from nnet3.cli import later
from nnet3.cli.click_types import integer
from nnet3.cli.compile_options import take_compile_options
from nnet3.cli.declared import takes
from nnet3.cli.options import KALDI_BOOL, all_of, arguments
from nnet3.cli.verb import take_use_gpu
from nnet3.options import EqualXvectorOptions, PrecisionOptions, XvectorOptions

xvector_options = all_of(
    takes("precision", PrecisionOptions),
    click.option("--device", "device_name", metavar="DEVICE", help="Where to compute: cpu, cuda, cuda:1."),
    click.option("--cached-compiler-in", metavar="FILE", help="Compiled computations of an earlier run."),
    click.option("--cached-compiler-out", metavar="FILE", help="Where compiled computations are to be kept."),
    click.option("--cache-capacity", type=integer(), hidden=True, expose_value=False),
    click.option("--use-shortcut", type=KALDI_BOOL, hidden=True, expose_value=False),
    arguments(network="MODEL", features="FEATURES-RSPECIFIER", output="VECTOR-WSPECIFIER"),
)


def compute_xvectors(
    options: XvectorOptions | EqualXvectorOptions,
    network: str,
    features: str,
    output: str,
    precision: PrecisionOptions,
    device_name: str | None,
    cached_compiler_in: str | None,
    cached_compiler_out: str | None,
) -> None:
    """Computes and writes the vectors of a table."""
    compile_options = take_compile_options()
    settings = later.compute_tables.ComputeSettings(
        device=later.device.choose_device(device_name, take_use_gpu()),
        precision=precision,
        compile_options=compile_options,
        debug=compile_options.check,
    )
    with later.caches.kept_cache(cached_compiler_in, cached_compiler_out) as cache:
        tables = later.compute_tables.ComputedTables(features, output)
        later.compute_tables.compute_xvectors(network, tables, options, settings, cache)
