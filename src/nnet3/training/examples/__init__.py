"""Training examples: their files, and the steps from a file to a trainer.

Nothing here needs PyTorch but `to_minibatch`, which is to be imported from its own file."""
