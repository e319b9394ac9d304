"""The stages from a network and a request to a running program, one function each; every result can be printed.

`nnet3.compile` is `build_graph`, `schedule`, `generate` and `optimize` in a row; `NnetComputer` begins with `plan` and
`link`. The tutorial stops at each.
"""

from nnet3.compiler import build_graph as build_graph, generate as generate, schedule as schedule
from nnet3.ir.checker import check_computation as check_computation
from nnet3.ir.parser import parse_computation as parse_computation
from nnet3.ir.passes.pipeline import optimize as optimize
from nnet3.runtime import link as link, plan as plan

__all__ = [name for name in dir() if not name.startswith("_")]
