"""Models of nnet1 and nnet2, which came before nnet3 in Kaldi, as networks of nnet3."""
