"""The verbs of `nnet3`, one a file, whose name is that of the verb; `@verb` and the text of its help say the rest."""
