"""Chain examples as minibatches."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nnet3.chain import chain_minibatch
from nnet3.errors import TrainingError
from tests.chain.chain_data import small_example

_DIMS = {"input": 2, "ivector": 3}


def test_inputs_and_targets() -> None:
    example = small_example(packed=True)
    made = chain_minibatch(example, _DIMS, "key")
    assert [io.name for io in made.inputs] == ["input", "ivector"]
    assert made.inputs[0].matrix.shape == (18, 2)
    assert list(made.targets) == list(example.outputs)
    assert (made.key, made.num_sequences) == ("key", 1)


def test_what_is_no_minibatch() -> None:
    example = small_example()
    with pytest.raises(TrainingError, match="none of the network's inputs x, but input, ivector"):
        chain_minibatch(example, {"x": 2})
    with pytest.raises(TrainingError, match="has the inputs input, ivector, but the network has input"):
        chain_minibatch(example, {"input": 2})
    with pytest.raises(TrainingError, match="input 'ivector' has 3 columns in the example, but 100"):
        chain_minibatch(example, {"input": 2, "ivector": 100})
    with pytest.raises(TrainingError, match="twice: output, output"):
        chain_minibatch(replace(example, outputs=example.outputs * 2), _DIMS)
    with pytest.raises(TrainingError, match="twice: input, ivector, input, ivector"):
        chain_minibatch(replace(example, inputs=example.inputs * 2), _DIMS)
    assert chain_minibatch(example, _DIMS).key == ""


def test_inputs_that_are_only_carried_along() -> None:
    carried = replace(small_example().inputs[0], name="__input")
    example = replace(small_example(), inputs=(*small_example().inputs, carried))
    made = chain_minibatch(example, {**_DIMS, "__input": 2})
    assert [io.name for io in made.inputs] == ["input", "ivector"]
