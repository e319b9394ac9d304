"""The command line: `nnet3 VERB`, one file a family of verbs, with the option names of Kaldi's programs."""

from nnet3.cli.entry import kaldi_program, main
