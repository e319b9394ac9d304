"""What a proof costs beside lowering and the passes: `python -m benchmarks.proofs`.

For networks of published recipes at full width (`golden/bench` of the shared folder), one thread, the least processor
time of some rounds. Programs are compiled for their length, without families. Nothing is asserted.
"""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from benchmarks.compile import CASES, Case, least, read_network, request_for
from nnet3 import CompileOptions
from nnet3.driver import task_of
from nnet3.ir.passes.pipeline import optimize
from nnet3.ir.proof.equal import PassResult, prove_equal
from nnet3.ir.repeats import unrolled
from nnet3.lowering import lower


def measure(folder: Path, case: Case, rounds: int) -> tuple[str, ...]:
    nnet = read_network(folder / case.name, train=case.train)
    task = task_of(nnet, request_for(nnet, case), CompileOptions())
    plain = unrolled(lower(*task.lowered_from()))
    optimized = optimize(plain)
    lowering = least(lambda: lower(*task.lowered_from()), rounds)
    passes = least(lambda: optimize(plain), rounds)
    proof = least(lambda: prove_equal([PassResult("", plain), PassResult("", optimized)]), rounds)
    shown = (f"{seconds * 1e3:.0f}" for seconds in (lowering, passes, proof))
    commands = f"{len(plain.commands)}, {len(optimized.commands)}"
    return str(case), commands, *shown, f"{proof / (lowering + passes):.2f}"


@click.command(help=__doc__)
@click.option("--folder", default="../shared/golden/bench", show_default=True, type=click.Path(path_type=Path))
@click.option("--rounds", default=3, show_default=True, help="Of which the least counts.")
def main(folder: Path, rounds: int) -> None:
    table = Table("work", "commands: plain, optimized", "lowering, ms", "passes, ms", "proof, ms", "proof / both")
    for case in CASES:
        table.add_row(*measure(folder, case, rounds))
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
