from nnet3.cli.egs_verbs import PLAIN, shuffle_egs

command = shuffle_egs(PLAIN)
