"""The command line: `nnet3 VERB`, one small file a verb, with the option names of Kaldi's programs."""

from nnet3.cli.entry import kaldi_program, main

__all__ = ["kaldi_program", "main"]
