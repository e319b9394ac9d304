"""The verbs of `nnet3`, a file for each family; `nnet3.cli.verb_table` lists them."""
