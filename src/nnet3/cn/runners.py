"""Runners: those that a network has for its last questions."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from nnet3.cn.dependence import runner_key
from nnet3.cn.program import Question, Runner

if TYPE_CHECKING:
    from nnet3.cn.network_state import NetworkState

_MOST_RUNNERS = 128


class Runners:
    """Runners of the programs that a network is asked for, to be used by one thread; the last ones are kept."""

    def __init__(self, network: NetworkState) -> None:
        self.network = network
        self._kept: OrderedDict[tuple[object, ...], Runner] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def find(self, question: Question) -> Runner:
        """The runner for a question: a new one unless one is known that works on what there is now."""
        key = runner_key(question, self.network)
        runner = self._kept.pop(key, None)
        if runner is None or not runner.is_current():
            runner = self.network._runner_of(question)
        self._kept[key] = runner
        while len(self._kept) > _MOST_RUNNERS:
            self._kept.popitem(last=False)
        return runner

    def clear(self) -> None:
        self._kept.clear()
