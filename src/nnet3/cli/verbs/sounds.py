"""Verbs of recordings, and of the pitch of voices."""

from __future__ import annotations

from typing import Any

from nnet3.base.options.examples import SubsetOptions
from nnet3.base.options.pitch import PitchFeatureOptions, PitchOptions
from nnet3.base.text.values import ANY, Integer
from nnet3.cli import later
from nnet3.cli.declared import one, takes
from nnet3.cli.options import arguments, flag
from nnet3.cli.verb import verb


@verb()
@takes("options", PitchOptions)
@takes("features", PitchFeatureOptions)
@arguments(recordings="RECORDINGS-RSPECIFIER", output="FEATURES-WSPECIFIER")
def compute_and_process_kaldi_pitch_feats(**given: Any) -> int:
    """Make features of the pitch of recordings: voicing, the logarithm of the pitch less its mean, and its change. With
    --frames-per-chunk and --simulate-first-pass-online the features are those that an online recognizer has.

    nnet3 compute-and-process-kaldi-pitch-feats --sample-frequency=8000 scp:wav.scp ark:pitch.ark
    """
    return later.pitch_tables.write_pitch_features(**given)


@verb()
@takes("options", PitchOptions)
@arguments(recordings="RECORDINGS-RSPECIFIER", output="PITCH-WSPECIFIER")
def compute_kaldi_pitch_feats(**given: Any) -> int:
    """Find the pitch of each frame of recordings: how periodic it is, from -1 to 1 (NCCF), and its pitch in Hz.

    nnet3 compute-kaldi-pitch-feats --sample-frequency=8000 scp:wav.scp ark:- | \\
      nnet3 process-kaldi-pitch-feats ark:- ark:pitch.ark
    """
    return later.pitch_tables.write_pitch(**given)


@verb()
@takes("options", PitchFeatureOptions)
@one(SubsetOptions, "seed", kind=Integer(ANY, 64), help="Seed of the noise on changes of the pitch.")
@arguments(source="PITCH-RSPECIFIER", output="FEATURES-WSPECIFIER")
def process_kaldi_pitch_feats(**given: Any) -> int:
    """Make features of what compute-kaldi-pitch-feats writes: voicing, the logarithm of the pitch less its mean, and
    its change.

    nnet3 process-kaldi-pitch-feats ark:raw_pitch.ark ark:pitch.ark
    """
    return later.pitch_tables.process(**given)


@verb()
@arguments(source="IN", output="OUT")
def wav_copy(source: str, output: str) -> int:
    """Copy a table of recordings to a table of WAV files, or one recording to a WAV file, with samples of 16 bits.

    nnet3 wav-copy scp:wav.scp ark,scp:wav.ark,copied.scp
    nnet3 wav-copy "sph2pipe -f wav a.sph |" a.wav
    """
    return later.recording_tables.copy(source, output)


@verb()
@flag("--read-entire-file", "counts", help="Count samples instead of believing the header.")
@arguments(recordings="RECORDINGS-RSPECIFIER", output="SECONDS-WSPECIFIER")
def wav_to_duration(recordings: str, output: str, counts: bool) -> int:
    """Write how many seconds each recording lasts.

    nnet3 wav-to-duration scp:wav.scp ark,t:-
    """
    return later.recording_tables.write_durations(recordings, output, counts)
