"""Verbs that join and compose lattices, compare them with texts, and make other things of them."""

from __future__ import annotations

from typing import Any

import click

from nnet3.cli import later
from nnet3.cli.options import Decorator, arguments, flag, ignored, integer, number, refused, text_option
from nnet3.cli.verb import verb

_lattices_argument: Decorator = click.argument("lattices", metavar="LATTICE-RSPECIFIER")
_output_argument: Decorator = click.argument("output", metavar="LATTICE-WSPECIFIER")


@verb()
@flag("--write-compact", default=True, show_default=True, help="Write acceptors of words.")
@click.option(
    "--compose-with-fst",
    "of_fsts",
    type=click.Choice(["auto", "true", "false"], case_sensitive=False),
    default="auto",
    show_default=True,
    help="Whether FSTs are in the table, and no lattices; a file has an FST.",
)
@refused("--phi-label", "--rho-label", why="arcs that stand for other labels are not composed here", unless=-1)
@ignored("--num-states-cache", kind=integer())
@_lattices_argument
@arguments(others="FST|RSPECIFIER")
@_output_argument
def lattice_compose(lattices: str, others: str, output: str, write_compact: bool, of_fsts: str) -> int:
    """Compose lattices with the FST of words in a file, or with the lattice or FST of each key in a table: costs are
    added, those of an FST to graph costs, words become the other's output labels, and paths that it does not accept go.
    The input labels of a lattice are its transition-ids; lattice-project puts words in their place.

    nnet3 lattice-compose ark:lat.ark G.fst ark:composed.ark
    """
    return later.lattice_joining.compose(lattices, others, output, write_compact, of_fsts)


@verb()
@click.option("--word-symbol-table", default="", metavar="FILE", help="Say words, by their names.")
@text_option("--wildcard-symbols", "wildcards", metavar="N[:N...]", help="Numbers of words that count for nothing.")
@refused("--wildcard-symbols-list", why="give --wildcard-symbols, a list of numbers")
@text_option("--write-lattices", "written", metavar="WSPECIFIER", help="The lattices of the paths alone.")
@_lattices_argument
@arguments(references="REFERENCE-RSPECIFIER", transcripts="WORDS-WSPECIFIER", distances="[ERRORS-WSPECIFIER]")
def lattice_oracle(wildcards: str | None, written: str | None, **given: Any) -> int:
    """Find the path of each lattice with the fewest word errors; write its words, and the errors if a table is given.

    nnet3 lattice-oracle ark:lat.ark ark:text.int ark,t:oracle.int ark,t:errors.txt
    """
    pieces = wildcards.split(":") if wildcards else []
    if not all(piece.isdecimal() for piece in pieces):
        raise click.UsageError(f"--wildcard-symbols={wildcards}: give numbers of words, such as 5:7")
    return later.lattice_joining.write_closest(wildcards=list(map(int, pieces)), written=written or "", **given)


@verb()
@flag("--project-output", default=True, show_default=True, help="Keep words (false: transition-ids).")
@_lattices_argument
@_output_argument
def lattice_project(**given: Any) -> int:
    """Write lattices from words to words, or from transition-ids to transition-ids.

    nnet3 lattice-project --project-output=false ark:lat.ark ark:ids.ark
    """
    return later.lattice_joining.project(**given)


@verb()
@_lattices_argument
@_output_argument
def lattice_reverse(lattices: str, output: str) -> int:
    """Turn lattices round, for language models of reversed text.

    nnet3 lattice-reverse ark:lat.ark ark:backward.ark
    """
    return later.lattice_joining.turn_round(lattices, output)


@verb()
@_lattices_argument
@_output_argument
def lattice_rmali(lattices: str, output: str) -> int:
    """Remove the transition-ids of lattices; words and costs stay.

    nnet3 lattice-rmali ark:lat.ark ark:words.ark
    """
    return later.lattice_joining.remove_alignments(lattices, output)


@verb()
@number("--acoustic-scale", default=0.0, help="Scale of acoustic costs.")
@number("--lm-scale", default=0.0, help="Scale of graph costs.")
@flag("--rm-eps", default=True, show_default=True, help="Remove arcs without words.")
@_lattices_argument
@arguments(output="FST-WSPECIFIER")
def lattice_to_fst(**given: Any) -> int:
    """Write lattices as FSTs of words, whose costs are scaled graph costs and acoustic costs; by default 0.

    nnet3 lattice-to-fst --lm-scale=1.0 --acoustic-scale=0.1 ark:lat.ark ark:fsts.ark
    """
    return later.lattice_joining.to_fsts(**given)


@verb()
@arguments(first="LATTICE-RSPECIFIER", second="LATTICE-RSPECIFIER", output="LATTICE-WSPECIFIER")
def lattice_union(**given: Any) -> int:
    """Join the lattices of two tables by their keys: of all paths with the same words the best one is kept.

    nnet3 lattice-union ark:den.ark ark:num.ark ark:both.ark
    """
    return later.lattice_joining.unite(**given)


@verb()
@arguments(
    alignments="ALIGNMENTS-RSPECIFIER",
    words="WORDS-RSPECIFIER",
    graph_costs="LM-COSTS-RSPECIFIER",
    acoustic_costs="ACOUSTIC-COSTS-RSPECIFIER",
    output="NBEST-WSPECIFIER",
)
def linear_to_nbest(**given: Any) -> int:
    """Make lattices of one path of what nbest-to-linear writes; '' in the place of a table of costs: costs of 0.

    nnet3 linear-to-nbest ark:ali.ark ark:words.txt ark:lm.txt '' ark:nbest.ark
    """
    return later.lattice_joining.of_parts(**given)


@verb()
@arguments(paths="NBEST-RSPECIFIER", output="LATTICE-WSPECIFIER")
def nbest_to_lattice(paths: str, output: str) -> int:
    """Join the paths of each utterance, as lattice-to-nbest writes them, into a lattice.

    nnet3 nbest-to-lattice ark:nbest.ark ark:lat.ark
    """
    return later.lattice_joining.unite_paths(paths, output)
