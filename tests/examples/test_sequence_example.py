"""Examples of sequences: weighted, renamed, and the numbers of inputs and outputs that they cannot have."""

from __future__ import annotations

import numpy as np
import pytest

from nnet3.errors import ModelFormatError, TrainingError
from nnet3.kaldi_io import Reader, Writer
from nnet3.training.chain.example import CHAIN_EXAMPLES, ChainExample
from nnet3.training.chain.supervision import ChainTarget, Supervision
from nnet3.training.examples.example import NnetIo
from tests.chain.chain_data import fst_of, indexes

FST = fst_of([(0, 1, 1, 0.5), (1, 2, 3, 0.0)], [np.inf, np.inf, 0.0])
TARGET = ChainTarget("output", indexes(1, 2), Supervision(2.0, 1, 2, 3, (FST,)))
EXAMPLE = ChainExample((NnetIo("input", indexes(1, 3, step=1), np.zeros((3, 2), np.float32)),), (TARGET,))


def test_only_the_output_is_weighted_and_renamed() -> None:
    weighted = CHAIN_EXAMPLES.weighted(EXAMPLE, 0.1)
    assert weighted.outputs[0].supervision.weight == float(np.float32(2) * np.float32(0.1))
    renamed = CHAIN_EXAMPLES.renamed(EXAMPLE, "output-fr")
    assert [target.name for target in renamed.outputs] == ["output-fr"]
    assert renamed.inputs is EXAMPLE.inputs
    with pytest.raises(TrainingError, match="no 'output', but output-fr"):
        CHAIN_EXAMPLES.weighted(renamed, 2.0)


@pytest.mark.parametrize("token", ["<NumInputs>", "<NumOutputs>"])
@pytest.mark.parametrize("count", ["0", "1000001"])
def test_numbers_of_inputs_and_outputs(token: str, count: str) -> None:
    writer = Writer(binary=False)
    CHAIN_EXAMPLES.write(writer, EXAMPLE)
    text = writer.getvalue()
    assert CHAIN_EXAMPLES.read(Reader(text, binary=False)).outputs[0].name == "output"
    wrong = text.replace(f"{token} 1 ".encode(), f"{token} {count} ".encode())
    with pytest.raises(ModelFormatError, match=f"cannot have {count}"):
        CHAIN_EXAMPLES.read(Reader(wrong, binary=False))
