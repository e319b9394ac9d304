# The public names of nnet3.serve, and where each lives.
from nnet3.speech.serve.server import Server as Server, serve as serve
