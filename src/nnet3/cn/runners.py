"""Runners: those that a network has for its last questions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from nnet3.cn.dependence import state_of_runners
from nnet3.cn.node import Gradients, Node
from nnet3.cn.program import Program, Question, Runner
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

    def __init__(self, network: NetworkState, kind: type[UnitRunner] | None = None) -> None:
        """`kind`: of other runners than the network makes."""
        self.network, self._kind = network, kind
        self._of_samples = KeptAgain[Runner](_MOST_RUNNERS, _MOST_RUNNERS)
        self._of_sequences = KeptAgain[Runner](_MOST_SEQUENCES, _MOST_ONCE)
        self._last: tuple[Question, tuple[object, ...], Runner] | None = None

    def __len__(self) -> int:
        return len(self._of_samples) + len(self._of_sequences)

    def find(self, question: Question) -> Runner:
        """The runner for a question: a new one unless one is known that works on what there is now."""
        state = state_of_runners(question, self.network)
        if self._last is not None:
            asked, before, runner = self._last
            if asked is question and before == state and runner.is_current():
                return runner
        key, layout = (*question.key, *state), question.layout
        kept = self._of_sequences if layout is not None and layout.are_sequences else self._of_samples
        found = kept.find(key)
        if found is not None and found.is_current():
            self._last = question, state, found
            return found
        return kept.keep(key, self._made(question, kept.take_spare(key, lambda other: other[1:] == key[1:])))

    def _made(self, question: Question, spare: Runner | None) -> Runner:
        """Returns a new runner, or the spare one if it can be changed: it answers the question for other samples."""
        if spare is not None and not spare.is_current():
            spare = None
        program = self.network._program_of(question, None if spare is None else spare.program)
        if spare is not None and spare.change(program):
            return spare
        return self.network._runner_of(program) if self._kind is None else self._kind(program, self.network)

    def clear(self) -> None:
        self._last = None
        self._of_samples.clear()
        self._of_sequences.clear()


class UnitRunner(Runner):
    """A runner with random numbers and memory for gradients of its own: units may share parameters."""

    def __init__(self, program: Program, network: NetworkState):
        self.generator = torch.Generator()
        super().__init__(program, self.generator, Gradients(), network.dtype, network.device, {})

    def backward(self, seeds: Mapping[Node, float | Tensor]) -> dict[Node, Tensor]:
        for node in set(self.gradients) - self.overwritten:
            self.gradients[node].zero_()
        return super().backward(seeds)
