from nnet3.cli import later
from nnet3.cli.declared import takes
from nnet3.cli.options import arguments
from nnet3.cli.verb import CHAIN, verb
from nnet3.options import PhoneLmOptions


@verb("estimate the phone language model of a denominator graph", CHAIN, program="chain-est-phone-lm")
@takes("options", PhoneLmOptions)
@arguments(sequences="PHONES-RSPECIFIER", output="PHONE-LM-OUT")
def command(sequences: str, output: str, options: PhoneLmOptions) -> None:
    """Estimate a language model of sequences of phones: an n-gram without smoothing and without back-off arcs.

    \b
    Example:
      nnet3 chain-est-phone-lm --num-extra-lm-states=2000 \\
        "ark:gunzip -c ali.*.gz | ali-to-phones final.mdl ark:- ark:- |" phone_lm.fst
    """
    later.chain_graphs.estimate(sequences, output, options)
