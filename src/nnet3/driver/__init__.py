"""Makes a checked, optimized program of a graph and a request, and keeps it: both front-ends go through here."""

from nnet3.driver.cache import ComputationCache as ComputationCache, default_cache as default_cache
from nnet3.driver.family_shelf import FamilyShelf as FamilyShelf, precompute_of as precompute_of
from nnet3.driver.program_family import CompiledFamily as CompiledFamily
from nnet3.driver.task import (
    FEWEST_MORE as FEWEST_MORE,
    FEWEST_SEQUENCES as FEWEST_SEQUENCES,
    CompileTask as CompileTask,
    LengthForm as LengthForm,
    RaggedForm as RaggedForm,
    SequencesForm as SequencesForm,
    compile_task as compile_task,
    rounded_up as rounded_up,
    steps_beyond as steps_beyond,
    task_of as task_of,
)
