"""The stages from a network and a request to a running program, one function each; every result can be printed.

`nnet3.compile` is `build_graph`, `schedule`, `generate` and `optimize` in a row; `NnetComputer` begins with `plan` and
`link`. The tutorial stops at each.
"""

from nnet3.engine.ir.checker import check_computation as check_computation
from nnet3.engine.ir.parser import parse_computation as parse_computation
from nnet3.engine.ir.passes.pipeline import optimize as optimize
from nnet3.engine.runtime import link as link, plan as plan
from nnet3.model.requests import build_graph as build_graph, generate as generate, schedule as schedule

__all__ = [name for name in dir() if not name.startswith("_")]
