"""Options of RNN language models, with Kaldi's names and defaults (docs/rnnlm.md)."""

from __future__ import annotations

from dataclasses import dataclass

from nnet3.base.options.declaring import Options, option
from nnet3.base.text.values import Boolean, Integer, at_least
from nnet3.errors import ArgumentError

_WORD = Integer(at_least(-1))


@dataclass(frozen=True)
class RnnlmOptions(Options, error=ArgumentError):
    """The special words of a model (-1: none), and whether its probabilities are made to sum to one."""

    bos_symbol: int = option(-1, _WORD, "The number of <s>, which each history begins with.")
    eos_symbol: int = option(-1, _WORD, "The number of </s>, which ends a sentence.")
    brk_symbol: int = option(-1, _WORD, "The number of <brk>; only training reads the word.")
    normalize_probs: bool = option(False, Boolean(), "Divide by the sum of the probabilities of all words.")
