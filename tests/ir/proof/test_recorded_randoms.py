"""What is drawn for commands that were noted is what is drawn for commands that are run."""

from __future__ import annotations

import numpy as np

from nnet3.engine.ir.proof import field
from nnet3.engine.ir.proof.columns import Columns, ColumnSpan
from nnet3.engine.ir.proof.randoms import Randoms
from nnet3.engine.ir.proof.recorded_randoms import KERNEL, RandomRequest, RecordedRandoms
from nnet3.engine.ir.proof.recording import DRAWN, OPERANDS


def cut_columns() -> Columns:
    columns = Columns()
    for name in ("a", "b"):
        columns.use(ColumnSpan(("input", name, 0), 2, 3))
        columns.use(ColumnSpan(("output", name), 0, 4))
        columns.use(ColumnSpan(("output", name), 1, 1))
    columns.settle()
    return columns


def test_what_is_asked_for_is_drawn_as_for_a_machine() -> None:
    columns = cut_columns()
    recorded, randoms = RecordedRandoms(columns, 3), Randoms(columns, 3)
    output, inputs = ColumnSpan(("output", "a"), 0, 4), ColumnSpan(("input", "a", 0), 2, 3)
    for what, spans in ((("a", "bias"), [output]), (("a", "weights", 0), [inputs, output])):
        found = recorded.of_blocks(what, *spans)
        expected = field.words(randoms.of_blocks(what, *spans))
        assert found.space == DRAWN
        assert found.lengths == expected.shape
        words = recorded.drawn()[found.at : found.at + expected.size]
        np.testing.assert_array_equal(words.reshape(expected.shape), expected)
    word, zero = (
        recorded.first(RandomRequest(("a", "value"))),
        recorded.first(RandomRequest(("update", "a", 0), is_zero=True)),
    )
    assert recorded.drawn()[word] == randoms.key("a", "value")
    assert recorded.drawn()[zero] == 0


def test_a_template_asks_for_what_is_a_kernels_own_whatever_its_name() -> None:
    recorded = RecordedRandoms(cut_columns(), 0)
    for name in ("a", "b"):
        recorded.begin(name, 2)
        bias = recorded.of_blocks((name, "bias"), ColumnSpan(("output", name), 0, 4))
        again = recorded.of_blocks((name, "bias"), ColumnSpan(("output", name), 0, 4))
        other = recorded.of_blocks(("product",), ColumnSpan(("output", name), 1, 1))
        assert bias.space == again.space == OPERANDS + 2
        assert other.space == OPERANDS + 3  # its columns are those of the kernel
        assert list(recorded.wanted().values()) == [(3,), (1,)]
        wanted = list(recorded.wanted())
        assert [request.what for request in wanted] == [(KERNEL, "bias"), ("product",)]
        assert wanted[0].renamed(KERNEL, "b", "").spans == (ColumnSpan(("output", "b"), 0, 4),)


def test_other_words_that_are_equal_to_the_name_are_kept() -> None:
    request = RandomRequest(("bias", "bias"), (ColumnSpan(("output", "bias"), 0, 4),))
    assert request.renamed("bias", KERNEL, "node") == RandomRequest(
        (KERNEL, "bias"), (ColumnSpan(("output", KERNEL), 0, 4),)
    )
