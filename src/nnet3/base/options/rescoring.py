"""Options of rescoring lattices with language models, with Kaldi's names and defaults."""

from __future__ import annotations

from dataclasses import dataclass

from nnet3.base.options.declaring import Options, option
from nnet3.base.text.values import Integer, Number, above, at_least
from nnet3.errors import ArgumentError


@dataclass(frozen=True)
class ComposeOptions(Options, error=ArgumentError):
    """How many paths a best-first composition of a lattice with a language model makes."""

    lattice_compose_beam: float = option(6.0, Number(above(0)), "Paths this much worse than the best one are not made.")
    max_arcs: int = option(100_000, Integer(at_least(1)), "Arcs of one result, once it has a complete path.")
    growth_ratio: float = option(1.5, Number(above(1)), "Growth after which paths are estimated anew.")
