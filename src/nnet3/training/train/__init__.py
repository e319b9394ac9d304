"""Training: minibatches, objectives, the trainer."""
