# What kinds of data and of objectives do.
from . import archives as archives, objectives as objectives
