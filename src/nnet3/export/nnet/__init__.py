"""What files of nnet3 networks are made of: inputs, programs, outputs, and the ONNX nodes of components."""
