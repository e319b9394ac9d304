from nnet3.cli.chain_verbs import combine_verb

command = combine_verb(by_language=True)
