from nnet3.cli.egs_verbs import CHAIN_KIND, shuffle_egs

command = shuffle_egs(CHAIN_KIND)
