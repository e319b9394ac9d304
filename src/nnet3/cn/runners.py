"""Runners: those that a network has for its last questions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nnet3.cn.dependence import runner_key
from nnet3.cn.program import Question, Runner
from nnet3.runtime.kept_again import KeptAgain

if TYPE_CHECKING:
    from nnet3.cn.network_state import NetworkState

_MOST_RUNNERS = 128
_MOST_SEQUENCES = 32  # for sequences of some lengths: each may take half a megabyte
_MOST_ONCE = 4  # and of these, for lengths that were seen once


class Runners:
    """Runners of the programs that a network is asked for, to be used by one thread.

    The last ones are kept; those for sequences from the second time on, since most lengths do not come again.
    """

    def __init__(self, network: NetworkState) -> None:
        self.network = network
        self._of_samples = KeptAgain[Runner](_MOST_RUNNERS, _MOST_RUNNERS)
        self._of_sequences = KeptAgain[Runner](_MOST_SEQUENCES, _MOST_ONCE)

    def __len__(self) -> int:
        return len(self._of_samples) + len(self._of_sequences)

    def find(self, question: Question) -> Runner:
        """The runner for a question: a new one unless one is known that works on what there is now."""
        key, layout = runner_key(question, self.network), question.layout
        kept = self._of_sequences if layout is not None and layout.are_sequences else self._of_samples
        runner = kept.find(key)
        if runner is None or not runner.is_current():
            runner = kept.keep(key, self.network._runner_of(question))
        return runner

    def clear(self) -> None:
        self._of_samples.clear()
        self._of_sequences.clear()
