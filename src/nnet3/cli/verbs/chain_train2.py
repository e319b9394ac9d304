from nnet3.cli.chain_verbs import train_verb

command = train_verb(by_language=True)
