"""`nnet3 demo`: train networks on real data, evaluate them, and report."""
