"""Pages to look at in a browser: a network, its graph in time, its program, memory and profile in one HTML file."""

from nnet3.explore.explore import explore
from nnet3.explore.run_page import run_page
from nnet3.explore.serving import PageServer

__all__ = ["PageServer", "explore", "run_page"]
