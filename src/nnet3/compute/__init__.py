"""Execution: a computation is planned (memory and calls), linked (to memory and kernels) and run."""

from nnet3.compute.computer import NnetComputer
from nnet3.compute.link import LinkedComputation, link
from nnet3.compute.memory import release_memory
from nnet3.compute.plan import Plan
from nnet3.compute.planner import plan, plan_of

__all__ = ["LinkedComputation", "NnetComputer", "Plan", "link", "plan", "plan_of", "release_memory"]
