"""The verbs of `nnet3`, one a file: the name of the file is that of the verb."""
