"""Verbs of sequence training (LF-MMI)."""

from __future__ import annotations

from typing import Any

import click

from nnet3.base.options.chain import ChainOptions, DenominatorOptions, PhoneLmOptions, SupervisingOptions
from nnet3.base.options.examples import ChainMakingOptions, CopyingOptions
from nnet3.base.options.training import LdaStatsOptions, TrainerOptions
from nnet3.base.options.utterances import PrecisionOptions, ScoreOptions, UtteranceOptions
from nnet3.base.text.values import at_least
from nnet3.cli import later
from nnet3.cli.compute_options import chunk_options, compute_posteriors
from nnet3.cli.declared import one, takes, unused
from nnet3.cli.egs_verbs import (
    CHAIN_KIND,
    copying_options,
    ivectors_option,
    merge_verb,
    normalization_scale_option,
    shuffle_verb,
    subset_verb,
)
from nnet3.cli.messages import say
from nnet3.cli.options import (
    all_of,
    arguments,
    binary_option,
    caching_options,
    device_option,
    flag,
    gradient_option,
    ignored,
    integer,
    max_evaluations_option,
    number,
    refused,
    test_mode_options,
    text_option,
)
from nnet3.cli.verb import Verb, verb

_OF_LANGUAGES = """

DEN-FST-DIR has LANG.den.fst for each output node output-LANG of the network. What an example calls `output` is for the
language that its key names, such as fr in merged-0-64?lang=fr (chain-merge-egs --multilingual-eg=true writes such
keys), or else for `default`."""
#: The words in which verbs with one denominator graph and those with one of each language differ.
_WORDS = {
    False: {"number": "", "argument": "DEN-FST", "graphs": "den.fst", "more": ""},
    True: {"number": "2", "argument": "DEN-FST-DIR", "graphs": "dens", "more": _OF_LANGUAGES},
}
#: Options of objectives that change nothing here.
_WITHOUT_EFFECT = all_of(
    ignored("--numerator-graph-threads", kind=integer()),
    refused("--lwf-scale", unless=0.0, why="posteriors of another network in examples are not supported: leave it out"),
)


@verb()
@binary_option
@one(LdaStatsOptions, "rand_prune")
@arguments(network="RAW-IN", examples="EGS-RSPECIFIER", output="LDA-STATS-OUT")
def chain_acc_lda_stats(**given: Any) -> None:
    """Run a network without parameters over chain examples that are not merged, and write statistics of its outputs by
    pdf: weighted by the paths of the supervision, or by the alignment that end-to-end examples have.

    nnet3 chain-acc-lda-stats --rand-prune=4.0 init.raw ark:cegs.1.ark 1.lda_stats
    """
    later.outputs_of_egs.accumulate(**given, chain=True)


@verb()
@click.option(
    "--type", "kind", default="raw", show_default=True, help="What is added: the output (raw), or posteriors (den)."
)
@number("--clip-threshold", rule=at_least(0), default=0.0, help="Posteriors whose integer part is below it become 0.")
@flag("--apply-exp", default=True, show_default=True, help="Add the exponential of an output.")
@test_mode_options(batchnorm=False, dropout=False)
@one(DenominatorOptions, "leaky_hmm_coefficient")
@unused(TrainerOptions, ChainOptions)
@ignored("--insist-on-den-fst", "--apply-deriv-weights", "--binary-write-cache")
@ignored("--numerator-graph-threads", "--lwf-scale", kind=click.FLOAT)
@ignored("--read-cache", "--write-cache", kind=click.STRING)
@arguments(model="RAW-IN", den_fst="DEN-FST", examples="EGS-RSPECIFIER", output="EGS-WSPECIFIER")
def chain_add_post_to_egs(**given: Any) -> None:
    """Add an input __LWF-posteriors to chain examples: what a network gives for them, exponentiated, or with --type=den
    posteriors of the denominator graph, so that a network trained on other data can be kept near.

    nnet3 chain-add-post-to-egs --type=den --leaky-hmm-coefficient=0.1 old.raw old_den.fst ark:merged.ark ark:added.ark
    """
    later.chain_posteriors.add_posteriors(**given)


@verb()
@chunk_options(UtteranceOptions)
@takes("precision", PrecisionOptions)
@one(ScoreOptions, "acoustic_scale")
@one(DenominatorOptions, "leaky_hmm_coefficient", program_default=0.1)
@text_option("--transform-mat", "transform", metavar="FILE", help="A matrix (phones, pdfs) that posteriors go through.")
@device_option
@arguments(network="RAW-IN", den_fst="DEN-FST", features="FEATURES-RSPECIFIER", output="MATRIX-WSPECIFIER")
def chain_compute_post(**given: Any) -> None:
    """Compute posteriors of pdfs by forward-backward over the denominator graph, for each whole utterance, or of
    phones, with a matrix.

    nnet3 chain-compute-post --frame-subsampling-factor=3 --transform-mat=phones.mat final.raw den.fst \
      scp:feats.scp ark:phone_post.ark
    """
    compute_posteriors(**given)


@verb()
@test_mode_options(batchnorm=True, dropout=True)
@takes("denominator", DenominatorOptions)
@takes("options", ChainOptions)
@_WITHOUT_EFFECT
@ignored("--compute-accuracy", "--compute-per-dim-accuracy")
@gradient_option
@arguments(model="RAW-IN", den_fst="DEN-FST", examples="EGS-RSPECIFIER", output="[GRADIENT-OUT]")
def chain_compute_prob(
    model: str,
    den_fst: str,
    examples: str,
    output: str,
    denominator: DenominatorOptions,
    options: ChainOptions,
    **settings: Any,
) -> None:
    """Print the log-probability per frame that a raw network reaches on merged chain examples (on stderr).

    With --compute-deriv=true the gradient of the objective, summed over all frames, is written as a network whose
    parameters it is.

    nnet3 chain-compute-prob final.raw den.fst 'ark:nnet3 chain-merge-egs ark:valid_diagnostic.cegs ark:- |'
    """
    nnet = later.outputs_of_egs.network_to_measure(model, output, settings["gradient"])
    files = later.egs_training.ChainFiles(den_fst, denominator, options)
    objective, minibatches = files.objective(nnet), files.minibatches(examples, nnet)
    evaluator = later.compute_prob.evaluated(nnet, minibatches, objective, collapse=False, accuracy=False, **settings)
    for name, own in later.compute_prob.as_logged(evaluator.stats):
        say(later.compute_prob.report_line(f"log-probability for '{name}'", own))
    later.outputs_of_egs.report_gradient(evaluator.gradient, output)


@verb()
@copying_options
def chain_copy_egs(options: CopyingOptions, **tables: Any) -> None:
    """Copy chain examples, to several tables in turn, with changes: shift, context, weights, names of outputs.

    Outputs are shifted by the nearest multiple of the distance of their frames. Context can be changed in examples that
    are not merged.

    nnet3 chain-copy-egs --frame-shift=1 ark:cegs.1.ark ark:- | nnet3 chain-merge-egs ark:- ark:merged.ark
    """
    changes = later.changes.ChainChanges(options.frame_shift, *options.contexts())
    later.egs_tables.copy(later.chain.CHAIN_EXAMPLES, change=changes.apply, options=options, **tables)


@verb()
@takes("options", ChainMakingOptions, omit=("supervision_length_tolerance", "long_key"))
@ivectors_option
@normalization_scale_option
@arguments(
    normalization="NORMALIZATION-FST",
    features="FEATURES-RSPECIFIER",
    graphs="GRAPHS-RSPECIFIER",
    model="TRANSITION-MODEL",
    output="EGS-WSPECIFIER",
)
def chain_e2e_get_egs(**given: Any) -> None:
    """Make training examples of whole utterances that have transcripts but no alignments: the sequences that are right
    are those of a training graph. Lengths of utterances must be within 4 frames of one of --num-frames.

    nnet3 chain-e2e-get-egs --num-frames=150,165,180 --frame-subsampling-factor=3 normalization.fst \\
      scp:feats.scp ark:graphs.ark 0.trans_mdl ark:cegs.ark
    """
    later.chain_get_egs_tables.make_end_to_end(**given)


@verb()
@takes("options", PhoneLmOptions)
@ignored("--binary")  # by Kaldi, too
@arguments(sequences="PHONES-RSPECIFIER", output="PHONE-LM-OUT")
def chain_est_phone_lm(sequences: str, output: str, options: PhoneLmOptions) -> None:
    """Estimate a language model of sequences of phones: an n-gram without smoothing and without back-off arcs.

    nnet3 chain-est-phone-lm --num-extra-lm-states=2000 \\
      "ark:gunzip -c ali.*.gz | ali-to-phones final.mdl ark:- ark:- |" phone_lm.fst
    """
    later.graph_making.estimate(sequences, output, options)


@verb()
@takes("options", ChainMakingOptions)
@ivectors_option
@click.option("--deriv-weights-rspecifier", metavar="RSPECIFIER", help="A weight for each output frame, as vectors.")
@normalization_scale_option
@click.option(
    "--transition-model",
    metavar="FILE",
    help="Leave times inside chunks free; supervision then has labels that are transition-ids.",
)
@arguments(names="[NORMALIZATION-FST] FEATURES SUPERVISION EGS")
def chain_get_egs(names: tuple[str, ...], options: ChainMakingOptions, **files: Any) -> None:
    """Cut utterances into chunks and make a training example of each: input with context, ivector, and the sequences
    of pdfs that are right. With a normalization graph these are weighted (which needs kaldifst); else that is left to
    chain-normalize-egs. What cannot be used is reported and left out.

    nnet3 chain-get-egs --left-context=31 --right-context=31 --num-frames=150,110,100 \\
      --frame-subsampling-factor=3 normalization.fst scp:feats.scp ark:sup.ark ark:cegs.ark
    """
    if len(names) not in (3, 4):
        raise click.UsageError("give tables of features and supervision and one to write; a graph may come before them")
    normalization = names[0] if len(names) == 4 else None
    features, supervision, output = names[-3:]
    later.chain_get_egs_tables.make(normalization, features, supervision, output, options, **files)


@verb()
@takes("options", SupervisingOptions)
@flag("--lattice-input", help="The table has lattices of phones, not phones and lengths.")
@ignored("--weight", kind=click.FLOAT)  # by Kaldi, too
@arguments(tree="TREE", model="TRANSITION-MODEL", phones="PHONES-RSPECIFIER", output="SUPERVISION-WSPECIFIER")
def chain_get_supervision(**given: Any) -> int:
    """Say which sequences of pdfs are right for each utterance: those of its phones, at about their times.

    Phones come as pairs (phone, number of frames) or as lattices that are aligned with phones. Tolerances are in
    frames of these. The exit status is 0 if more utterances could be used than not.

    nnet3 chain-get-supervision --frame-subsampling-factor=3 tree 0.trans_mdl \\
      "ark:ali-to-phones --write-lengths=true 0.trans_mdl ark:ali.ark ark:- |" ark:sup.ark
    """
    return later.graph_making.make_supervision(**given)


@verb()
@arguments(
    tree="TREE",
    model="TRANSITION-MODEL",
    phone_lm="PHONE-LM",
    denominator="DEN-FST-OUT",
    normalization="NORMALIZATION-FST-OUT",
)
def chain_make_den_fst(tree: str, model: str, phone_lm: str, denominator: str, normalization: str) -> None:
    """Make the graph of all sequences of pdfs, weighted by a phone language model, and from it the one that weights
    supervision. The transition model may be any model that begins with one. It needs kaldifst.

    nnet3 chain-make-den-fst tree 0.trans_mdl phone_lm.fst den.fst normalization.fst
    """
    later.graph_making.make_denominator(tree, model, phone_lm, denominator, normalization)


@verb()
@arguments(
    model="TRANSITION-MODEL", normalization="NORMALIZATION-FST", graphs="GRAPHS-RSPECIFIER", output="FSTS-WSPECIFIER"
)
def chain_make_num_fst_e2e(model: str, normalization: str, graphs: str, output: str) -> None:
    """Make graphs of pdfs of training graphs, weighted by a normalization graph, for utterances without alignments.
    Where there is no such graph, an empty one is written.

    nnet3 chain-make-num-fst-e2e 0.trans_mdl normalization.fst ark:graphs.ark ark:num.ark
    """
    later.graph_making.make_numerators(model, normalization, graphs, output)


@verb()
@normalization_scale_option
@arguments(normalization="NORMALIZATION-FST", examples="EGS-RSPECIFIER", output="EGS-WSPECIFIER")
def chain_normalize_egs(normalization: str, examples: str, output: str, normalization_fst_scale: float) -> None:
    """Weight the supervision of examples by a normalization graph, so that what is right is a part of all that may be.

    nnet3 chain-normalize-egs normalization.fst ark:raw.cegs ark:normalized.cegs
    """
    later.chain_get_egs_tables.normalize(normalization, examples, output, normalization_fst_scale)


def _train_verb(*, by_language: bool) -> Verb:
    """The verb that trains a network (Kaldi: nnet3-chain-train, nnet3-chain-train2)."""
    words = _WORDS[by_language]

    @verb(f"chain-train{words['number']}", help=_TRAIN.format(**words))
    @takes("options", TrainerOptions)
    @caching_options
    @takes("denominator", DenominatorOptions)
    @takes("objective", ChainOptions)
    @_WITHOUT_EFFECT
    @flag("--apply-deriv-weights", default=True, show_default=True, help="Scale derivatives of frames.")
    @binary_option
    @arguments(model="RAW-IN", den_fst=words["argument"], examples="EGS-RSPECIFIER", output="RAW-OUT")
    def command(
        den_fst: str,
        denominator: DenominatorOptions,
        objective: ChainOptions,
        apply_deriv_weights: bool,
        **rest: Any,
    ) -> None:
        files = later.egs_training.ChainFiles(den_fst, denominator, objective, apply_deriv_weights, by_language)
        later.egs_training.train(files, **rest)

    return command


def _combine_verb(*, by_language: bool) -> Verb:
    """The verb that averages the last networks (Kaldi: nnet3-chain-combine, nnet3-chain-combine2)."""
    words = _WORDS[by_language]

    @verb(f"chain-combine{words['number']}", help=_COMBINE.format(**words))
    @binary_option
    @test_mode_options(batchnorm=False, dropout=True)
    @max_evaluations_option
    @takes("denominator", DenominatorOptions)
    @takes("options", ChainOptions)
    @_WITHOUT_EFFECT
    @arguments(names=f"{words['argument']} RAW-IN... EGS-RSPECIFIER RAW-OUT")
    def command(
        names: tuple[str, ...], denominator: DenominatorOptions, options: ChainOptions, **settings: Any
    ) -> None:
        if len(names) < 4:
            graphs = "graphs" if by_language else "graph"
            raise click.UsageError(
                f"give the denominator {graphs}, at least one network, the examples, and the file to write"
            )
        den_fst, *models, examples, output = names
        files = later.egs_training.ChainFiles(den_fst, denominator, options, by_language=by_language)
        later.egs_training.combine_files(files, models, examples, output, **settings)

    return command


_TRAIN = """Train a raw network with LF-MMI on merged chain examples, with the learning rates that it has.{more}

nnet3 chain-train{number} --leaky-hmm-coefficient=0.1 --xent-regularize=0.1 0.raw {graphs} ark:merged.ark 1.raw
"""
_COMBINE = """Average the first n raw networks, with the n that is best by the LF-MMI objective. Give the last network
first.

With --xent-regularize the cross-entropy of the second output counts as much as the objective itself, as in Kaldi: leave
it out.{more}

nnet3 chain-combine{number} --leaky-hmm-coefficient=0.1 {graphs} 9.raw 8.raw 7.raw ark:combine.cegs final.raw
"""
chain_train = _train_verb(by_language=False)
chain_train2 = _train_verb(by_language=True)
chain_combine = _combine_verb(by_language=False)
chain_combine2 = _combine_verb(by_language=True)
chain_merge_egs = merge_verb(CHAIN_KIND)
chain_shuffle_egs = shuffle_verb(CHAIN_KIND)
chain_subset_egs = subset_verb(CHAIN_KIND)
