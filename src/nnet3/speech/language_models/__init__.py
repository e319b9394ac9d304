"""Language models: ARPA and const-arpa files, acceptors of words, RNNLMs; folders of words."""
