"""Verbs of training examples."""

from __future__ import annotations

from typing import Any

import click

from nnet3.base.options.examples import CopyingOptions, MakingOptions, SubsetOptions, XvectorMakingOptions
from nnet3.base.options.images import ImageOptions
from nnet3.base.options.training import FeatureTransformOptions, LdaStatsOptions
from nnet3.base.text.values import ANY, Integer
from nnet3.cli import later
from nnet3.cli.declared import one, takes
from nnet3.cli.egs_verbs import PLAIN, copying_options, ivectors_option, merge_verb, shuffle_verb, subset_verb
from nnet3.cli.options import arguments, binary_option, flag, text_option, whole_number
from nnet3.cli.verb import verb


@verb()
@binary_option
@one(LdaStatsOptions, "rand_prune")
@arguments(network="RAW-IN", examples="EGS-RSPECIFIER", output="LDA-STATS-OUT")
def acc_lda_stats(**given: Any) -> None:
    """Run a network without parameters over training examples, and write statistics of its outputs by class: by the
    columns of the supervision, each row weighted by its values.

    nnet3 acc-lda-stats --rand-prune=4.0 init.raw ark:egs.1.ark 1.lda_stats
    """
    later.outputs_of_egs.accumulate(**given)


@verb()
@copying_options
@click.option("--frame", metavar="T", help="Keep one frame of the output: its number, or 'random'.")
def copy_egs(options: CopyingOptions, frame: str | None, **tables: Any) -> None:
    """Copy training examples, to several tables in turn, with changes in this order: weights, one frame, context,
    shift, names of outputs. Frames and context can be changed in examples that are not merged.

    nnet3 copy-egs ark:egs.ark ark,t:-
    nnet3 copy-egs --frame=random --left-context=8 --right-context=5 ark:egs.ark ark:1.ark ark:2.ark
    """
    changes = later.examples.Changes(options.frame_shift, *options.contexts(), _frame(frame))
    rng = later.making.generator(options.seed + 1)

    def change(example: later.examples.Example) -> later.examples.Example | None:
        return changes.apply(example, rng)

    later.egs_tables.copy(later.examples.EXAMPLES, change=change, options=options, **tables)


def _frame(text: str | None) -> int | str | None:
    digits = (text or "").removeprefix("-")
    if not (digits.isascii() and digits.isdigit()):
        return text or None
    try:
        return Integer().read(text or "")
    except ValueError as error:
        raise click.BadParameter(f"it must be {error}, got {text}", param_hint="'--frame'") from None


@verb()
@one(SubsetOptions, "seed", kind=Integer(ANY, 64))
@takes("options", ImageOptions)
@arguments(examples="EGS-RSPECIFIER", output="EGS-WSPECIFIER")
def egs_augment_image(**given: Any) -> None:
    """Change the images of training examples at random: flip, shift and rotate the input `input`, whose rows are the
    x of an image and whose columns are its y and its colours, colours varying faster.

    nnet3 egs-augment-image --num-channels=3 --horizontal-flip-prob=0.5 --horizontal-shift=0.1 ark:egs.ark ark:-
    """
    later.egs_tables.augment_images(**given)


@verb()
@takes("options", MakingOptions)
@ivectors_option
@whole_number("--num-pdfs", least=1, required=True, help="Columns of the supervision.")
@flag("--pdf-alignments", help="The second table has vectors of integers, the pdf of each frame, not posteriors.")
@arguments(features="FEATURES-RSPECIFIER", targets="PDF-POSTERIORS-RSPECIFIER", output="EGS-WSPECIFIER")
def get_egs(**given: Any) -> None:
    """Cut utterances into chunks and make a training example of each: input with context, ivector, and posteriors of
    pdfs as supervision, one frame of them per output frame. What cannot be used is reported and left out.

    nnet3 get-egs --num-pdfs=2658 --left-context=12 --right-context=9 --num-frames=8 scp:feats.scp \\
      "ark:ali-to-pdf final.mdl ark:ali.ark ark:- | ali-to-post ark:- ark:- |" ark:egs.ark
    """
    later.get_egs_tables.make_from_posteriors(**given)


@verb()
@takes("options", MakingOptions)
@ivectors_option
@whole_number("--num-targets", default=-1, help="Columns that target matrices must have (-1: any).", show_default=False)
@arguments(features="FEATURES-RSPECIFIER", targets="TARGETS-RSPECIFIER", output="EGS-WSPECIFIER")
def get_egs_dense_targets(**given: Any) -> None:
    """As get-egs, with a row of a matrix as what each output frame is to be, for instance for a quadratic objective.

    nnet3 get-egs-dense-targets --left-context=12 --right-context=9 scp:feats.scp ark:snrs.ark ark:egs.ark
    """
    later.get_egs_tables.make_from_matrices(**given)


@verb()
@arguments(tables="NAME=RSPECIFIER...", output="EGS-WSPECIFIER")
def get_egs_simple(tables: tuple[str, ...], output: str) -> None:
    """Make a training example of the matrices of each key of the first table: a whole input or output of each table,
    one row for each t from 0 on. What a table lacks is reported and left out.

    nnet3 get-egs-simple input=scp:images.scp output=ark:labels.ark ark:egs.ark
    """
    later.get_egs_tables.make_of_matrices(tables, output)


@verb()
@binary_option
@takes("options", FeatureTransformOptions)
@text_option(
    "--write-cholesky", "cholesky", metavar="FILE", help="Where to write the Cholesky factor of the covariance within."
)
@text_option("--write-within-covar", "within", metavar="FILE", help="Where to write the covariance within classes.")
@arguments(output="MATRIX-OUT", inputs="LDA-STATS-IN...")
def nnet_get_feature_transform(**given: Any) -> None:
    """Estimate a transform of statistics that acc-lda-stats has written: LDA, whose rows count less where classes
    differ little.

    nnet3 nnet-get-feature-transform lda.mat lda_stats
    """
    later.outputs_of_egs.write_transform(**given)


@verb()
@binary_option
@arguments(output="LDA-STATS-OUT", inputs="LDA-STATS-IN...")
def sum_lda_accs(output: str, inputs: tuple[str, ...], binary: bool) -> None:
    """Sum statistics that acc-lda-stats has written.

    nnet3 sum-lda-accs lda_stats 1.lda_stats 2.lda_stats
    """
    later.outputs_of_egs.add_files(inputs, output, binary)


@verb()
@takes("options", XvectorMakingOptions)
@arguments(ranges="RANGES", features="FEATURES-RSPECIFIER", outputs="EGS-WSPECIFIER...")
def xvector_get_egs(ranges: str, features: str, outputs: tuple[str, ...], options: XvectorMakingOptions) -> None:
    """Cut stretches out of utterances and make a training example of each, with its class at t = 0 as supervision.

    A line of the ranges is: utterance, number of the output table (from 0), any integer, first frame, frames, class.
    A stretch that ends behind its utterance is moved forward; one that is longer is reported and left out.

    nnet3 xvector-get-egs --num-pdfs=6 ranges.1 scp:feats.scp ark:egs.1.ark ark:egs.2.ark
    """
    later.get_egs_tables.make_from_ranges(ranges, features, outputs, options)


merge_egs = merge_verb(PLAIN)
shuffle_egs = shuffle_verb(PLAIN)
subset_egs = subset_verb(PLAIN)
