"""The passes in order, and their runner, `optimize`.

Passes have levels, as a compiler's -O1 to -O4: level n runs all passes of level n or below.

1. Passes only dropping, moving and shortening: fewer commands and less memory for little work.
2. Passes letting matrices share storage, to save copies and use memory again, and passes packing values.
3. Passes computing otherwise: sums may be rounded otherwise, and new matrices may take memory.
4. Passes computing again what is cheap instead of keeping it. The default level.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from nnet3.base.options.compiling import DEFAULT_LEVEL
from nnet3.base.text.suggest import did_you_mean
from nnet3.engine.ir.analysis import forget_analysis
from nnet3.engine.ir.checker import check_computation
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.objects import many_objects
from nnet3.engine.ir.passes.compress_signs import compress_signs
from nnet3.engine.ir.passes.dead_code import dead_code
from nnet3.engine.ir.passes.hoist_products import hoist_products
from nnet3.engine.ir.passes.keep_inputs import keep_inputs
from nnet3.engine.ir.passes.move_sizing import move_sizing
from nnet3.engine.ir.passes.pack_weights import pack_weights
from nnet3.engine.ir.passes.postpone_derivatives import postpone_derivatives
from nnet3.engine.ir.passes.rematerialize import rematerialize
from nnet3.engine.ir.passes.share_copies import share_copies
from nnet3.engine.ir.passes.work_in_place import work_in_place
from nnet3.engine.ir.passes.write_where_copied import write_where_copied
from nnet3.engine.ir.proof.equal import PassResult, prove_equal
from nnet3.engine.ir.repeats import unrolled
from nnet3.errors import ComputationCheckError, Nnet3Error, ProofError, check_kind


@dataclass(frozen=True)
class Pass:
    """A function that returns an equivalent computation, or its argument if nothing is to be done.

    With `adds_matrices` the result may need more memory, at most by the added matrices. With `joins_matrices` several
    matrices become one matrix, alive as long as any of its parts: the result needs at most as much memory as if every
    part had the size of the whole. No pass without these marks ever needs more.
    """

    name: str
    function: Callable[[NnetComputation], NnetComputation]
    level: int = 1
    adds_matrices: bool = False
    joins_matrices: bool = False


PIPELINE = (
    Pass("hoist_products", hoist_products, 3, adds_matrices=True),  # while copies still say where columns come from
    Pass("postpone_derivatives", postpone_derivatives, 3, adds_matrices=True),  # likewise, of what they send back
    Pass("write_where_copied", write_where_copied, 2),  # before what it leaves behind is dropped
    Pass("dead_code", dead_code),  # before the rest, so that nobody reads what the others could else not touch
    Pass("keep_inputs", keep_inputs, 2),  # so that what reads an output can work where it lies
    Pass("share_copies", share_copies, 2, joins_matrices=True),
    Pass("work_in_place", work_in_place, 2, joins_matrices=True),  # after copies are gone that keep a value alive
    Pass("compress_signs", compress_signs, 2),  # when it is settled what lies where
    Pass("pack_weights", pack_weights, 3, adds_matrices=True),  # new matrices would change what may share storage
    Pass("rematerialize", rematerialize, 4),  # when it is settled what is accessed when
    Pass("move_sizing", move_sizing),
)


@many_objects()
def optimize(
    computation: NnetComputation,
    disabled: Collection[str] = frozenset(),
    check_between: bool = False,
    dump: Callable[[str, NnetComputation], None] | None = None,
    level: int = DEFAULT_LEVEL,
    prove: bool | list[PassResult] = False,
) -> NnetComputation:
    """Run the passes of PIPELINE up to `level`, except those in `disabled`; the argument is not changed.

    Repeats are unrolled first, for passes to see all iterations. With `check_between` the checker looks at the
    computation before the first pass and after each pass, and its ComputationCheckError names the pass. With `prove` a
    ProofError names the first pass with a result computing something else than the argument; a list gets the results
    instead, for `prove_results`. `dump` is called with ("", computation) before the first pass and with the pass's
    name and its result after each. Raises Nnet3Error for an unknown name in `disabled`.
    """
    check_kind(computation, NnetComputation, "what is optimized", "a computation")
    names = [p.name for p in PIPELINE]
    for name in disabled:
        if name not in names:
            hint = did_you_mean(name, names) or f"the passes are {', '.join(names)}"
            raise Nnet3Error(f"no pass is called '{name}': {hint}")
    passes = [p for p in PIPELINE if p.level <= level and p.name not in disabled]
    results = prove if isinstance(prove, list) else list[PassResult]()
    first = len(results)
    for each in (Pass("", unrolled), *passes):
        result = each.function(computation)
        if check_between and (result is not computation or not each.name):
            _check(result, each.name)
        if prove is not False and (result is not computation or not each.name):
            results.append(PassResult(each.name, result, first))
        if result is not computation:
            forget_analysis(computation)
        computation = result
        if dump is not None:
            dump(each.name, computation)
    forget_analysis(computation)
    if prove is True:
        prove_results(results)
    return computation


def prove_results(results: Sequence[PassResult], seed: int = 0) -> None:
    """Raise ProofError, with the pass's name and how to go on without it, if passes changed what a program computes."""
    last = {each.first: each for each in results if each.name}  # of programs that passes have changed
    ends = [each for each in results if each.first in last and each.name in ("", last[each.first].name)]
    found: ProofError | None = None
    for some in (ends, results):  # all, to name the first wrong pass, only if the ends differ
        try:
            prove_equal(some, seed)
        except ProofError as error:
            found = error
        if found is None:
            return
    raise ProofError(
        f"the program that was made does not compute what the network computes: {found}. It is not run. Leave the pass "
        "out (disabled_passes of CompileOptions, --optimization.disable-pass of a command), and please report it with "
        "the network"
    )


def _check(computation: NnetComputation, pass_name: str) -> None:
    try:
        check_computation(computation)
    except ComputationCheckError as error:
        when = f"after pass '{pass_name}'" if pass_name else "before the first pass"
        raise ComputationCheckError(f"{when}: {error}") from error
