"""The nnet3 front-end: components, descriptors, networks, requests."""
