from nnet3.cli.egs_verbs import CHAIN_KIND, merge_egs

command = merge_egs(CHAIN_KIND)
