"""Proofs of programs: when a program is proved, and that a program made of programs equals the plain program.

A compiled program is proved pass by pass (`nnet3.engine.ir.passes.pipeline`). A program continued from short programs,
or restricted to shorter sequences, is compared with the lowered program of exactly its shape.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np

from nnet3.base.index import IndexTable
from nnet3.base.native.library import library
from nnet3.base.options.compiling import CompileOptions
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.proof.equal import PassResult, prove_equal
from nnet3.engine.ir.proof.field import key
from nnet3.engine.ir.proof.linked import LooksAt
from nnet3.engine.ir.repeats import Positions
from nnet3.engine.lowering.lower import lower
from nnet3.engine.lowering.source import GraphSource, LoweringRequest, Use
from nnet3.errors import ProofError

#: The variable of the environment that says which programs are proved: "forms" are all that are compiled, "all" also
#: those that are made of them for other lengths, plans and links; "some" are these, and one in eight of the others;
#: "0" those alone whose options say so. Without it it is "forms" where native code makes proofs cheap, else "0".
PROVE = "NNET3_PROVE"
_ONE_IN = 8
_MOST_COMMANDS = 20_000  # of a program that is proved because of "all"


def proves_compiled(options: CompileOptions) -> bool:
    """Tells whether a compiled program is to be proved."""
    asked = os.environ.get(PROVE)
    return options.prove or asked in ("all", "some", "forms") or (asked is None and library(warns=False) is not None)


def proves_all(options: CompileOptions | None = None, mark: object = None) -> bool:
    """Tells whether a program made of others is to be proved; without options, whether a plan or a link is.

    `mark`: identifies the program, plan or link, or gives what does; "some" chooses by it and by NNET3_PROVE_SEED.
    """
    asked = os.environ.get(PROVE)
    is_chosen = asked == "some" and int(key("some", mark() if callable(mark) else mark)) % _ONE_IN == 0
    chosen = asked == "all" or is_chosen
    return chosen or (options is not None and options.prove)


def prove_made_of_others(
    lowered_from: Callable[[], tuple[GraphSource, LoweringRequest]],
    options: CompileOptions,
    program: NnetComputation,
    mark: object,
) -> None:
    """Prove that a program made of others computes its task, if the options or the environment say so.

    If the options do, plans and links of the program are proved as well. The environment's "all" and "some" leave out
    very long programs. `mark`: identifies the task. Raises ProofError.
    """
    program.prove = options.prove
    if not proves_all(options, mark):
        return
    made = program.made()  # what is lazy stays so
    if not options.prove and int(Positions(made).iterations.sum()) > _MOST_COMMANDS:
        return
    source, request = lowered_from()
    try:
        prove_equal([PassResult("", lower(source, request)), PassResult("", made)], looks_at=looks_at(source))
    except ProofError as error:
        raise ProofError(
            f"a program that was made of those for other lengths does not compute what the network computes: {error}. "
            "It is not run. Compile it without passes (optimize=False), and please report it with the network"
        ) from None


def looks_at(source: GraphSource) -> LooksAt:
    """Returns the function from a node and rows of its output to the rows at which the node's kernel looks.

    A kernel without an indexed operand looks at the output's rows.
    """
    numbers = {node.name: number for number, node in enumerate(source.nodes)}

    def rows_of(node: str, outputs: IndexTable) -> IndexTable:
        operands = source.nodes[numbers[node]].operands
        if all(operand.use is not Use.INDEXED for operand in operands):
            return outputs[:, np.newaxis]
        return source.slots(numbers[node], outputs)[1]

    return rows_of
