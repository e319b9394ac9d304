"""Programs and profiles of networks in stages; the node with which a NaN begins."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from nnet3 import cn
from nnet3.errors import TrainingError
from tests.cn.staged_networks import batch_of, classifier, decoder, sentences


def test_the_programs_of_all_stages():
    net, batch = classifier(), sentences(3, 1, 4)
    program = net.program(batch)
    titles = [title for title, _ in program.parts]
    assert titles[0] == "PyTorch: {e : embedding} <- E, words    4 x S"
    assert titles[-1].startswith("a program for J")
    assert [part is None for _, part in program.parts] == [title.startswith("PyTorch") for title in titles]
    shown = str(program)
    assert all(f"# {title}" in shown for title in titles)
    assert "lstm.h.Backprop" in shown
    assert "Backprop" not in str(net.program(batch, ["scores"]))
    assert program._repr_html_().count("<details>") == len(titles)


@pytest.mark.parametrize("nodes", [(), ("scores",)])
def test_the_profile_of_all_stages(nodes):
    net, batch = classifier(torch.float32), sentences(3, 1, 4)
    report = net.profile(batch, nodes, repeats=2)
    assert report.repeats == 2
    kinds = {timing.kind for timing in report.times}
    assert {"Propagate", "Whole", "Between"} <= kinds
    assert ("Backprop" in kinds) == (not nodes)
    assert {timing.node for timing in report.times if timing.kind == "Whole"} == {"e", "last"}
    assert all(timing.seconds >= 0 for timing in report.times)
    assert "embedding" in str(report)


def test_a_profile_changes_no_gradient_that_follows():
    net, batch = decoder(), batch_of((3, 1), (2, 4))
    before = net.gradients(batch)
    assert "SteppedOperation" in str(net.profile(batch, repeats=1))
    for name, gradient in net.gradients(batch).items():
        np.testing.assert_array_equal(gradient, before[name])


def test_where_not_a_number_begins():
    """In a node of whole sequences, in a program behind it, and inside a loop that attends."""
    x = cn.input("x", 2)
    last = cn.sequence.sum(cn.log(x, name="logs"), name="total")
    net = cn.Network(cn.sum_elements(cn.parameter("W", (1, 2)) @ last))
    batch = {"x": cn.sequences([np.ones((2, 3)), np.array([[1.0, -1.0], [1.0, 1.0]])])}
    with pytest.raises(TrainingError, match=r"'logs' \(log\) is the first node .* in column 1 of sequence 1, row 0"):
        cn.train(net, [batch], learning_rate=0.1)
    attending, given = decoder(torch.float32), batch_of((3, 1), (2, 4))
    attending.set_parameters({"K": np.full((4, 3), np.nan)})
    with pytest.raises(TrainingError, match=r"parameter 'K' holds nan in column 0, row 0"):
        cn.train(attending, [given], learning_rate=0.1)
    words = [each.copy() for each in given["word"]]
    words[0][1, 2] = np.inf
    attending.set_parameters({"K": np.zeros((4, 3))})
    with pytest.raises(TrainingError, match=r"\(times\) is the first node that holds nan, in column 2 of sequence 0"):
        cn.train(attending, [{**given, "word": cn.sequences(words)}], learning_rate=0.1)
