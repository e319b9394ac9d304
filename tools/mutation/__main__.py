"""Put small bugs into rooms, one at a time, and say which no test notices.

    python -m tools.mutation engine/lowering --sample 50 --seed 1

A room is a folder of src/nnet3 or one file in it; the sample is of all rooms together. Everything happens in a copy of
the working tree in `--folder`. Which tests execute which lines is measured once for each of `--tests` (`--measure` does
it again); results are kept, so that a run that was interrupted goes on, and only survivors are tried again. Exit status
1 if there are survivors.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

import click

from tools.mutation.covering import Covering, measure
from tools.mutation.equivalent import is_equivalent, read_equivalents
from tools.mutation.mutant import Mutant
from tools.mutation.operators import mutants_of
from tools.mutation.tree import Tree
from tools.mutation.trial import CAUGHT, Results, Trial

CHECKOUT = Path(__file__).resolve().parents[2]


@click.command(help=__doc__)
@click.argument("rooms", nargs=-1, required=True)
@click.option("--without", multiple=True, help="a folder or file of src/nnet3 to leave alone")
@click.option("--sample", default=50, show_default=True, help="how many mutants, 0 for all")
@click.option("--seed", default=0, show_default=True, help="of the sample")
@click.option("--budget", default=60.0, show_default=True, help="seconds of tests for one mutant")
@click.option("--tests", multiple=True, default=["tests"], show_default=True, help="what to measure")
@click.option("--measure", "again", is_flag=True, help="measure again which tests execute which lines")
@click.option("--retry/--no-retry", default=True, show_default=True, help="try survivors of earlier runs again")
@click.option("--folder", default=CHECKOUT / "mutate-out", type=click.Path(path_type=Path))
@click.option("--shared", default=CHECKOUT.parent / "shared", type=click.Path(path_type=Path))
def main(
    rooms: tuple[str, ...], without: tuple[str, ...], sample: int, seed: int, budget: float, tests: tuple[str, ...],
    again: bool, retry: bool, folder: Path, shared: Path,
) -> None:  # fmt: skip
    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    tree = Tree(CHECKOUT, folder, shared)
    drawn = sampled(tree, rooms, without, sample, seed)
    map_file = folder / "covering.json"
    covering = Covering.read(map_file) if map_file.is_file() else Covering([], [], {}, {})
    wanted = [path for path in tests if again or not covering.has(path)]
    if wanted:
        click.echo(f"measuring which lines {' '.join(wanted)} execute")
        covering = measure(tree, wanted, map_file)
    results, equivalents = Results(folder / "results.json"), read_equivalents()
    trial, counts, survivors = Trial(tree, covering, budget), Counter[str](), list[Mutant]()
    for number, mutant in enumerate(drawn, 1):
        state = results.state(mutant)
        if is_equivalent(mutant, equivalents):
            state = "equivalent"
        elif not state or (retry and state != CAUGHT):
            outcome = trial(mutant)
            results.add(mutant, outcome)
            state = outcome.state
            click.echo(f"{number}/{len(drawn)} {state} {outcome.seconds} s {mutant.path}:{mutant.line} {outcome.by}")
        counts[state] += 1
        if state not in (CAUGHT, "equivalent"):
            survivors.append(mutant)
    report(counts, survivors)


def sampled(tree: Tree, rooms: Sequence[str], without: Sequence[str], sample: int, seed: int) -> list[Mutant]:
    """Mutants of the files of rooms: the first `sample` of all in an order that the seed and their names decide.

    So nearly the same ones are drawn again when a few lines have changed.
    """

    def is_in(name: str, folders: Sequence[str]) -> bool:
        return any(f"{name}/".startswith(f"src/nnet3/{folder.rstrip('/')}/") for folder in folders)

    python = [name for name in tree.files if name.endswith(".py")]
    for room in rooms:
        if not any(is_in(name, [room]) for name in python):
            raise SystemExit(f"there is nothing to mutate in src/nnet3/{room}")
    inside = [name for name in python if is_in(name, rooms) and not is_in(name, without)]
    mutants = [mutant for name in inside for mutant in mutants_of(name, tree.read(name))]
    mutants.sort(key=lambda mutant: sha256(f"{seed} {mutant.name}".encode()).digest())
    return [*itertools.islice((mutant for mutant in mutants if mutant.compiles), sample or None)]


def report(counts: Counter[str], survivors: list[Mutant]) -> None:
    for mutant in sorted(survivors, key=lambda mutant: (mutant.path, mutant.line)):
        click.echo(mutant.shown())
    tried = sum(counts.values()) - counts["equivalent"]
    caught = counts[CAUGHT]
    click.echo(f"{caught} of {tried} mutants caught ({caught / max(tried, 1):.0%}), {counts['equivalent']} equivalent")
    if survivors:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
