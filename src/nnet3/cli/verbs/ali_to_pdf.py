from nnet3.cli import later
from nnet3.cli.options import arguments
from nnet3.cli.verb import ALIGNING, verb


@verb("the pdf of each frame of alignments", ALIGNING, program="ali-to-pdf")
@arguments(model="MODEL", alignments="ALIGNMENTS-RSPECIFIER", output="PDFS-WSPECIFIER")
def command(model: str, alignments: str, output: str) -> None:
    """Write the pdf of each frame of alignments.

    \b
    Example:
      nnet3 ali-to-pdf final.mdl ark:ali.ark ark,t:pdf.txt
    """
    later.alignment_tables.to_pdfs(model, alignments, output)
