from nnet3.cli.egs_verbs import CHAIN_KIND, subset_egs

command = subset_egs(CHAIN_KIND)
