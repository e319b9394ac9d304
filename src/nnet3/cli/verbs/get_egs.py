from nnet3.cli import later
from nnet3.cli.declared import takes
from nnet3.cli.egs_options import ivectors_option
from nnet3.cli.options import arguments, flag, whole_number
from nnet3.cli.verb import EXAMPLES, verb
from nnet3.options import MakingOptions


@verb("make training examples of features and posteriors", EXAMPLES, program="nnet3-get-egs")
@takes("options", MakingOptions)
@ivectors_option
@whole_number("--num-pdfs", least=1, required=True, help="Columns of the supervision.")
@flag("--pdf-alignments", help="The second table has vectors of integers, the pdf of each frame, not posteriors.")
@arguments(features="FEATURES-RSPECIFIER", targets="PDF-POSTERIORS-RSPECIFIER", output="EGS-WSPECIFIER")
def command(num_pdfs: int, pdf_alignments: bool, options: MakingOptions, **tables: str) -> None:
    """Cut utterances into chunks and make a training example of each: input with context, ivector, and posteriors of
    pdfs as supervision, one frame of them per output frame. What cannot be used is reported and left out.

    \b
    Example:
      nnet3 get-egs --num-pdfs=2658 --left-context=12 --right-context=9 --num-frames=8 scp:feats.scp \\
        "ark:ali-to-pdf final.mdl ark:ali.ark ark:- | ali-to-post ark:- ark:- |" ark:egs.ark
    """
    making = later.get_egs_tables.MakingTables(**tables)
    later.get_egs_tables.make_from_posteriors(making, num_pdfs, pdf_alignments, options)
