"""Options of determinizing and pruning lattices of tables, with Kaldi's names and defaults (docs/recognizer.md)."""

from __future__ import annotations

from dataclasses import dataclass

from nnet3.base.options.declaring import Options, again, option
from nnet3.base.text.values import Boolean, Integer, Number, above, at_least, bounds, nonzero

_SCALE = Number(nonzero())


@dataclass(frozen=True)
class LatticePruningOptions(Options):
    """Paths that a lattice keeps, by the sum of graph costs and scaled acoustic costs."""

    acoustic_scale: float = option(1.0, _SCALE, "Scale of acoustic costs, while paths are compared.")
    beam: float = option(10.0, Number(above(0)), "Paths this much worse than the best go.")


@dataclass(frozen=True)
class WholeDeterminizingOptions(LatticePruningOptions):
    """Determinizing whole lattices, and pruning them afterwards."""

    prune: bool = option(False, Boolean(), "Prune what was determinized, with the beam.")
    minimize: bool = option(False, Boolean(), "Merge states from which all goes on alike.")
    max_mem: int = option(
        50_000_000,
        Integer(at_least(1), 64),
        "Most memory, as Kaldi counts it; a lattice that needs more is pruned first.",
        unit="bytes",
    )
    beam_ratio: float = option(
        0.9, Number(bounds(above=0, below=1)), "Makes the beam narrower where the memory is not enough."
    )
    num_loops: int = option(20, Integer(at_least(1)), "Narrower beams to try for a lattice.")


@dataclass(frozen=True)
class PrunedDeterminizingOptions(LatticePruningOptions):
    """Determinizing lattices within a beam."""

    minimize: bool = again(WholeDeterminizingOptions, "minimize", False)
    max_mem: int = again(
        *(WholeDeterminizingOptions, "max_mem", 50_000_000),
        help="Most memory, as Kaldi counts it; beyond it the beam narrows.",
    )


@dataclass(frozen=True)
class PhoneDeterminizingOptions(PrunedDeterminizingOptions):
    """Determinizing lattices by phones and words, then by words."""

    phone_determinize: bool = option(True, Boolean(), "Each sequence of phones and words once, first.")
    word_determinize: bool = option(True, Boolean(), "Each sequence of words once.")
