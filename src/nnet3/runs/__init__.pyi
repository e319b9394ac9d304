# What kinds of data and of objectives do.
from . import by_node as by_node
from . import chain as chain
from . import frames as frames
