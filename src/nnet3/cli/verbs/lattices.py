"""Verbs of lattices: copies, scales, best paths."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click

from nnet3.base.options.examples import SubsetOptions
from nnet3.base.options.lattices import LatticePruningOptions
from nnet3.base.text.values import Integer, at_least, nonzero
from nnet3.cli import later
from nnet3.cli.declared import one, takes
from nnet3.cli.options import (
    Decorator,
    all_of,
    arguments,
    compact_option,
    flag,
    number,
    text_option,
    whole_number,
    word_symbols_option,
)
from nnet3.cli.verb import verb

_acoustic_scale_option: Decorator = number("--acoustic-scale", default=1.0, help="Scale of acoustic costs.")
_lm_scale_option: Decorator = number("--lm-scale", default=1.0, help="Scale of graph costs.")
_penalty_option: Decorator = number("--word-ins-penalty", default=0.0, help="Cost of each word.")
_push_options: Decorator = all_of(
    flag("--push-strings", default=True, show_default=True, help="Transition-ids move towards the start."),
    flag("--push-weights", default=True, show_default=True, help="Costs move towards the start."),
)
_lattices_argument: Decorator = click.argument("lattices", metavar="LATTICE-RSPECIFIER")
_output_argument: Decorator = click.argument("output", metavar="LATTICE-WSPECIFIER")


@verb()
@_acoustic_scale_option
@_lm_scale_option
@_penalty_option
@_lattices_argument
@_output_argument
def lattice_1best(**given: Any) -> int:
    """Write the path of least cost of each lattice as a lattice; scales and penalty choose it and change no cost.

    nnet3 lattice-1best --acoustic-scale=0.1 ark:lat.ark ark:best.ark
    """
    return later.lattice_reading.write_linear(n=None, **given)


@verb()
@_penalty_option
@_lattices_argument
@_output_argument
def lattice_add_penalty(lattices: str, output: str, word_ins_penalty: float) -> None:
    """Add a penalty for each word to the graph costs of lattices.

    nnet3 lattice-add-penalty --word-ins-penalty=0.5 ark:lat.ark ark:-
    """
    later.lattice_reading.write_changed(lattices, output, lambda lattice: lattice.with_word_penalty(word_ins_penalty))


@verb()
@_acoustic_scale_option
@_lm_scale_option
@word_symbols_option
@_lattices_argument
@arguments(words="[WORDS-WSPECIFIER", alignments="[ALIGNMENTS-WSPECIFIER]]")
def lattice_best_path(**given: Any) -> int:
    """Write words and transition-ids of the path of least cost of each lattice, and say what it costs.

    nnet3 lattice-best-path --acoustic-scale=0.1 "ark:gunzip -c lat.1.gz |" ark,t:words.txt
    """
    return later.lattice_reading.write_best_paths(**given)


@verb()
@compact_option
@text_option("--include", metavar="FILE", help="Only lattices with keys that begin a line of it.")
@text_option(
    "--exclude",
    metavar="FILE",
    help="Only lattices with other keys; with --write-compact=false, as in Kaldi, the same as --include.",
)
@flag("--ignore-missing", help="It is no error if no lattice is copied.")
@_lattices_argument
@_output_argument
def lattice_copy(include: str, exclude: str, **given: Any) -> int:
    """Copy lattices from binary to text or back, and, with --write-compact=false, to transducers from transition-ids to
    words. Both kinds are read.

    nnet3 lattice-copy "ark:gunzip -c lat.1.gz |" ark,t:-
    nnet3 lattice-copy --include=some_utterances ark:lat.ark ark:some.ark
    """
    if include and exclude:
        raise click.UsageError("give --include or --exclude, not both")
    return later.lattice_reading.copy(include=include, exclude=exclude, **given)


@verb()
@_push_options
@_lattices_argument
@_output_argument
def lattice_minimize(**given: Any) -> int:
    """Merge the states of determinized lattices from which all goes on alike, after transition-ids and costs have moved
    towards the start.

    nnet3 lattice-minimize ark:lat.ark ark:small.ark
    """
    return later.lattice_determinizing.push(**given, minimize=True)


@verb()
@takes("options", LatticePruningOptions)
@number("--inv-acoustic-scale", "divisor", rule=nonzero(), default=1.0, help="Divides acoustic costs instead.")
@_lattices_argument
@_output_argument
def lattice_prune(lattices: str, output: str, options: LatticePruningOptions, divisor: float) -> int:
    """Drop the arcs of lattices that are on no path within a beam of the best path.

    nnet3 lattice-prune --acoustic-scale=0.1 --beam=4.0 ark:lat.ark ark:pruned.ark
    """
    if divisor != 1.0 and options.acoustic_scale != 1.0:
        raise click.UsageError("give --acoustic-scale or --inv-acoustic-scale, not both")
    options = replace(options, acoustic_scale=options.acoustic_scale / divisor)
    return later.lattice_determinizing.prune(lattices, output, options)


@verb()
@_push_options
@_lattices_argument
@_output_argument
def lattice_push(**given: Any) -> int:
    """Move transition-ids and costs of lattices as far towards the start as all paths allow.

    nnet3 lattice-push --push-weights=false ark:lat.ark ark:pushed.ark
    """
    return later.lattice_determinizing.push(**given)


@verb()
@_acoustic_scale_option
@number("--inv-acoustic-scale", default=1.0, help="Divides acoustic costs instead.")
@_lm_scale_option
@number("--acoustic2lm-scale", default=0.0, help="Share of acoustic costs to add to graph costs.")
@number("--lm2acoustic-scale", default=0.0, help="Share of graph costs to add to acoustic costs.")
@compact_option
@_lattices_argument
@_output_argument
def lattice_scale(lattices: str, output: str, write_compact: bool, **scales: float) -> None:
    """Multiply graph costs and acoustic costs of lattices by scales; a share of either can be added to the other.

    nnet3 lattice-scale --acoustic-scale=10 ark:lat.ark "ark:|gzip -c > lat.1.gz"
    """
    scale, divisor = scales["acoustic_scale"], scales["inv_acoustic_scale"]
    if divisor == 0 or (scale != 1 and divisor != 1):
        raise click.UsageError("give --acoustic-scale, or an --inv-acoustic-scale that is not 0")
    graph = (scales["lm_scale"], scales["acoustic2lm_scale"])
    acoustic = (scales["lm2acoustic_scale"], scale / divisor)
    later.lattice_reading.write_changed(
        lattices, output, lambda lattice: lattice.with_costs(graph, acoustic), write_compact
    )


@verb()
@_acoustic_scale_option
@_lm_scale_option
@whole_number("--n", least=1, default=1, help="Paths of each lattice.")
@flag("--random", "is_random", help="Any paths instead of the best ones, with costs of 0.")
@one(SubsetOptions, "seed", kind=Integer(at_least(0), 64))
@_lattices_argument
@_output_argument
def lattice_to_nbest(is_random: bool, seed: int, **given: Any) -> int:
    """Write the --n paths of least cost of each lattice as lattices, the best path first, or --n random paths, perhaps
    with repetitions. Keys are the lattice's key with -1, -2 ... behind it.

    nnet3 lattice-to-nbest --n=10 --acoustic-scale=0.1 ark:lat.ark ark:nbest.ark
    """
    if is_random:
        return later.lattice_reading.write_random(given["lattices"], given["output"], given["n"], seed)
    return later.lattice_reading.write_linear(word_ins_penalty=0.0, **given)


@verb()
@arguments(
    lattices="NBEST-RSPECIFIER",
    alignments="ALIGNMENTS-WSPECIFIER",
    words="[WORDS-WSPECIFIER",
    graph_costs="[LM-COSTS-WSPECIFIER",
    acoustic_costs="[ACOUSTIC-COSTS-WSPECIFIER]]]",
)
def nbest_to_linear(**given: Any) -> int:
    """Write transition-ids, words, costs of the graph and acoustic costs of lattices with one path each, such as
    `nnet3 lattice-1best` and `nnet3 lattice-to-nbest` write.

    nnet3 nbest-to-linear ark:best.ark ark:ali.ark ark,t:words.txt ark,t:lm.txt ark,t:acoustic.txt
    """
    return later.lattice_reading.write_parts(**given)
