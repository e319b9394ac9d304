"""Proofs of programs: when a program is proved, and of programs that were made of others that they are the plain one.

A program that was compiled is proved pass by pass (`nnet3.ir.passes.pipeline`). One that was continued from short ones,
or restricted to shorter sequences, is compared with what lowering gives for exactly its shape.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np

from nnet3.errors import ProofError
from nnet3.index import IndexTable
from nnet3.ir.computation import LazyComputation, NnetComputation
from nnet3.ir.proof.equal import PassResult, prove_equal
from nnet3.ir.proof.linked import LooksAt
from nnet3.ir.repeats import Positions
from nnet3.lowering import lower
from nnet3.lowering.source import GraphSource, LoweringRequest, Use
from nnet3.native.library import library
from nnet3.options import CompileOptions

#: The variable of the environment that says which programs are proved: "forms" are all that are compiled, "all" also
#: those that are made of them for other lengths; "0" those alone whose options say so. Without it it is
#: "forms" where native code makes proofs cheap, else "0".
PROVE = "NNET3_PROVE"
_MOST_COMMANDS = 20_000  # of a program that is proved because of "all"


def proves_forms(options: CompileOptions) -> bool:
    """Tells whether a program that is compiled is to be proved."""
    asked = os.environ.get(PROVE)
    return proves_all(options) or asked == "forms" or (asked is None and library(warns=False) is not None)


def proves_all(options: CompileOptions | None = None) -> bool:
    """Tells whether programs that are made of others are to be proved; without options, plans and links as well."""
    return (options is not None and options.prove) or os.environ.get(PROVE) == "all"


def prove_made_of_others(
    lowered_from: Callable[[], tuple[GraphSource, LoweringRequest]], options: CompileOptions, program: NnetComputation
) -> None:
    """Prove that a program made of others is what its task asks for, if its options or the environment say so.

    If the options do, its plans and links are proved as well. The environment's "all" leaves out very long programs.
    Raises ProofError.
    """
    program.prove = options.prove
    if not proves_all(options):
        return
    made = program.made() if isinstance(program, LazyComputation) else program  # what is lazy stays so
    if not options.prove and int(Positions(made).turns.sum()) > _MOST_COMMANDS:
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
    """Returns the function from a node and rows of its output to the rows at which its kernel looks.

    A kernel that has no indexed operand looks at its own rows.
    """
    numbers = {node.name: number for number, node in enumerate(source.nodes)}

    def rows_of(node: str, outputs: IndexTable) -> IndexTable:
        operands = source.nodes[numbers[node]].operands
        if all(operand.use is not Use.INDEXED for operand in operands):
            return outputs[:, np.newaxis]
        return source.slots(numbers[node], outputs)[1]

    return rows_of
