"""The ONNX nodes of components, a family a file."""

# every family, so that its types are registered
from nnet3.export.nnet.emitters import affine, columns, elementwise, gates, times, windows
from nnet3.export.nnet.emitters.kernels import emit, kernels_of
