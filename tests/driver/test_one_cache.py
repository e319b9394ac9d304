"""Requests of all kinds in any order, through one cache: each program does what one compiled for its request does."""

from __future__ import annotations

import torch
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

import nnet3
from nnet3.model.edits import apply_edits
from tests.driver.ragged_requests import LENGTHS, compare, ragged_request
from tests.effort import draws
from tests.families.networks import BLSTM, POOLING, TDNN, request_for

NETWORKS = st.sampled_from(["blstm", "tdnn", "pooling"])


class OneCache(RuleBasedStateMachine):
    """Networks change, too: some learn nothing any more, some have other numbers, some another dtype."""

    def __init__(self) -> None:
        super().__init__()
        self.cache = nnet3.ComputationCache()
        configs = {"blstm": BLSTM, "tdnn": TDNN, "pooling": POOLING}
        self.nnets = {name: nnet3.Nnet.from_config(config, seed=1) for name, config in configs.items()}

    @rule(name=NETWORKS, frames=st.integers(1, 40), sequences=st.sampled_from([1, 2, 7, 64]), by_time=st.booleans())
    def evaluate(self, name: str, frames: int, sequences: int, by_time: bool) -> None:
        nnet, step = self.nnets[name], 5 if name == "pooling" else 1
        compare(nnet, request_for(nnet, frames, sequences, step, by_time=by_time), self.cache)

    @rule(name=NETWORKS, frames=st.integers(1, 40), sequences=st.sampled_from([1, 2, 7]))
    def train(self, name: str, frames: int, sequences: int) -> None:
        nnet, step = self.nnets[name], 5 if name == "pooling" else 1
        compare(nnet, request_for(nnet, frames, sequences, step, train=True), self.cache)

    @rule(name=NETWORKS, lengths=LENGTHS, train=st.booleans(), input_deriv=st.booleans())
    def of_several_lengths(self, name: str, lengths: list[int], train: bool, input_deriv: bool) -> None:
        nnet, step = self.nnets[name], 5 if name == "pooling" else 1
        compare(nnet, ragged_request(nnet, lengths, step, train=train, input_deriv=input_deriv), self.cache)

    @rule(name=NETWORKS, factor=st.sampled_from([0.0, 1.0]))
    def freeze(self, name: str, factor: float) -> None:
        apply_edits(self.nnets[name], f"set-learning-rate-factor name=* learning-rate-factor={factor}")

    @rule(name=NETWORKS, dtype=st.sampled_from([torch.float32, torch.float64]))
    def move(self, name: str, dtype: torch.dtype) -> None:
        self.nnets[name].to(dtype=dtype)

    @rule()
    def forget(self) -> None:
        self.cache.clear()


TestOneCache = OneCache.TestCase
TestOneCache.settings = settings(max_examples=draws(3), stateful_step_count=6)
