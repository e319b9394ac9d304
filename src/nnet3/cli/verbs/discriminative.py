"""Verbs of discriminative training on lattices."""

from __future__ import annotations

from typing import Any

from nnet3.base.options.discriminative import DebuggingSums, DiscriminativeMakingOptions, DiscriminativeOptions
from nnet3.base.options.examples import CopyingOptions
from nnet3.base.options.training import TrainerOptions
from nnet3.cli import later
from nnet3.cli.declared import takes
from nnet3.cli.egs_verbs import LATTICE_KIND, ivectors_option, merge_verb, shuffle_verb, subset_verb
from nnet3.cli.options import (
    all_of,
    arguments,
    binary_option,
    caching_options,
    flag,
    ignored,
    integer,
    test_mode_options,
)
from nnet3.cli.verb import verb

_DEBUGGING_IGNORED = all_of(
    ignored("--accumulate-gradients", "--accumulate-output"),
    ignored("--num-pdfs", kind=integer()),
)


@verb()
@ignored("--binary")
@flag("--apply-exp", "exponentiate", help="Write exponentials: of log-probabilities, probabilities.")
@arguments(model="RAW-IN", examples="EGS-RSPECIFIER", output="MATRICES-WSPECIFIER")
def discriminative_compute_from_egs(**given: Any) -> None:
    """Run a raw network over (merged) discriminative examples, and write a matrix for each with the rows of 'output'.

    The network runs in the modes of its file: batch-norm takes the statistics of each minibatch.

    nnet3 discriminative-compute-from-egs --apply-exp=true final.raw ark:merged.degs ark:posteriors.ark
    """
    later.outputs_of_egs.write_outputs(later.device.given_device(), node="output", of_lattices=True, **given)


@verb()
@test_mode_options(batchnorm=True, dropout=True)
@ignored("--compute-deriv", "--compute-accuracy", "--compute-per-dim-accuracy")
@takes("options", DiscriminativeOptions)
@takes("debugging", DebuggingSums)
@arguments(model="MODEL", examples="EGS-RSPECIFIER")
def discriminative_compute_objf(**given: Any) -> None:
    """Print the objective per frame that an acoustic model reaches on merged discriminative examples (on stderr).

    nnet3 discriminative-compute-objf --criterion=smbr --silence-phones=1:2 final.mdl ark:merged.degs
    """
    later.discriminative_tables.compute_objf(**given)


@verb()
@takes("options", CopyingOptions, omit=("left_context", "right_context"))
@arguments(examples="EGS-RSPECIFIER", outputs_to_write="EGS-WSPECIFIER...")
def discriminative_copy_egs(options: CopyingOptions, **tables: Any) -> None:
    """Copy discriminative examples, to several tables in turn; examples that are not merged can be shifted.

    Outputs are shifted by the nearest multiple of the distance of their frames.

    nnet3 discriminative-copy-egs --frame-shift=1 ark:degs.1.ark ark:shifted.degs
    """
    kind, shifted = later.lattice_example.DISCRIMINATIVE_EXAMPLES, later.lattice_example.shifted

    def change(example: later.lattice_example.DiscriminativeExample) -> Any:
        return shifted(example, options.frame_shift)

    later.egs_tables.copy(kind, change=change, options=options, weights=None, outputs=None, **tables)


@verb()
@takes("options", DiscriminativeMakingOptions)
@ivectors_option
@ignored("--remove-output-symbols", "--remove-epsilons")  # by Kaldi, too
@arguments(
    model="MODEL",
    features="FEATURES-RSPECIFIER",
    lattices="DENOMINATOR-LATTICES-RSPECIFIER",
    alignments="NUMERATOR-ALIGNMENTS-RSPECIFIER",
    output="EGS-WSPECIFIER",
)
def discriminative_get_egs(**given: Any) -> None:
    """Cut utterances into chunks and make a training example of each: input with context, ivector, the right
    transition-ids, and the part of a lattice. Unusable utterances are reported and left out; an alignment and a
    lattice of different lengths end the program with an error.

    nnet3 discriminative-get-egs --acoustic-scale=0.1 --left-context=20 --right-context=20 --num-frames=150 \\
      --num-frames-overlap=30 final.mdl scp:feats.scp ark:denlat.ark ark:ali.ark ark:degs.ark
    """
    later.discriminative_tables.make(**given)


@verb()
@takes("options", TrainerOptions)
@caching_options
@takes("objective", DiscriminativeOptions)
@_DEBUGGING_IGNORED
@flag("--apply-deriv-weights", default=True, show_default=True, help="Scale derivatives of frames.")
@flag("--dropout-test-mode", default=True, show_default=True, help="Train without dropout.")
@binary_option
@arguments(model="MODEL", examples="EGS-RSPECIFIER", output="RAW-OUT")
def discriminative_train(
    objective: DiscriminativeOptions, apply_deriv_weights: bool, dropout_test_mode: bool, **rest: Any
) -> None:
    """Train the network of an acoustic model on merged discriminative examples, with the learning rates that it has,
    and write it as a raw network.

    Steps are Kaldi's older ones: limits, penalties and constraints of components have no effect, nor have
    --l2-regularize-factor, --batchnorm-stats-scale and --backstitch-*.

    nnet3 discriminative-train --criterion=smbr --silence-phones=1:2 0.mdl ark:merged.degs 1.raw
    """
    files = later.discriminative_tables.DiscriminativeFiles(objective, apply_deriv_weights, dropout_test_mode)
    later.egs_training.train(files, **rest)


discriminative_merge_egs = merge_verb(LATTICE_KIND)
discriminative_shuffle_egs = shuffle_verb(LATTICE_KIND)
discriminative_subset_egs = subset_verb(LATTICE_KIND)
