"""Verbs of tables of vectors and matrices."""

from __future__ import annotations

from typing import Any

import click

from nnet3.base.options.recognizer import (
    CmvnOptions,
    FbankOptions,
    FeatureOptions,
    IvectorOptions,
    MfccOptions,
    OnlineCmvnOptions,
    PlpOptions,
    SpliceOptions,
)
from nnet3.base.text.values import Integer, Number, at_least, within
from nnet3.cli import later
from nnet3.cli.declared import takes
from nnet3.cli.options import (
    all_of,
    arguments,
    binary_option,
    click_type,
    flag,
    ignored,
    integer,
    number,
    refused,
    text_option,
    tolerance_option,
    whole_number,
)
from nnet3.cli.verb import Verb, verb

_speakers_option = text_option("--spk2utt", metavar="RSPECIFIER", help="The utterances of each speaker, in order.")
_KALDI_DEFAULTS = {"dither": 1.0, "allow_downsample": False, "allow_upsample": False}
_NO_VTLN = "frequencies cannot be warped for speakers (VTLN): leave it out"
_WITHOUT_EFFECT = all_of(
    ignored("--vtln-low", "--vtln-high", "--max-feature-vectors", kind=click_type(Number())),
    ignored("--debug-mel"),
    refused("--vtln-warp", unless=1.0, why=_NO_VTLN),
    refused("--vtln-map", "--utt2spk", why=_NO_VTLN),
)


def _audio_features_verb(kind: str, what: str, options: type[FeatureOptions]) -> Verb:
    """The verb that makes features of a kind, `mfcc`, `fbank` or `plp` (Kaldi: compute-mfcc-feats and so on)."""
    name = f"compute-{kind}-feats"

    @verb(name, program_defaults=_KALDI_DEFAULTS, help=_HELP.format(what=what, kind=kind))
    @takes("options", options)
    @_WITHOUT_EFFECT
    @flag("--subtract-mean", "less_mean", help="Subtract the mean of each recording.")
    @whole_number("--channel", least=-1, default=-1, help="Which channel, from 0; -1: the first one.")
    @number(
        "--min-duration", "least_seconds", rule=at_least(0), default=0.0, help="Leave out what is shorter (seconds)."
    )
    @text_option("--write-utt2dur", "durations", metavar="WSPECIFIER", help="Table of seconds.")
    @click.option("--output-format", type=click.Choice(["kaldi"]), default="kaldi", expose_value=False, hidden=True)
    @arguments(recordings="RECORDINGS-RSPECIFIER", output="FEATURES-WSPECIFIER")
    def command(**given: Any) -> int:
        return later.audio_features.write_audio_features(**given)

    return command


_HELP = """Make {what} of recordings: scp:wav.scp names WAV files, commands that print one, or other formats, which
take the package soundfile (FLAC, Ogg, MP3) or the program ffmpeg (these, and M4A, MP4, WebM, ...).

There is no noise (dither) unless asked for; compute-{kind}-feats, Kaldi's name, adds it by default, and refuses
recordings of another rate than --sample-frequency, as Kaldi does.

nnet3 compute-{kind}-feats --config=conf/{kind}.conf scp:wav.scp ark,scp:feats.ark,feats.scp
"""


@verb()
@whole_number("--delta-order", "order", least=0, default=2, help="Differences of differences up to this order.")
@whole_number("--delta-window", "window", least=1, default=2, help="Frames to each side.")
@whole_number("--truncate", "columns", least=0, default=0, help="Take so many first columns only (0: all).")
@arguments(source="FEATURES-RSPECIFIER", output="FEATURES-WSPECIFIER")
def add_deltas(source: str, output: str, order: int, window: int, columns: int) -> int:
    """Add first, second, ... differences in time to features.

    nnet3 add-deltas scp:mfcc.scp ark:deltas.ark
    """
    return later.feature_tables.add_deltas(source, output, order, window, columns)


@verb()
@text_option("--utt2spk", metavar="RSPECIFIER", help="The speaker of each utterance, whose statistics count.")
@takes("options", CmvnOptions)
@flag("--reverse", help="The other way round: to data of these means and variances.")
@arguments(stats="CMVN-STATS", features="FEATURES-RSPECIFIER", output="FEATURES-WSPECIFIER")
def apply_cmvn(stats: str, features: str, output: str, utt2spk: str, options: CmvnOptions, reverse: bool) -> int:
    """Normalise features by statistics of each utterance or speaker, (2, columns + 1): sums and the count, sums of
    squares. CMVN-STATS is a table or one file for all. With --norm-means=false they are copied.

    nnet3 apply-cmvn --utt2spk=ark:utt2spk scp:cmvn.scp scp:feats.scp ark:normalised.ark
    """
    change = later.cmvn.Normalising(options.normalize_variance, reverse, options.skip_dims)
    return later.feature_tables.normalise_tables(
        stats, features, output, utt2spk, change if options.normalize_mean else None
    )


@verb()
@takes("options", OnlineCmvnOptions)
@_speakers_option
@arguments(stats="GLOBAL-CMVN-STATS", features="FEATURES-RSPECIFIER", output="FEATURES-WSPECIFIER")
def apply_cmvn_online(stats: str, features: str, output: str, spk2utt: str, options: OnlineCmvnOptions) -> int:
    """Normalise each frame by statistics of those up to it, as a recognizer does while somebody speaks. As long as
    these are few, those of the speaker's utterances before count too, and then those of everybody, in a file.

    nnet3 apply-cmvn-online --spk2utt=ark:spk2utt global_cmvn.stats scp:feats.scp ark:normalised.ark
    """
    return later.feature_tables.normalise_online(stats, features, output, spk2utt, options)


@verb()
@_speakers_option
@text_option("--weights", metavar="RSPECIFIER", help="How much each frame counts, a vector an utterance.")
@binary_option
@arguments(features="FEATURES-RSPECIFIER", output="STATS")
def compute_cmvn_stats(features: str, output: str, spk2utt: str, weights: str, binary: bool) -> int:
    """Sum up features for apply-cmvn: of each utterance or speaker, where STATS is a table to write such as
    ark:cmvn.ark, or of all, where it is a file. --binary is about a file.

    nnet3 compute-cmvn-stats --spk2utt=ark:spk2utt scp:feats.scp ark,scp:cmvn.ark,cmvn.scp
    """
    return later.feature_tables.write_stats(features, output, spk2utt, weights, binary)


compute_fbank_feats = _audio_features_verb("fbank", "energies of mel bins", FbankOptions)
compute_mfcc_feats = _audio_features_verb("mfcc", "mel frequency cepstral coefficients", MfccOptions)
compute_plp_feats = _audio_features_verb("plp", "perceptual linear prediction features", PlpOptions)


@verb()
@binary_option
@flag("--compress", help="Write compressed matrices.")
@click.option(
    "--compression-method",
    "method",
    type=click_type(Integer(within(1, 7))),
    default=1,
    show_default=True,
    help="How --compress does it: 1: by the number of rows; 2: speech features; 3 to 7: fixed-size codes.",
)
@text_option("--write-num-frames", "lengths", metavar="WSPECIFIER", help="Table of numbers of frames.")
@flag("--htk-in", "of_htk", help="Read features of HTK.")
@flag("--sphinx-in", "of_sphinx", help="Read features of Sphinx, 13 a frame.")
@arguments(source="IN", output="OUT")
def copy_feats(
    source: str, output: str, binary: bool, compress: bool, method: int, lengths: str, of_htk: bool, of_sphinx: bool
) -> None:
    """Copy a table of features, or one matrix in a file. --binary is about a file.

    nnet3 copy-feats --compress=true --write-num-frames=ark,t:utt2num_frames scp:feats.scp ark,scp:out.ark,out.scp
    """
    if of_htk and of_sphinx:
        raise click.UsageError("give --htk-in or --sphinx-in, not both")
    foreign = later.other_features.read_htk if of_htk else later.other_features.read_sphinx if of_sphinx else None
    later.number_tables.copy_features(source, output, binary, method if compress else None, lengths, foreign)


@verb()
@binary_option
@arguments(source="IN", output="OUT")
def copy_int_vector(source: str, output: str, binary: bool) -> None:
    """Copy a table of vectors of integers, or one in a file. --binary is about a file.

    nnet3 copy-int-vector ark:ali.ark ark,t:-
    """
    later.number_tables.copy_int_vectors(source, output, binary)


@verb()
@arguments(source="FEATURES-RSPECIFIER")
@click.argument("output", metavar="[OUT]", required=False, default="-")
def feat_to_dim(source: str, output: str) -> None:
    """Write the number of columns of the first matrix of a table to a file, or of all to a table.

    nnet3 feat-to-dim scp:feats.scp -
    """
    later.number_tables.write_dims(source, output)


@verb()
@arguments(source="FEATURES-RSPECIFIER", output="[LENGTHS-WSPECIFIER]")
def feat_to_len(source: str, output: str) -> None:
    """Write the number of frames of each matrix to a table; without one print their sum.

    nnet3 feat-to-len scp:feats.scp ark,t:-
    """
    total = later.number_tables.write_lengths(source, output)
    if not output:
        click.echo(total)


@verb()
@takes("options", IvectorOptions)
@click.option("--ivector-extractor", "extractor", required=True, metavar="FILE", help="The extractor, final.ie.")
@click.option("--diag-ubm", "gmm", required=True, metavar="FILE", help="The background model, final.dubm.")
@click.option("--lda-matrix", "transform", required=True, metavar="FILE", help="The transform, final.mat.")
@click.option("--global-cmvn-stats", "cmvn_stats", required=True, metavar="FILE", help="Statistics of everybody.")
@text_option("--splice-config", "splice_conf", metavar="FILE", help="Options of the splice.")
@text_option("--cmvn-config", "cmvn_conf", metavar="FILE", help="Options of the normalisation.")
@flag("--repeat", help="An ivector for each frame, instead of one for each --ivector-period.")
@text_option(
    "--frame-weights-rspecifier",
    "frame_weights",
    metavar="RSPECIFIER",
    help="How much each frame counts, instead of 1.",
)
@tolerance_option
@ignored("--num-threads", kind=integer())  # Kaldi's script gives it
@arguments(spk2utt="SPK2UTT-RSPECIFIER", features="FEATURES-RSPECIFIER", output="IVECTORS-WSPECIFIER")
def ivector_extract_online2(**given: Any) -> int:
    """Estimate ivectors as a recognizer does while somebody speaks, one every --ivector-period frames, for networks
    that are given online ivectors. What is known of a speaker goes on to the speaker's next utterance.

    nnet3 ivector-extract-online2 --config=conf/ivector_extractor.conf ark:spk2utt scp:feats.scp ark:ivectors.ark
    """
    files = later.ivectors.IvectorFiles(*map(given.pop, later.ivectors.IvectorFiles._fields))
    return later.audio_features.write_online_ivectors(files=files, **given)


@verb()
@flag("--do-average", "average", help="Means of the rows instead of sums.")
@arguments(matrices="MATRICES-RSPECIFIER", output="VECTORS-WSPECIFIER")
def matrix_sum_rows(matrices: str, output: str, average: bool) -> None:
    """Sum the rows of each matrix of a table, and write a table of vectors with the same keys.

    nnet3 matrix-sum-rows ark:posteriors.ark ark:sums.ark
    """
    later.number_tables.sum_rows(matrices, output, average)


@verb()
@tolerance_option
@binary_option
@arguments(names="IN... OUT")
def paste_feats(names: tuple[str, ...], tolerance: int, binary: bool) -> int:
    """Put features of several tables side by side, for the utterances that all of them have, or matrices in files. Of
    different lengths the shortest counts. --binary is about a file.

    nnet3 paste-feats --length-tolerance=2 scp:mfcc.scp scp:pitch.scp ark:both.ark
    """
    *sources, output = names
    if len(sources) < 2:
        raise click.UsageError("give at least two tables of features, and the one to write")
    return later.feature_tables.paste(sources, output, tolerance, binary)


@verb()
@takes("splice", SpliceOptions)
@arguments(source="FEATURES-RSPECIFIER", output="FEATURES-WSPECIFIER")
def splice_feats(source: str, output: str, splice: SpliceOptions) -> int:
    """Put each frame between its neighbours; the first and the last are repeated at the ends.

    nnet3 splice-feats --left-context=3 --right-context=3 scp:mfcc.scp ark:spliced.ark
    """
    return later.feature_tables.splice(source, output, splice.left_context, splice.right_context)


@verb()
@whole_number("--n", "step", default=1, help="Every n-th frame; -n: each frame n times.")
@whole_number("--offset", least=0, default=0, help="The first frame to take, from 0.")
@arguments(source="FEATURES-RSPECIFIER", output="FEATURES-WSPECIFIER")
def subsample_feats(source: str, output: str, step: int, offset: int) -> int:
    """Take every n-th frame of features, or, with --n=-3, each frame three times.

    nnet3 subsample-feats --n=3 --offset=1 scp:feats.scp ark:fewer.ark
    """
    if step == 0:
        raise click.UsageError("--n=0: expected a number of frames, such as 3, or -3")
    if step < 0 and offset:
        raise click.UsageError("--offset is for --n > 0")
    return later.feature_tables.subsample(source, output, step, offset)


@verb()
@binary_option
@flag("--average", help="The mean of the vectors of one table.")
@arguments(names="IN... OUT")
def vector_sum(names: tuple[str, ...], binary: bool, average: bool) -> int:
    """Sum vectors: all of a table into a file; those of equal keys of several tables into a table; those in files into
    a file. --binary is about a file. Vectors of another length are left out with a warning.

    nnet3 vector-sum ark:sums.ark post.1.vec
    nnet3 vector-sum post.1.vec post.2.vec post.vec
    """
    if len(names) < 2:
        raise click.UsageError("give at least one table or file to read, and the one to write")
    return later.number_tables.sum_vectors(names[:-1], names[-1], binary, average)
