"""Makes a checked, optimized program of a graph and a request, and keeps it: the way of both front-ends."""

from nnet3.engine.driver.cache import ComputationCache, default_cache
from nnet3.engine.driver.family_store import FamilyStore, precompute_of
from nnet3.engine.driver.program_family import CompiledFamily
from nnet3.engine.driver.proving import prove_made_of_others
from nnet3.engine.driver.task import (
    FEWEST_MORE,
    FEWEST_SEQUENCES,
    CompileTask,
    LengthSeries,
    RaggedRelation,
    SequencesSeries,
    compile_task,
    increments_beyond,
    rounded_up,
    rows_apart,
    task_of,
)
