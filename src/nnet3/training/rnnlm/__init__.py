"""Training of RNN language models: word features, examples, sampling, the objective, the trainer."""
