from typing import Any

import click

from nnet3.cli import later
from nnet3.cli.options import arguments, whole_number
from nnet3.cli.verb import RUNNING, verb

_FORMATS = {
    "json": "JSON as Vosk writes it, one object a segment: words with times and confidences.",
    "ctm": "Lines of Kaldi's ctm: recording, channel, begin, duration, word, confidence.",
    "srt": "Subtitles (SubRip).",
    "vtt": "Subtitles (WebVTT).",
}


def _formats(function: Any) -> Any:
    for name, what in reversed(_FORMATS.items()):
        function = click.option(f"--{name}", "output_format", flag_value=name, help=what)(function)
    return function


@verb("write the words of recordings", RUNNING)
@_formats
@whole_number("--alternatives", least=0, default=0, help="Alternatives a segment in JSON.")
@click.option("--output-dir", metavar="DIR", help="A file for each recording there, instead of standard output.")
@click.option("--raw", is_flag=True, help="The recordings are 16-bit PCM without a header.")
@whole_number("--sample-rate", least=1, metavar="HZ", help="With --raw: samples per second.")
@whole_number("--channels", least=1, default=1, help="With --raw: channels.")
@whole_number("--channel", least=0, metavar="N", help="The channel to take, from 0; else their mean.")
@click.option("--graph", metavar="DIR", help="The folder of the graph, if it is not in the model directory.")
@arguments(model="MODEL-DIR", recordings="RECORDING...")
def command(**given: Any) -> None:
    """Write the words of recordings, with a model directory of Vosk or Kaldi.

    A RECORDING is a WAV file, `-`, a table scp:wav.scp or ark:wav.ark, or another format where soundfile is
    installed. What comes out of a pipe is heard as it comes. Text is a line for each segment between pauses; with
    several recordings a line for each of them, which begins with its name. One that cannot be read is reported and
    left out; the exit status is 1 if none is left.

    \b
    Example:
      nnet3 transcribe --srt vosk-model-small-ko-0.22 talk.wav > talk.srt
    """
    if given["raw"] and given["sample_rate"] is None:
        raise click.UsageError("--raw needs --sample-rate")
    if not given["raw"] and given["sample_rate"] is not None:
        raise click.UsageError("--sample-rate is for --raw: other files say it themselves")
    if given["output_format"] != "json" and given["alternatives"]:
        raise click.UsageError("--alternatives are for --json")
    later.transcribing.transcribe(**given)
