"""From a graph and a request to a checked, optimized program, which is kept: what both front-ends go through."""

from nnet3.driver.cache import ComputationCache, default_cache
from nnet3.driver.family_shelf import FamilyShelf, precompute_of
from nnet3.driver.program_family import CompiledFamily
from nnet3.driver.task import (
    FEWEST_MORE,
    FEWEST_SEQUENCES,
    CompileTask,
    LengthForm,
    RaggedForm,
    SequencesForm,
    compile_task,
    rounded_up,
    steps_beyond,
    task_of,
)

__all__ = [
    "FEWEST_MORE",
    "FEWEST_SEQUENCES",
    "CompileTask",
    "CompiledFamily",
    "ComputationCache",
    "FamilyShelf",
    "LengthForm",
    "RaggedForm",
    "SequencesForm",
    "compile_task",
    "default_cache",
    "precompute_of",
    "rounded_up",
    "steps_beyond",
    "task_of",
]
