# The public names of nnet3.explore, and where each lives.
from .network_page import explore as explore
from .serving import PageServer as PageServer
from .training_page import run_page as run_page
