from nnet3.decode import compute_utterance as compute_utterance
