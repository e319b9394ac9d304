from .cache import ComputationCache as ComputationCache, default_cache as default_cache
from .family_store import FamilyStore as FamilyStore, precompute_of as precompute_of
from .program_family import CompiledFamily as CompiledFamily
from .proving import prove_made_of_others as prove_made_of_others
from .task import (
    FEWEST_MORE as FEWEST_MORE,
    FEWEST_SEQUENCES as FEWEST_SEQUENCES,
    CompileTask as CompileTask,
    LengthSeries as LengthSeries,
    RaggedRelation as RaggedRelation,
    SequencesSeries as SequencesSeries,
    compile_task as compile_task,
    increments_beyond as increments_beyond,
    rounded_up as rounded_up,
    rows_apart as rows_apart,
    task_of as task_of,
)
