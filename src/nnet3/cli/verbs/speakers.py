"""Verbs of speaker recognition: who speaks, and who spoke when."""

from __future__ import annotations

from typing import Any

import click

from nnet3.base.options.speaker import (
    ClusteringOptions,
    DiarizationOptions,
    PldaAdaptationOptions,
    PldaScoringOptions,
    SlidingCmvnOptions,
    SpeakerLdaOptions,
    VadOptions,
)
from nnet3.base.text.values import above, at_least, between, bounds
from nnet3.cli import later
from nnet3.cli.declared import takes
from nnet3.cli.options import arguments, binary_option, flag, ignored, number, text_option, whole_number
from nnet3.cli.verb import verb

_scoring_options = takes("options", PldaScoringOptions)


@verb()
@takes("options", ClusteringOptions)
@flag("--read-costs", "costs", help="The matrices are of costs, which are small for segments of one speaker.")
@text_option(
    "--reco2num-spk-rspecifier", "numbers", metavar="RSPECIFIER", help="The number of speakers of each recording."
)
@arguments(scores="SCORES-RSPECIFIER", reco2utt="RECO2UTT-RSPECIFIER", output="LABELS-WSPECIFIER")
def agglomerative_cluster(
    scores: str, reco2utt: str, output: str, numbers: str, costs: bool, options: ClusteringOptions
) -> None:
    """Cluster the segments of each recording by the scores of all pairs, so that each cluster is a speaker.

    nnet3 agglomerative-cluster --threshold=0.5 scp:scores.scp ark:reco2utt ark,t:labels
    """
    later.speaker_scores.cluster(scores, reco2utt, output, numbers, costs, options)


@verb()
@takes("options", SlidingCmvnOptions)
@whole_number("--max-warnings", "warnings", least=-1, default=5, help="0: no warnings of variances that are nearly 0.")
@arguments(source="FEATURES-RSPECIFIER", output="FEATURES-WSPECIFIER")
def apply_cmvn_sliding(source: str, output: str, options: SlidingCmvnOptions, warnings: int) -> int:
    """Normalise features by the mean of a window that slides over the frames.

    nnet3 apply-cmvn-sliding --norm-vars=false --center=true --cmn-window=300 scp:feats.scp ark:normalised.ark
    """
    return later.voice_tables.normalise_sliding(source, output, options, warnings != 0)


@verb()
@arguments(scores="SCORES")
def compute_eer(scores: str) -> None:
    """Print the equal error rate in percent of a file with lines 'SCORE target' and 'SCORE nontarget'.

    nnet3 compute-eer scores.txt
    """
    later.speaker_scores.print_equal_error_rate(scores)


@verb()
@number("--p-target", "target_share", rule=between(0, 1), default=0.01, help="How often a trial is of one speaker.")
@number("--c-miss", "miss_cost", rule=above(0), default=1.0, help="Cost of a miss.")
@number("--c-fa", "alarm_cost", rule=above(0), default=1.0, help="Cost of a false alarm.")
@arguments(scores="SCORES", trials="TRIALS")
def compute_min_dcf(scores: str, trials: str, target_share: float, miss_cost: float, alarm_cost: float) -> None:
    """Print the least detection cost of scores, given trials with lines 'KEY KEY target' and 'KEY KEY nontarget'. The
    verb is Kaldi's script sid/compute_min_dcf.py.

    nnet3 compute-min-dcf --p-target=0.001 scores trials
    """
    later.speaker_scores.print_detection_cost(scores, trials, target_share, miss_cost, alarm_cost)


@verb()
@takes("options", VadOptions)
@flag("--omit-unvoiced-utts", "omit", help="Write nothing of utterances without a voice.")
@arguments(source="FEATURES-RSPECIFIER", output="VAD-WSPECIFIER")
def compute_vad(source: str, output: str, options: VadOptions, omit: bool) -> int:
    """Say of each frame whether it has a voice, 1 or 0, by its energy, the first feature.

    nnet3 compute-vad --config=conf/vad.conf scp:feats.scp ark,scp:vad.ark,vad.scp
    """
    return later.voice_tables.write_voice_activity(source, output, options, omit)


@verb()
@takes("options", DiarizationOptions)
@whole_number("--num-speakers", "count", least=0, default=0, help="The number of speakers (0: as many as it seems).")
@text_option("--output", metavar="FILE", help="Where to write (else the terminal).")
@arguments(model="MODEL-DIR", recordings="RECORDINGS...")
def diarize(model: str, recordings: tuple[str, ...], output: str, count: int, options: DiarizationOptions) -> int:
    """Say who spoke when in files of audio, with a directory of an x-vector model and PLDA. Turns are lines of RTTM.

    nnet3 diarize --num-speakers=2 model call.wav
    """
    return later.speaker_scores.diarize_recordings(model, recordings, output, count, options)


@verb()
@whole_number("--dim", default=-1, help="Dimensions to keep (0 or less: all).")
@flag("--read-vectors", "of_vectors", help="The table is of vectors, not of matrices.")
@flag("--normalize-variance", "unit", help="Give each dimension a variance of 1.")
@flag("--normalize-mean", "centred", help="Subtract the mean: the transform's last column is an offset.")
@text_option("--write-full-matrix", "whole", metavar="FILE", help="Where to write the transform of all dimensions.")
@binary_option
@arguments(source="RSPECIFIER", output="TRANSFORM")
def est_pca(
    source: str, output: str, dim: int, of_vectors: bool, unit: bool, centred: bool, whole: str, binary: bool
) -> None:
    """Estimate a transform to principal axes, of features or, with --read-vectors, of vectors.

    nnet3 est-pca --read-vectors=true --normalize-variance=true scp:xvector.scp transform.mat
    """
    later.speaker_tables.write_pca(source, output, dim, of_vectors, unit, centred, whole, binary)


@verb()
@number("--min-segment-length", "least", rule=at_least(0), default=0.1, help="Leave out what is shorter (seconds).")
@number(
    "--max-overshoot",
    "overshoot",
    rule=at_least(0),
    default=0.5,
    help="How far a segment may reach over the end (seconds).",
)
@arguments(recordings="WAV-RSPECIFIER", segments="SEGMENTS", output="WAV-WSPECIFIER")
def extract_segments(recordings: str, segments: str, output: str, least: float, overshoot: float) -> None:
    """Cut segments out of recordings. A line of SEGMENTS is 'SEGMENT RECORDING START END', in seconds, with -1 for the
    end of the recording, and a channel, from 0, where there are several.

    nnet3 extract-segments scp:wav.scp segments ark:- | nnet3 compute-mfcc-feats ark:- ark:mfcc.ark
    """
    later.voice_tables.extract_segments(recordings, segments, output, least, overshoot)


@verb()
@number("--min-segment-length", default=0.1, help="Leave out what is not longer (seconds).")
@number("--max-overshoot", default=0.0, help="How far a segment may reach over the end (seconds).")
@whole_number("--frame-shift", least=1, default=10, help="Milliseconds from frame to frame.")
@whole_number("--frame-length", least=1, default=25, help="Milliseconds of a frame.")
@flag("--snip-edges", default=True, show_default=True, help="Leave out last frames that reach over the segment's end.")
@arguments(source="FEATURES-RSPECIFIER", segments="SEGMENTS", output="FEATURES-WSPECIFIER")
def extract_feature_segments(source: str, segments: str, output: str, **given: Any) -> int:
    """Cut segments out of features. A line of SEGMENTS is 'SEGMENT UTTERANCE START END', in seconds.

    nnet3 extract-feature-segments --snip-edges=false scp:feats.scp segments ark:parts.ark
    """
    return later.voice_tables.cut_features(source, segments, output, later.voice_tables.FeatureSegments(**given))


@verb()
@takes("options", PldaAdaptationOptions)
@binary_option
@arguments(model="PLDA", source="VECTORS-RSPECIFIER", output="PLDA-OUT")
def ivector_adapt_plda(model: str, source: str, output: str, options: PldaAdaptationOptions, binary: bool) -> None:
    """Adapt a PLDA model to vectors of another kind, whose speakers are unknown.

    nnet3 ivector-adapt-plda --within-covar-scale=0.75 --between-covar-scale=0.25 plda ark:vectors.ark plda_adapt
    """
    later.speaker_tables.adapt_plda(model, source, output, options, binary)


@verb()
@arguments(trials="TRIALS", first="VECTORS-RSPECIFIER", second="VECTORS-RSPECIFIER", output="SCORES")
def ivector_compute_dot_products(trials: str, first: str, second: str, output: str) -> int:
    """Write the dot product for each line 'KEY KEY' of trials, the first key of the first table.

    nnet3 ivector-compute-dot-products trials ark:speakers.ark ark:tests.ark scores
    """
    return later.speaker_scores.dot_products(trials, first, second, output)


@verb()
@takes("options", SpeakerLdaOptions)
@binary_option
@arguments(source="VECTORS-RSPECIFIER", utt2spk="UTT2SPK-RSPECIFIER", output="TRANSFORM")
def ivector_compute_lda(source: str, utt2spk: str, output: str, options: SpeakerLdaOptions, binary: bool) -> None:
    """Estimate the transform to the dimensions that tell speakers apart best; its last column is an offset.

    nnet3 ivector-compute-lda --dim=150 scp:xvector.scp ark:utt2spk transform.mat
    """
    later.speaker_tables.write_lda(source, utt2spk, output, options, binary)


@verb()
@whole_number("--num-em-iters", "iterations", least=0, default=10, help="Iterations of training.")
@binary_option
@arguments(spk2utt="SPK2UTT-RSPECIFIER", source="VECTORS-RSPECIFIER", output="PLDA")
def ivector_compute_plda(spk2utt: str, source: str, output: str, iterations: int, binary: bool) -> None:
    """Train a PLDA model, which says whether two vectors are of one speaker.

    nnet3 ivector-compute-plda ark:spk2utt ark:vectors.ark plda
    """
    later.speaker_tables.write_plda(spk2utt, source, output, iterations, binary)


@verb()
@number(
    "--smoothing", rule=bounds(minimum=0, maximum=1), default=0.0,
    help="How much of the covariance between speakers is added to that within.",
)  # fmt: skip
@ignored("--normalize-length", "--simple-length-normalization")
@binary_option
@arguments(model="PLDA", output="PLDA-OUT")
def ivector_copy_plda(model: str, output: str, smoothing: float, binary: bool) -> None:
    """Copy a PLDA model, smoothed or not.

    nnet3 ivector-copy-plda --smoothing=0.1 plda smooth.plda
    """
    later.speaker_tables.copy_plda(model, output, smoothing, binary)


@verb()
@flag("--binary", default=False, show_default=True, help="Write the mean of all in binary mode.")
@arguments(names="[SPK2UTT-RSPECIFIER] VECTORS-RSPECIFIER OUT [NUM-UTTS-WSPECIFIER]")
def ivector_mean(names: tuple[str, ...], binary: bool) -> int:
    """Write the mean vector of each speaker, and how many vectors are in each mean, to tables; or write the mean of a
    whole table to a file.

    nnet3 ivector-mean ark:spk2utt scp:xvector.scp ark:speakers.ark ark,t:num_utts.ark
    nnet3 ivector-mean scp:xvector.scp mean.vec
    """
    if not 2 <= len(names) <= 4:
        raise click.UsageError("give a table and a file, or speakers, a table, and one or two tables to write")
    if len(names) == 2:
        later.speaker_tables.write_mean(*names, binary)
        return 0
    spk2utt, vectors, output, *counts = names
    return later.speaker_tables.write_speaker_means(spk2utt, vectors, output, counts[0] if counts else "")


@verb()
@flag("--normalize", default=True, show_default=True, help="False: copy.")
@flag("--scaleup", default=True, show_default=True, help="The length is the square root of the dimension (false: 1).")
@arguments(source="VECTORS-RSPECIFIER", output="VECTORS-WSPECIFIER")
def ivector_normalize_length(source: str, output: str, normalize: bool, scaleup: bool) -> int:
    """Give all vectors the same length.

    nnet3 ivector-normalize-length ark:vectors.ark ark:normalised.ark
    """
    return later.speaker_tables.normalise_lengths(source, output, normalize, scaleup)


@verb()
@_scoring_options
@text_option(
    "--num-utts", "counts", metavar="RSPECIFIER", help="The number of utterances whose mean each enrolled vector is."
)
@arguments(plda="PLDA", enrolled="VECTORS-RSPECIFIER", tests="VECTORS-RSPECIFIER", trials="TRIALS", output="SCORES")
def ivector_plda_scoring(
    plda: str, enrolled: str, tests: str, trials: str, output: str, counts: str, options: PldaScoringOptions
) -> int:
    """Write for each line 'SPEAKER TEST' of trials the log-likelihood ratio of one speaker against two.

    nnet3 ivector-plda-scoring --num-utts=ark:num_utts.ark plda ark:speakers.ark ark:tests.ark trials scores
    """
    return later.speaker_scores.score_trials(plda, enrolled, tests, trials, output, counts, options)


@verb()
@_scoring_options
@number(
    "--target-energy", "energy", rule=bounds(above=0, maximum=1), default=0.5,
    help="Share of a recording's variance that the first axes keep (1: all axes).",
)  # fmt: skip
@arguments(plda="PLDA", reco2utt="RECO2UTT-RSPECIFIER", source="VECTORS-RSPECIFIER", output="SCORES-WSPECIFIER")
def ivector_plda_scoring_dense(
    plda: str, reco2utt: str, source: str, output: str, energy: float, options: PldaScoringOptions
) -> int:
    """Write for each recording a matrix of the log-likelihood ratios of all pairs of its segments.

    nnet3 ivector-plda-scoring-dense --target-energy=0.1 plda ark:reco2utt ark:vectors.ark ark,scp:scores.ark,scores.scp
    """
    return later.speaker_scores.score_dense(plda, reco2utt, source, output, energy, options)


@verb()
@flag("--subtract-mean", "subtract", default=True, show_default=True, help="False: copy.")
@arguments(names="[MEAN] VECTORS-RSPECIFIER VECTORS-WSPECIFIER")
def ivector_subtract_global_mean(names: tuple[str, ...], subtract: bool) -> int:
    """Subtract the mean in a file, or the mean of the table itself, from each vector.

    nnet3 ivector-subtract-global-mean mean.vec scp:xvector.scp ark:centred.ark
    """
    if not 2 <= len(names) <= 3:
        raise click.UsageError("give a table and the table to write, or a mean, a table and the table to write")
    *mean, vectors, output = names
    return later.speaker_tables.subtract_mean(mean[0] if mean else "", vectors, output, subtract)


@verb()
@arguments(transform="TRANSFORM", source="VECTORS-RSPECIFIER", output="VECTORS-WSPECIFIER")
def ivector_transform(transform: str, source: str, output: str) -> int:
    """Multiply vectors with a matrix, whose last column may be an offset, as transform-vec does.

    nnet3 ivector-transform transform.mat ark:vectors.ark ark:transformed.ark
    """
    return later.speaker_tables.transform_vectors(transform, source, output)


@verb()
@whole_number("--rttm-channel", "channel", least=0, default=0, help="The channel in the lines.")
@arguments(segments="SEGMENTS", labels="LABELS", output="RTTM")
def make_rttm(segments: str, labels: str, output: str, channel: int) -> None:
    """Make turns of speakers, lines of RTTM, from segments that may overlap and the segments' labels. The verb is
    Kaldi's script diarization/make_rttm.py.

    nnet3 make-rttm segments labels rttm
    """
    later.speaker_scores.write_rttm(segments, labels, output, channel)


@verb()
@text_option("--map", "labels", metavar="FILE", help="Lines of two labels, and the label that they become.")
@arguments(first="VAD-RSPECIFIER", second="VAD-RSPECIFIER", output="VAD-WSPECIFIER")
def merge_vads(**given: Any) -> int:
    """Merge the labels of frames of two tables: a voice where both have one, or what --map says.

    nnet3 merge-vads scp:vad_energy.scp scp:vad_music.scp ark:vad.ark
    """
    return later.voice_tables.merge_voice_activities(**given)


@verb()
@arguments(source="FEATURES-RSPECIFIER", activity="VAD-RSPECIFIER", output="FEATURES-WSPECIFIER")
def select_voiced_frames(source: str, activity: str, output: str) -> int:
    """Keep the frames that have a voice, as compute-vad says.

    nnet3 select-voiced-frames scp:feats.scp scp:vad.scp ark:voiced.ark
    """
    return later.voice_tables.select_voiced(source, activity, output)


@verb()
@arguments(transform="TRANSFORM", source="VECTORS-RSPECIFIER", output="VECTORS-WSPECIFIER")
def transform_vec(transform: str, source: str, output: str) -> int:
    """Multiply vectors with a matrix, whose last column may be an offset.

    nnet3 transform-vec transform.mat ark:vectors.ark ark:transformed.ark
    """
    return later.speaker_tables.transform_vectors(transform, source, output)


@verb()
@arguments(model="MODEL-DIR", recordings="TEST ENROLLED...")
def verify(model: str, recordings: tuple[str, ...]) -> None:
    """Print a log-likelihood ratio: that the speaker of the enrolled recordings speaks in the test, over that somebody
    else does. MODEL-DIR has an x-vector model and PLDA.

    nnet3 verify model test.wav anna.1.wav anna.2.wav
    """
    if len(recordings) < 2:
        raise click.UsageError("give a test and at least one enrolled recording")
    later.speaker_scores.print_verification(model, recordings[0], recordings[1:])
