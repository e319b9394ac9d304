from nnet3.cli.training_graph_verbs import training_graphs_verb

command = training_graphs_verb()
