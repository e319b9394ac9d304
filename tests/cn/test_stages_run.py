"""Networks in stages: several axes, embeddings and reductions, trained, saved, copied and checked as others are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from nnet3 import cn
from nnet3.cn.computation_stages import StageKey, find_stages
from nnet3.cn.stages_run import StagesRun
from nnet3.errors import NetworkError, ShapeError, TrainingError
from tests.cn.staged_networks import WORDS, batch_of, classifier, decoder, sentences
from tests.seeds import RANDOM


def test_gradients_are_those_of_differences():
    net, batch = classifier(), sentences(3, 1, 4)
    assert cn.check_gradients(net, batch, max_elements=20).worst < 1e-5
    E = net.gradients(batch)["E"]
    chosen = np.unique(np.concatenate([part[0] for part in batch["words"]]))
    assert np.flatnonzero(np.abs(E).max(0)).tolist() == chosen.tolist()


def test_gradients_of_nodes_of_all_stages():
    net, batch = classifier(), sentences(3, 1)
    found = net.gradients(batch, wrt=["e", "lstm.h", "last", "scores", "K", "W"])
    scores = net.evaluate("scores", batch)
    expected = torch.softmax(torch.tensor(scores), 0) - torch.nn.functional.one_hot(torch.tensor(batch["label"]), 3).T
    np.testing.assert_allclose(found["scores"], expected, rtol=1e-9)
    np.testing.assert_allclose(found["last"], net.find("W").value.T @ found["scores"], rtol=1e-9)
    np.testing.assert_allclose(found["lstm.h"][0][:, -1], found["last"][:, 0], rtol=1e-9)
    assert [each.shape for each in found["e"]] == [(4, 3), (4, 1)]
    assert found["K"] == pytest.approx(0.1)


def test_gradients_of_what_several_stages_use():
    """An input, and what PyTorch computes of inputs alone: each has the parts of programs and of PyTorch."""
    x = cn.input("x", 2)
    last = cn.sequence.last(x, name="last")
    everywhere = cn.sequence.sum(cn.broadcast_as(last, x))
    J = cn.squared_norm(cn.parameter("W", (2, 2)) @ last) + cn.squared_norm(x) + cn.sum_elements(everywhere)
    net = cn.Network(J, dtype=torch.float64)
    batch = {"x": cn.sequences([RANDOM.normal(size=(2, 3)), RANDOM.normal(size=(2, 1))])}
    found, W = net.gradients(batch, wrt=["x", "last"]), net.find("W").value
    expected = 2 * W.T @ W @ net.evaluate("last", batch) + np.array([3, 1])
    np.testing.assert_allclose(found["last"], expected)
    for number, gradient in enumerate(found["x"]):
        gradient[:, -1] -= expected[:, number]
        np.testing.assert_allclose(gradient, 2 * batch["x"][number])
    alone = cn.Network(cn.sum_elements(everywhere), dtype=torch.float64)
    np.testing.assert_array_equal(alone.gradients(batch, wrt=["last"])["last"], [[3, 1], [3, 1]])


def test_gradients_in_inference_mode() -> None:
    net, batch = classifier(), sentences(3, 1, 4)
    expected = net.gradients(batch)
    with torch.inference_mode():
        found = net.gradients(batch)
    for name, gradient in expected.items():
        np.testing.assert_array_equal(found[name], gradient)


def test_no_label_chooses_no_column_of_a_table():
    net = cn.Network(cn.squared_norm(cn.embedding(cn.parameter("E", (2, 4)), cn.input("c", classes=4))))
    net.backward({"c": [-1, 2]})
    assert net.tensors()["E"].grad.coalesce().indices().tolist() == [[2]]


def test_a_delay_of_later_frames_that_another_stage_needs():
    """It is given to the stage behind PyTorch's node, where its operand is not."""
    x = cn.input("x", 2)
    ahead = cn.delay(cn.parameter("W", (2, 2)) @ x, -1)
    turned = cn.sequence.reverse(ahead)
    net = cn.Network(cn.squared_norm(cn.tanh(ahead + turned)), dtype=torch.float64)
    batch = {"x": cn.sequences([RANDOM.normal(size=(2, n)) for n in (3, 1)])}
    assert cn.check_gradients(net, batch).worst < 1e-5


def test_the_gradient_of_a_delay_of_later_frames_leaves_the_criterion_as_it_is():
    """What lies beyond the end of a shorter sequence is not zero."""
    x = cn.input("x", 2)
    ahead = cn.delay(x, -1, default=0.5, name="ahead")
    net = cn.Network(cn.squared_norm(cn.tanh(ahead)), dtype=torch.float64)
    batch = {"x": cn.sequences([RANDOM.normal(size=(2, n)) for n in (4, 3, 1)])}
    value, gradients = net.criterion_and_gradients(batch, wrt=["ahead"])
    assert value == pytest.approx(net.criterion(batch))
    assert [each.shape for each in gradients["ahead"]] == [(2, 4), (2, 3), (2, 1)]


def test_a_table_of_many_words_has_no_dense_gradient():
    net, batch = classifier(), sentences(3, 1)
    before = net.find("E").value
    net.backward(batch)
    gradient = net.tensors()["E"].grad
    assert gradient.is_sparse
    assert gradient._nnz() == 4
    cn.sgd_step(net, batch, 0.5)
    moved = np.flatnonzero((net.find("E").value != before).any(0))
    assert set(moved) <= set(np.concatenate([part[0] for part in batch["words"]]).tolist())
    again = classifier()
    optimizer = torch.optim.SGD(list(again.tensors().values()), lr=0.5)
    cn.train(again, [batch], optimizer)
    np.testing.assert_allclose(again.find("E").value, net.find("E").value, rtol=1e-9)


@pytest.mark.parametrize("options", [{"momentum": 0.5}, {"momentum": 0.5, "l2": 0.01, "clip_norm": 0.1}], ids=str)
def test_momentum_of_a_table_is_that_of_a_dense_one(options):
    ours, batches = classifier(), [sentences(3, 1), sentences(2, 5)]
    dense = cn.from_text(cn.to_text(ours).replace("sparse=True", "sparse=False")).to(torch.float64)
    dense.set_parameters(ours.parameters())
    for net in (ours, dense):
        cn.train(net, batches, learning_rate=0.3, epochs=3, **options)
    for name, value in ours.parameters().items():
        np.testing.assert_allclose(dense.parameters()[name], value, rtol=1e-9, atol=1e-12, err_msg=name)


def test_a_table_that_others_use_too_has_a_dense_gradient():
    words, E = cn.input("words", classes=WORDS), cn.parameter("E", (4, WORDS))
    net = cn.Network(cn.sum_elements(cn.tanh(cn.embedding(E, words))) + 0.5 * cn.squared_norm(E), dtype=torch.float64)
    batch = {"words": np.array([3, 5])}
    net.backward(batch)
    assert not net.tensors()["E"].grad.is_sparse
    assert cn.check_gradients(net, batch, max_elements=WORDS * 4).worst < 1e-5


def test_criteria_of_several_axes():
    """Each is divided by the number of its own samples; sums of them are computed behind both."""
    x, y = cn.input("x", 2), cn.input("y", 2, axis="other")
    W = cn.parameter("W", (2, 2))
    one, other = cn.squared_norm(cn.tanh(W @ x), name="one"), cn.squared_norm(cn.tanh(W @ y), name="other")
    net = cn.Network(cn.plus(one, cn.scale(3.0, other), name="J"), dtype=torch.float64)
    batch = {
        "x": cn.sequences([RANDOM.normal(size=(2, 3)), RANDOM.normal(size=(2, 4))]),
        "y": cn.sequences([RANDOM.normal(size=(2, 1)), RANDOM.normal(size=(2, 1))]),
    }
    assert cn.check_gradients(net, batch).worst < 1e-6
    first, second = net.evaluate(["one", "other"], batch)
    assert net.criterion(batch) == pytest.approx(first + 3 * second)
    assert net.backward(batch, per_sample=True) == pytest.approx(first / 7 + 3 * second / 2)
    with pytest.raises(ShapeError, match="equally many sequences, got 2 on axis 'S', 1 on axis 'other'"):
        net.criterion({**batch, "y": cn.sequences([RANDOM.normal(size=(2, 1))])})


def test_values_are_kept_until_something_below_changes():
    net, batch = classifier(), sentences(3, 1, 2)
    net.evaluate("scores", batch)
    assert {"e", "last", "scores"} <= set(net.computed)
    net.evaluate("scores", batch)
    assert net.computed == ()
    net.set_parameters({"b": np.ones((3, 1))})
    net.evaluate("scores", batch)
    assert net.computed == ("scores",)
    net.set_parameters({"E": np.ones((4, WORDS))})
    net.evaluate("scores", batch)
    assert "e" in net.computed


def test_one_sentence_after_the_other_is_all_at_once():
    net, batch = classifier(), sentences(3, 1, 5, 5, 2)
    whole, total = net.evaluate("scores", batch), 0.0
    for number, words in enumerate(batch["words"]):
        alone = {"words": cn.sequences([words]), "label": batch["label"][number : number + 1]}
        np.testing.assert_allclose(net.evaluate("scores", alone)[:, 0], whole[:, number], rtol=1e-9)
        total += float(net.evaluate("J", alone))
    assert net.evaluate("J", batch) == pytest.approx(total)


def test_training_lowers_the_criterion():
    net, batches = classifier(torch.float32), [sentences(3, 1, 5), sentences(2, 2)]
    history = cn.train(net, batches, learning_rate=0.5, epochs=30)
    assert history[-1] < 0.5 * history[0]


def test_saved_copied_and_printed(tmp_path):
    net, batch = classifier(torch.float32), sentences(3, 1)
    cn.save(net, tmp_path / "net.cn")
    for again in (cn.load(tmp_path / "net.cn"), net.copy()):
        np.testing.assert_array_equal(again.evaluate("scores", batch), net.evaluate("scores", batch))
        assert cn.to_text(again) == cn.to_text(net)
    assert "label = input(rows=1, classes=3, axis='sequence')" in cn.to_text(net)
    assert "3 x N" in str(net)


def test_frozen_parameters_get_no_gradient():
    net, batch = classifier(), sentences(3, 1)
    whole = net.gradients(batch)
    net.freeze("E", "W")
    rest = net.gradients(batch)
    assert set(whole) - set(rest) == {"E", "W"}
    for name, gradient in rest.items():
        np.testing.assert_array_equal(gradient, whole[name])


def test_the_stages_of_minibatches_alike_are_found_once(monkeypatch) -> None:
    """And of others anew: gradients are those of a network that has seen nothing before."""
    found, original = [], StagesRun.stages

    def stages(run: StagesRun) -> Any:
        found.append(run)
        return original(run)

    monkeypatch.setattr(StagesRun, "stages", stages)
    net = classifier()
    fresh = net.copy()
    batches = [sentences(3, 1, 4), sentences(3, 1, 4), sentences(2, 2), sentences(3, 1, 4)]
    gradients = [net.gradients(batch) for batch in batches]
    assert len(found) == 3
    for batch, gradient in zip(batches, gradients, strict=True):
        for name, expected in fresh.copy().gradients(batch).items():
            np.testing.assert_array_equal(gradient[name], expected)


def test_gradients_of_parameters_that_pytorch_alone_reads() -> None:
    """They are not added to those before, and are zeros where a criterion does not depend on the parameter."""
    x, other = cn.input("x", 3), cn.parameter("other", (2, 3))
    h = cn.macros.fast_lstm(x, 2, name="lstm")
    J, K = cn.squared_norm(h, name="J"), cn.squared_norm(other @ x, name="K")
    net = cn.Network({J: 1.0, K: 1.0}, dtype=torch.float64)
    names = {net.names[node] for node in net._nodes.read_by_pytorch}
    assert names == {name for name in net.parameters() if name.startswith("lstm.")}
    batch = {"x": cn.sequences([RANDOM.normal(size=(3, 4))])}
    first = net.gradients(batch)
    assert all(np.abs(gradient).max() > 0 for gradient in first.values())
    for name, gradient in net.gradients(batch).items():
        np.testing.assert_array_equal(gradient, first[name])
    net.criteria = {K: 1.0}
    for name, gradient in net.gradients(batch).items():
        np.testing.assert_array_equal(gradient, 0 if name in names else first[name])


def test_what_one_program_alone_can_do_is_refused():
    net, batch = classifier(), sentences(3, 1)
    with pytest.raises(NetworkError, match=r"are evaluated by Network.evaluate"):
        cn.AsynchronousEvaluator(net).evaluate("scores", batch)


def test_whole_sequences_in_a_loop():
    d = cn.delay(None, dim=2)
    h = cn.tanh(cn.input("x", 2) + d)
    d.connect(cn.sequence.reverse(h, name="r"))
    with pytest.raises(NetworkError, match=r"'r' .* cannot stand in a loop over their frames"):
        cn.Network(outputs=[h])


def test_an_axis_without_an_input():
    x, like = cn.input("x", 2), cn.input("like", 1, axis="other")
    net = cn.Network(outputs={"v": cn.broadcast_as(cn.sequence.last(x), like)})
    with pytest.raises(NetworkError, match="missing inputs: 'like'"):
        net.evaluate("v", {"x": cn.sequences([np.ones((2, 3))])})


def test_stages_of_a_graph():
    net = classifier()
    stages = find_stages(net.composites)
    keys = [stage.key for stage in stages]
    assert keys == sorted(keys)
    key = {net.names[node]: stage.key for stage in stages for node in stage.nodes}
    assert (key["e"], key["last"]) == (StageKey(0, False, ""), StageKey(1, False, ""))
    assert key["lstm.h"] == StageKey(0, True, "")
    assert key["scores"] == StageKey(1, True, "sequence")
    assert key["K"] == StageKey(0, True, "")


def test_a_state_carried_over_an_embedding():
    """Pieces of a sentence give the states of the whole one."""
    words = cn.input("words", classes=WORDS)
    cell = cn.macros.lstm(cn.embedding(cn.parameter("E", (4, WORDS)), words), 3, carry=True)
    y = cn.input("y", 3)
    net = cn.Network(cn.square_error(cell.h, y), {"h": cell.h}, dtype=torch.float64)
    batch = {"words": cn.sequences([np.arange(7)]), "y": cn.sequences([np.zeros((3, 7))])}
    whole = net.evaluate("h", {**batch, "lstm.h0": np.zeros((3, 1)), "lstm.c0": np.zeros((3, 1))})[0]
    pieces = [net.evaluate("h", piece)[0] for piece in cn.truncated(net, batch, 3)]
    np.testing.assert_allclose(np.concatenate(pieces, 1), whole, rtol=1e-9)


def _spoiled(**values: Any) -> tuple[cn.Network, dict[str, Any]]:
    """A network whose logarithm of a sentence's mean may be none, and a batch that makes it so."""
    x, label = cn.input("x", 2), cn.input("label", classes=2, axis="sequence")
    h = cn.macros.lstm(x, 3).h
    m = cn.sequence.mean(x, name="m")
    scores = cn.plus(cn.parameter("V", (2, 3)) @ cn.sequence.last(h, name="last"), cn.log(m, name="log"), name="scores")
    net = cn.Network(cn.cross_entropy_with_softmax(label, scores, name="J"), dtype=torch.float64)
    batch = {"x": cn.sequences([np.full((2, 3), 2.0), np.full((2, 2), 2.0)]), "label": np.array([0, 1])}
    for number, value in values.items():
        batch["x"][int(number[1:])][1, -1] = value
    return net, batch


@pytest.mark.parametrize("make", [None, torch.optim.Adam])
def test_the_first_nan_is_named_with_its_node_and_column(make) -> None:
    """Of an input, of a node in the program of sentences behind PyTorch's, and of a node that PyTorch computes."""

    def refused(net: cn.Network, batch: dict[str, Any], says: str) -> None:
        before = net.parameters()
        optimizer = None if make is None else make(net.tensors().values())
        with pytest.raises(TrainingError, match=says):
            cn.train(net, [batch], optimizer)
        for name, value in net.parameters().items():
            np.testing.assert_array_equal(value, before[name])

    start = "epoch 1, after 0 samples: the criterion is nan: "
    refused(*_spoiled(s1=np.nan), start + "input 'x' holds nan in column 1 of sequence 1, row 1$")
    net, batch = _spoiled(s1=-9.0)
    refused(net, batch, start + r"'log' \(log\) is the first node that holds nan, in column 1, row 1$")
    net, batch = _spoiled()
    net.set_parameters({"V": np.full((2, 3), np.nan)})
    refused(net, batch, start + "parameter 'V' holds nan in column 0, row 0; a smaller learning rate may help$")


def test_gradients_that_are_not_finite_are_named_in_stages() -> None:
    """A square root of a sentence's sum has no slope at 0: behind it all is finite, below it nothing is."""
    x = cn.input("x", 2)
    s = cn.sequence.sum(cn.parameter("W", (2, 2), 0.0) @ x, name="s")
    net = cn.Network(cn.sum_elements(cn.sqrt(s, name="root")), dtype=torch.float64)
    batch = {"x": cn.sequences([np.ones((2, 3)), np.ones((2, 1))])}
    with pytest.raises(
        TrainingError, match=r"the criterion is 0, but the gradient of 's' \(reduce_sequence\) is the first"
    ):
        cn.train(net, [batch])


def test_components_stay_on_their_axis():
    """Of another axis, one that looks at other frames; and of what has one column for each sequence."""
    y = cn.input("y", 2, axis="other")
    h = cn.component("NormalizeComponent dim=2", cn.tanh(cn.parameter("W", (2, 2)) @ y))
    wide = cn.component("TdnnComponent input-dim=2 output-dim=3 time-offsets=-1,0,1", h, name="wide")
    last = cn.component("TanhComponent dim=3", cn.sequence.last(wide), name="all")
    net = cn.Network(cn.squared_norm(last), {"wide": wide, "all": last}, dtype=torch.float64)
    assert (str(wide.shape), str(last.shape)) == ("3 x S[other]", "3 x N")
    batch = {"y": cn.sequences([RANDOM.normal(size=(2, n)) for n in (4, 2)])}
    assert [value.shape for value in net.evaluate("wide", batch)] == [(3, 4), (3, 2)]
    assert cn.check_gradients(net, batch).worst < 1e-5


def test_a_recording_in_which_nothing_is_said():
    """Its labels are an empty list, and it is all blank."""
    net = cn.Network(cn.ctc(cn.input("x", 3), cn.input("labels", classes=3, axis="label")), dtype=torch.float64)
    x = RANDOM.normal(size=(2, 3, 4))
    both = net.criterion({"x": cn.sequences(x), "labels": cn.sequences([[1, 2], []])})
    said = net.criterion({"x": cn.sequences(x[:1]), "labels": cn.sequences([[1, 2]])})
    silent = -torch.log_softmax(torch.tensor(x[1]), 0)[0].sum().item()
    assert both - said == pytest.approx(silent)
    alone = {"x": cn.sequences(x[1:]), "labels": cn.sequences([[]])}
    assert net.criterion(alone) == pytest.approx(silent)
    gradient = net.gradients(alone, wrt=["x"])["x"][0]
    np.testing.assert_allclose(gradient, torch.softmax(torch.tensor(x[1]), 0).numpy() - np.eye(3)[:, :1])


def test_ctc_of_numbers_of_16_bits():
    net = cn.Network(cn.ctc(cn.parameter("W", (3, 3)) @ cn.input("x", 3), cn.input("labels", classes=3, axis="label")))
    batch = {"x": cn.sequences([RANDOM.normal(size=(3, 4))]), "labels": cn.sequences([[1]])}
    expected = net.gradients(batch)["W"]
    np.testing.assert_allclose(net.to(torch.float16).gradients(batch)["W"], expected, rtol=0.05, atol=0.01)


def test_a_label_of_ctc_that_is_the_blank():
    net = cn.Network(cn.ctc(cn.input("x", 3), cn.input("labels", classes=3, axis="label"), blank=2))
    batch = {"x": cn.sequences([np.zeros((3, 4))]), "labels": cn.sequences([np.array([0, 1])])}
    assert np.isfinite(net.criterion(batch))
    with pytest.raises(ShapeError, match="ctc: a label is 2, the blank, which labels never are"):
        net.criterion({**batch, "labels": cn.sequences([np.array([0, 2])])})


def test_the_graphs_of_all_stages():
    net, batch = classifier(), sentences(3, 3)
    program, graph, task = net.program(batch), net.graph(batch, ["J", "K"]), net.task(batch)
    assert [title for title, _ in graph.parts] == [title for title, _ in program.parts]
    assert "J:operand1 [ (0, 0) ] uses scores" in str(graph)
    compiled = [net.cache.program(each) for each in task.programs]
    assert [str(each) for each in compiled] == [str(each) for each in program.programs]


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
    assert "SequenceOperationInLoop" in str(net.profile(batch, repeats=1))
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


def test_sums_and_means_of_embeddings_that_nobody_else_needs():
    """In float32 native code reads the table; in float64, and for who needs the embedding too, PyTorch does."""
    table, words, other = cn.parameter("E", (3, 5)), cn.input("words", classes=5), cn.parameter("F", (3, 5))
    chosen = cn.embedding(table, words)
    total = cn.sequence.mean(chosen) + cn.sequence.sum(cn.embedding(other, words))
    J = cn.squared_norm(total) + cn.squared_norm(cn.sequence.sum(chosen)) + cn.squared_norm(cn.sequence.max(chosen))
    net = cn.Network(J, {"total": total})
    batch = {"words": cn.sequences([np.array(each) for each in ([1, 4, 1], [-1, 2], [3, -1, -1, 3])])}
    value, found = net.criterion_and_gradients(batch)
    assert value == pytest.approx(net.criterion(batch), rel=1e-5)
    assert net.tensors()["F"].grad.is_sparse
    for exact in (net.copy().to(torch.float64), cn.Network(J, {"chosen": chosen}, dtype=torch.float64)):
        for name, gradient in exact.gradients(batch).items():
            np.testing.assert_allclose(found[name], gradient, rtol=1e-4, atol=1e-5)
    assert cn.check_gradients(exact, batch).worst < 1e-5
    with pytest.raises(ShapeError, match="expected integers 0"):
        net.gradients({"words": cn.sequences([np.array([5])])})
