"""Rows of samples, as nodes of whole sequences read them; which of these nodes leave others uncomputed."""

from __future__ import annotations

import numpy as np
import torch

from nnet3 import cn
from nnet3.cn.nodes.embedding import Embedding
from nnet3.cn.nodes.sequence import SequenceReduction, SequenceReversal
from nnet3.cn.samples import SampleLayout
from nnet3.cn.sequence_operation import SampleRows


def test_sequences_are_padded_and_unpadded() -> None:
    given = cn.sequences([np.array([[1.0, 2.0]]), np.array([[3.0, 4.0, 5.0]])])
    layout = SampleLayout.of(given, "given")
    rows = SampleRows(layout.rows_of(given, 1, "given", torch.float32), layout)
    padded, are_there = rows.padded()
    assert padded[:, :, 0].tolist() == [[1.0, 2.0, 0.0], [3.0, 4.0, 5.0]]
    assert are_there.tolist() == [[True, True, False], [True, True, True]]
    assert torch.equal(rows.unpadded(padded), rows.tensor)
    assert layout.length_of_sequence.tolist() == [2, 3]
    assert rows.at(np.array([-1, 0]))[:, 0].tolist() == [0.0, rows.tensor[0, 0].item()]


def test_sums_and_means_come_without_an_embedding_whose_gradient_is_sparse() -> None:
    sparse, dense = Embedding(), Embedding(sparse=False)
    merged = {how: SequenceReduction(how).after(sparse) for how in ("sum", "mean", "max", "first", "last")}
    assert [how for how, operation in merged.items() if operation is not None] == ["sum", "mean"]
    assert SequenceReduction("sum").after(dense) is None
    assert SequenceReversal().after(sparse) is None
    assert SequenceReduction("sum").after(SequenceReversal()) is None
    assert SequenceReversal().differentiate([], None) is None
