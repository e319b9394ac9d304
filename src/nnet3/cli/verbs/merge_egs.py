from nnet3.cli.egs_verbs import PLAIN, merge_egs

command = merge_egs(PLAIN)
