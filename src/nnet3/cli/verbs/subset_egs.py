from nnet3.cli.egs_verbs import PLAIN, subset_egs

command = subset_egs(PLAIN)
