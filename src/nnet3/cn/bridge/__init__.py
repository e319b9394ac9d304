"""The bridge between computational networks and nnet3 networks, in both directions."""
