"""Hidden Markov models: topologies, transition models, trees of context-dependent phones."""
