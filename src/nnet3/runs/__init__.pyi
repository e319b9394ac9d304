# What kinds of data and of objectives do.
from . import archives as archives
from . import objectives as objectives
