import click

from nnet3.cli import later
from nnet3.cli.options import arguments, flag, number
from nnet3.cli.verb import ALIGNING, verb
from nnet3.text.values import above


@verb("the phones of alignments", ALIGNING, program="ali-to-phones")
@flag("--per-frame", help="A phone for each frame.")
@flag("--write-lengths", "lengths", help="Phones with numbers of frames.")
@flag("--ctm-output", "ctm", help="A file of phones with times in seconds.")
@number("--frame-shift", rule=above(0), default=0.01, help="Seconds from frame to frame, for --ctm-output.")
@arguments(model="MODEL", alignments="ALIGNMENTS-RSPECIFIER", output="PHONES-WSPECIFIER")
def command(
    model: str, alignments: str, output: str, per_frame: bool, lengths: bool, ctm: bool, frame_shift: float
) -> None:
    """Write the phones of alignments: a table, or with --ctm-output a file.

    \b
    Examples:
      nnet3 ali-to-phones --write-lengths=true final.mdl ark:ali.ark ark,t:-
      nnet3 ali-to-phones --ctm-output=true --frame-shift=0.03 final.mdl ark:ali.ark phones.ctm
    """
    if sum((per_frame, lengths, ctm)) > 1:
        raise click.UsageError("give one of --per-frame, --write-lengths and --ctm-output")
    if ctm:
        later.alignment_tables.to_ctm(model, alignments, output, frame_shift)
    else:
        later.alignment_tables.to_phones(model, alignments, output, per_frame, lengths)
