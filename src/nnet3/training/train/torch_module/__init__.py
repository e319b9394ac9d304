"""A network as a `torch.nn.Module`: the network's own parameters, gradients from its own backward pass."""

from nnet3.training.train.torch_module.module import TorchModule as TorchModule
