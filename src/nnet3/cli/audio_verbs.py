"""Verbs that make features of recordings, one for each kind of features."""

from __future__ import annotations

from typing import Any

import click

from nnet3.cli import later
from nnet3.cli.click_types import click_type
from nnet3.cli.declared import takes
from nnet3.cli.options import KALDI_BOOL, all_of, arguments, flag, number, whole_number
from nnet3.cli.verb import TABLES, Verb, verb
from nnet3.options import FbankOptions, MfccOptions
from nnet3.text.values import Number, at_least

_KALDI_DEFAULTS = {"dither": 1.0, "allow_downsample": False, "allow_upsample": False}
_WITHOUT_EFFECT = all_of(
    *(
        click.option(f"--{name}", type=click_type(Number()), hidden=True, expose_value=False)
        for name in ("vtln-low", "vtln-high", "max-feature-vectors")
    ),
    click.option("--debug-mel", type=KALDI_BOOL, hidden=True, expose_value=False),
)


def audio_features_verb(kind: str, what: str, options: type[MfccOptions | FbankOptions]) -> Verb:
    """The verb that makes features of a kind, `mfcc` or `fbank` (Kaldi: compute-mfcc-feats, compute-fbank-feats)."""
    name = f"compute-{kind}-feats"

    @verb(
        f"{what} of recordings",
        TABLES,
        program=name,
        program_defaults=_KALDI_DEFAULTS,
        name=name,
        help=_HELP.format(what=what, kind=kind),
    )
    @takes("options", options)
    @_WITHOUT_EFFECT
    @flag("--subtract-mean", "less_mean", help="Subtract the mean of each recording.")
    @whole_number("--channel", least=-1, default=-1, help="Which channel, from 0; -1: the first one.")
    @number(
        "--min-duration", "least_seconds", rule=at_least(0), default=0.0, help="Leave out what is shorter (seconds)."
    )
    @click.option("--write-utt2dur", "durations", default="", metavar="WSPECIFIER", help="Table of seconds.")
    @click.option("--output-format", type=click.Choice(["kaldi"]), default="kaldi", expose_value=False, hidden=True)
    @arguments(recordings="RECORDINGS-RSPECIFIER", output="FEATURES-WSPECIFIER")
    def command(recordings: str, output: str, options: MfccOptions | FbankOptions, **chosen: Any) -> int:
        recording_options = later.audio_features.RecordingOptions(**chosen)
        return later.audio_features.write_audio_features(recordings, output, options, recording_options)

    return command


_HELP = """Make {what} of recordings: scp:wav.scp names WAV files, commands that print one, or other formats where
soundfile is installed.

There is no noise (dither) unless asked for; compute-{kind}-feats, Kaldi's name, adds it by default, and refuses
recordings of another rate than --sample-frequency, as Kaldi does.

\b
Example:
  nnet3 compute-{kind}-feats --config=conf/{kind}.conf scp:wav.scp ark,scp:feats.ark,feats.scp
"""
