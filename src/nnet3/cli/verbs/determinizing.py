"""Verbs that determinize lattices."""

from __future__ import annotations

from typing import Any

import click

from nnet3.base.options.lattices import (
    PhoneDeterminizingOptions,
    PrunedDeterminizingOptions,
    WholeDeterminizingOptions,
)
from nnet3.cli import later
from nnet3.cli.declared import takes
from nnet3.cli.options import (
    all_of,
    arguments,
    compact_option,
    ignored,
    integer,
)
from nnet3.cli.verb import verb

_without_effect = all_of(
    ignored("--max-loop", "--max-arcs", "--max-states", kind=integer()),
    ignored("--delta", "--retry-cutoff", kind=click.FLOAT),
)
_tables = arguments(lattices="LATTICE-RSPECIFIER", output="LATTICE-WSPECIFIER")


@verb()
@takes("options", WholeDeterminizingOptions)
@_without_effect
@_tables
def lattice_determinize(**given: Any) -> int:
    """Keep, of all paths of a lattice with the same words, the best one. lattice-determinize-pruned needs less memory.

    nnet3 lattice-determinize --acoustic-scale=0.1 --prune=true --beam=8 ark:state.ark ark:lat.ark
    """
    return later.lattice_determinizing.determinize(**given)


@verb()
@takes("options", WholeDeterminizingOptions)
@_without_effect
@_tables
def lattice_determinize_non_compact(**given: Any) -> int:
    """Keep the best path of each sequence of words, and write lattices with an arc for each frame, whose acoustic cost
    is the frame's: the denominator lattices of discriminative training.

    nnet3 lattice-determinize-non-compact --acoustic-scale=0.1 --max-mem=20000000 --minimize=true --prune=true \\
      --beam=7 ark:state.ark ark:denlat.ark
    """
    return later.lattice_determinizing.determinize_non_compact(**given)


@verb()
@takes("options", PhoneDeterminizingOptions)
@compact_option
@_without_effect
@arguments(model="MODEL", lattices="LATTICE-RSPECIFIER", output="LATTICE-WSPECIFIER")
def lattice_determinize_phone_pruned(**given: Any) -> int:
    """Determinize lattices within a beam as the decoders do: by phones and words, then by words.

    nnet3 lattice-determinize-phone-pruned --acoustic-scale=0.1 --beam=6 final.mdl ark:state.ark ark:lat.ark
    """
    return later.lattice_determinizing.determinize_phone_pruned(**given)


@verb()
@takes("options", PrunedDeterminizingOptions)
@compact_option
@_without_effect
@_tables
def lattice_determinize_pruned(**given: Any) -> int:
    """Keep, of all paths of a lattice within a beam and with the same words, the best one.

    With --write-compact=false lattices have an arc for each frame, whose acoustic costs are those of their frames.

    nnet3 lattice-determinize-pruned --acoustic-scale=0.1 --beam=6 ark:state.ark ark:lat.ark
    """
    return later.lattice_determinizing.determinize_pruned(**given)
