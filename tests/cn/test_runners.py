"""Runners are changed from lengths to lengths; whatever came before, numbers are those of a network made anew."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from nnet3 import cn
from nnet3.engine.driver import ComputationCache
from tests.effort import EFFORT
from tests.families.minibatches import minibatch, recurrence

#: Lengths between two from the row 2, 3, 4, 6, 8, 12, ..., and so numbers of sequences: one program serves them.
LENGTHS = st.lists(st.integers(1, 24), min_size=4, max_size=5).map(lambda lengths: [*lengths, 23])


class EverNewLengths(RuleBasedStateMachine):
    """One network sees ever new lengths, and others do things that change what it works on."""

    @initialize(kind=st.sampled_from([("plain", 1), ("plain", -2), ("both ways", 1), ("late", 2)]))
    def begin(self, kind: tuple[str, int]) -> None:
        criterion, outputs = recurrence(kind[1], kind[0])
        self.net = cn.Network(criterion, outputs, cache=ComputationCache(), dtype=torch.float64)

    def check(self, lengths: list[int]) -> None:
        given, anew = minibatch(self.net, lengths), self.net.copy()
        anew.optimize = False
        value, gradients = self.net.criterion_and_gradients(given)
        expected, others = anew.criterion_and_gradients(given)
        np.testing.assert_allclose(value, expected, rtol=1e-9)
        for name, gradient in others.items():
            np.testing.assert_allclose(gradients[name], gradient, rtol=1e-7, atol=1e-9, err_msg=name)

    @rule(lengths=LENGTHS)
    def new_lengths(self, lengths: list[int]) -> None:
        self.check(lengths)

    @rule(lengths=LENGTHS, times=st.integers(1, 3))
    def known_lengths(self, lengths: list[int], times: int) -> None:
        for _ in range(times):
            self.check(lengths)

    @rule(length=st.integers(20, 24), count=st.integers(5, 7))
    def equal_lengths(self, length: int, count: int) -> None:
        self.check([length] * count)

    @rule(lengths=LENGTHS)
    def values_alone(self, lengths: list[int]) -> None:
        self.net.evaluate("J", minibatch(self.net, lengths))

    @rule(factor=st.sampled_from([0.5, 1.5]))
    def parameters_change_in_place(self, factor: float) -> None:
        for tensor in self.net.tensors().values():
            tensor.data.mul_(factor)

    @rule()
    def parameters_lie_elsewhere(self) -> None:
        for tensor in self.net.tensors().values():
            tensor.data = tensor.data.clone()

    @rule()
    def the_cache_forgets(self) -> None:
        self.net.cache.clear()

    @invariant()
    def few_runners_are_kept(self) -> None:
        assert not hasattr(self, "net") or len(self.net._runners) <= 36


TestEverNewLengths = EverNewLengths.TestCase
TestEverNewLengths.settings = settings(max_examples=EFFORT, stateful_step_count=15)
