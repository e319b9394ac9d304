"""Execution: a computation is planned (memory and calls), linked (to memory and kernels) and run."""

from nnet3.engine.runtime.computer import NnetComputer
from nnet3.engine.runtime.link import LinkedComputation, link
from nnet3.engine.runtime.memory import release_memory
from nnet3.engine.runtime.plan import Plan
from nnet3.engine.runtime.plan_family import plan_of
from nnet3.engine.runtime.planning import plan
