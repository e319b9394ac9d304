# The public names of nnet3.serve, and where each lives.
from .server import Server as Server, serve as serve
