"""Runners: those that a network has for its last questions."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from nnet3.cn.dependence import runner_key
from nnet3.cn.program import Question, Runner

if TYPE_CHECKING:
    from nnet3.cn.network_state import NetworkState

_MOST_RUNNERS = 128
_MOST_UNEVEN = 32  # of sequences of several lengths, which are seldom seen again: each may take half a megabyte


class Runners:
    """Runners of the programs that a network is asked for, to be used by one thread; the last ones are kept."""

    def __init__(self, network: NetworkState) -> None:
        self.network = network
        #: By whether sequences have several lengths.
        self._kept: dict[bool, OrderedDict[tuple[object, ...], Runner]] = {False: OrderedDict(), True: OrderedDict()}

    def __len__(self) -> int:
        return sum(map(len, self._kept.values()))

    def find(self, question: Question) -> Runner:
        """The runner for a question: a new one unless one is known that works on what there is now."""
        key, is_uneven = runner_key(question, self.network), bool(question.layout and question.layout.is_ragged)
        kept = self._kept[is_uneven]
        runner = kept.pop(key, None)
        if runner is None or not runner.is_current():
            runner = self.network._runner_of(question)
        kept[key] = runner
        while len(kept) > (_MOST_UNEVEN if is_uneven else _MOST_RUNNERS):
            kept.popitem(last=False)
        return runner

    def clear(self) -> None:
        for kept in self._kept.values():
            kept.clear()
