"""Transition models and topologies: Kaldi's answers, both forms of both kinds, damage."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

from nnet3.errors import ModelFormatError, NetworkError
from nnet3.kaldi_io import Reader
from nnet3.model.hmm.topology import HmmTopology, TopologyEntry, TopologyState
from nnet3.model.hmm.transition_model import TransitionModel, estimate_transitions, pdf_priors
from nnet3.model.nnet import load_transition_model
from nnet3.options import TransitionOptions
from tests.call_count import count_calls
from tests.effort import draws
from tests.hmm.topologies import transition_models
from tests.nnet.file_checks import assert_every_cut_is_found, change, to_bytes
from tests.nnet.model_texts import CHAIN_TRANSITIONS_TEXT, TRANSITIONS_TEXT
from tests.shared_data import golden_cases


def _read(contents: bytes | str) -> TransitionModel:
    reader = Reader(contents.encode() if isinstance(contents, str) else contents, "final.mdl")
    model = TransitionModel.read(reader)
    reader.finish()
    return model


def _bytes(model: TransitionModel, binary: bool = True) -> bytes:
    return to_bytes(model.write_to, binary)


def _rows(model: TransitionModel) -> list[tuple[object, ...]]:
    """For each transition-id, everything the model says of it."""
    ids = np.arange(1, model.num_transition_ids + 1)
    answers = (
        model.transition_state(ids),
        model.transition_index(ids),
        model.phone(ids),
        model.hmm_state(ids),
        model.is_self_loop(ids),
        model.pdf(ids),
        model.log_prob(ids),
    )
    return list(zip(*(answer.tolist() for answer in answers), strict=True))


def _rows_one_by_one(model: TransitionModel) -> list[tuple[object, ...]]:
    """The same in loops, element by element."""
    rows: list[tuple[object, ...]] = []
    for number, (phone, hmm_state, forward, self_loop) in enumerate(model.tuples.tolist(), start=1):
        state = model.topology.entries[model.topology.entry_of_phone[phone]].states[hmm_state]
        for index, (destination, _) in enumerate(state.transitions):
            loops = destination == hmm_state
            log_prob = model.log_probs[len(rows) + 1].item()
            rows.append((number, index, phone, hmm_state, loops, self_loop if loops else forward, log_prob))
    return rows


# ---- Kaldi's answers ----


@pytest.mark.parametrize("name", ["final.mdl", "final.txt.mdl"])
@pytest.mark.parametrize("folder", golden_cases("mdl"), ids=lambda path: path.name)
def test_answers_are_those_of_kaldi(folder: Path, name: str) -> None:
    model = load_transition_model(folder / name)
    said = json.loads((folder / "transition_model.json").read_text())
    ids = np.arange(1, said["num_transition_ids"] + 1)
    for count in ("num_pdfs", "num_phones", "num_transition_ids"):
        assert getattr(model, count) == said[count]
    assert model.pdf(ids).tolist() == said["transition_id_to_pdf"]
    assert model.transition_ids.tolist() == ids.tolist()
    assert model.pdf_of_label.tolist() == [-1, *said["transition_id_to_pdf"]]
    assert model.phone(ids).tolist() == said["transition_id_to_phone"]
    assert model.is_self_loop(ids).tolist() == [bool(value) for value in said["is_self_loop"]]
    assert np.allclose(model.log_prob(ids), said["log_prob"], rtol=1e-5, atol=0)
    assert _rows(model) == _rows_one_by_one(model)
    assert model.topology.warnings == []


# ---- both kinds, both forms ----


def test_an_hmm_by_hand() -> None:
    model = _read(TRANSITIONS_TEXT)
    assert _bytes(model, binary=False).decode() == TRANSITIONS_TEXT
    assert (model.num_pdfs, model.num_phones, model.num_transition_ids, model.num_transition_states) == (3, 3, 6, 3)
    assert model.phones.tolist() == [1, 3]
    assert _rows(model) == [
        (1, 0, 1, 0, True, 0, -0.25),
        (1, 1, 1, 0, False, 0, -1.5),
        (2, 0, 1, 1, True, 1, -0.75),
        (2, 1, 1, 1, False, 1, -0.75),
        (3, 0, 3, 0, True, 2, -0.25),
        (3, 1, 3, 0, False, 2, -1.5),
    ]


def test_a_chain_topology_by_hand() -> None:
    model = _read(CHAIN_TRANSITIONS_TEXT.replace("2 0 0 1 \n2 0 4 1", "2 0 3 1 \n2 0 4 0"))
    assert not model.topology.is_hmm
    assert [row[4:6] for row in _rows(model)] == [(True, 1), (False, 3), (True, 0), (False, 4)]
    assert model.num_pdfs == 5
    assert _read(CHAIN_TRANSITIONS_TEXT.replace("2 0 4 1", "2 0 4 6")).num_pdfs == 7
    model = _read(CHAIN_TRANSITIONS_TEXT)
    assert _bytes(model, binary=False).decode() == CHAIN_TRANSITIONS_TEXT
    expected = b"<Topology> \x04\x01\0\0\0\x02\0\0\0\x04\x03\0\0\0" + b"\xff" * 8 + b"\0\0\0\0"
    assert _bytes(model).startswith(b"\0B<TransitionModel> " + expected + b"\x04\xff\xff\xff\xff\x04\x01\0\0\0")


@given(transition_models())
@settings(max_examples=draws(60))
def test_any_model_survives_both_forms(model: TransitionModel) -> None:
    binary, text = _bytes(model), _bytes(model, binary=False)
    for contents in (binary, text):
        again = _read(contents)
        assert _bytes(again) == binary
        assert _bytes(again, binary=False) == text
        assert again.topology.entries == model.topology.entries
        assert _rows(again) == _rows(model) == _rows_one_by_one(model)
    assert (b"<Triples>" in text) == model.topology.is_hmm


def test_triples_may_come_with_a_chain_topology() -> None:
    text = CHAIN_TRANSITIONS_TEXT.replace("<Tuples>", "<Triples>").replace("0 1 \n2 0 4 1", "1 \n2 0 4")
    model = _read(text)
    assert model.tuples.tolist() == [[2, 0, 1, 1], [2, 0, 4, 4]]
    assert b"<Tuples>" in _bytes(model)


def test_tuples_may_come_with_an_hmm_topology() -> None:
    text = TRANSITIONS_TEXT.replace("<Triples>", "<Tuples>")
    for row, new in (("1 0 0", "1 0 0 0"), ("1 1 1", "1 1 1 1"), ("3 0 2", "3 0 2 2")):
        text = change(text, row, new)
    assert _bytes(_read(text), binary=False).decode() == change(TRANSITIONS_TEXT, "</Triples>", "</Triples>")
    with pytest.raises(ModelFormatError, match=r"transition-state 3 .*: in this topology both pdfs must be the same"):
        _read(change(text, "3 0 2 2", "3 0 2 1"))


def test_either_closing_token_will_do() -> None:
    assert _bytes(_read(change(TRANSITIONS_TEXT, "</Triples>", "</Tuples>"))) == _bytes(_read(TRANSITIONS_TEXT))


def test_probabilities_that_do_not_sum_to_one_only_warn() -> None:
    model = _read(change(TRANSITIONS_TEXT, "<Transition> 0 0.75", "<Transition> 0 0.5"))
    assert model.topology.warnings == ["topology of phone 1: the transition probabilities of state 0 sum to 0.75"]


# ---- asking ----


def test_a_probability_may_be_rounded_to_a_little_above_one() -> None:
    assert _read(change(TRANSITIONS_TEXT, "-0.25 -1.5 -0.75", "0.00009 -1.5 -0.75")).log_prob(1) == pytest.approx(9e-5)
    with pytest.raises(ModelFormatError, match=r"log-probability 1 is 0\.00011, which is not that of a probability"):
        _read(change(TRANSITIONS_TEXT, "-0.25 -1.5 -0.75", "0.00011 -1.5 -0.75"))


def test_a_single_transition_id_gets_a_plain_answer() -> None:
    model = _read(TRANSITIONS_TEXT)
    assert model.pdf(6) == 2
    assert type(model.pdf(6)) is int
    assert model.is_self_loop(5) is True
    assert model.log_prob(np.int64(1)) == -0.25


def test_arrays_keep_their_shape() -> None:
    model = _read(TRANSITIONS_TEXT)
    assert model.phone([[1, 6], [5, 2]]).tolist() == [[1, 3], [3, 1]]
    assert model.pdf([]).shape == (0,)


@pytest.mark.parametrize("bad", [0, 7, -1, [1, 2, 7], [3, 0], 2**40])
def test_a_transition_id_out_of_range(bad: object) -> None:
    with pytest.raises(NetworkError, match=r"a transition-id must be in 1 \.\. 6, got (0|7|-1|1099511627776)$"):
        _read(TRANSITIONS_TEXT).pdf(bad)  # type: ignore[arg-type]


def test_a_transition_id_must_be_whole() -> None:
    with pytest.raises(NetworkError, match="must be an integer, got float64"):
        _read(TRANSITIONS_TEXT).pdf(1.5)


# ---- damage ----

BAD_TEXTS = [
    ("<TransitionModel>", "<TransitionMode>", "expected <TransitionModel>, got '<TransitionMode>'"),
    ("1 3 \n", "1 0 \n", "line 5, column 3: a phone must be in 1 .. 1000000, got 0"),
    ("1 3 \n", "1 2000000000 \n", "a phone must be in 1 .. 1000000, got 2000000000"),
    ("1 3 \n", "1 1 \n", "phone 1 has a topology already"),
    ("1 3 \n", "1 x \n", "expected a 32-bit integer, got 'x'"),
    ("1 3 \n", "", "a topology must be for at least one phone, and phones begin at 1"),
    ("<State> 1", "<State> 2", "line 8, column 9: expected state 1, got state 2"),
    ("<State> 2 </State>", "<Final> 2 </Final>", "expected <State> or </TopologyEntry>, got '<Final>'"),
    ("<PdfClass> 0", "<ForwardPdfClass> 0", "expected <SelfLoopPdfClass>, got '<Transition>'"),
    ("<PdfClass> 0", "<ForwardPdfClass> 0 <SelfLoopPdfClass> -1", "state 0 has one pdf class only"),
    ("<PdfClass> 0", "<PdfClass> -2", "state 0 has pdf classes -2 and -2"),
    ("<PdfClass> 0", "<PdfClass> 2", "pdf classes must be 0, 1, 2 and so on, got 1, 2"),
    ("<PdfClass> 0 ", "", "pdf classes must be 0, 1, 2 and so on, got 1"),
    ("<PdfClass> 1 ", "", "state 1 to state 2: one without a pdf class cannot go to the last state"),
    ("<State> 2 </State>", "<State> 2 <PdfClass> 0 </State>", "state 2, the last one, must have no pdf class"),
    ("<State> 2 </State>", "<State> 2 <Transition> 0 1 </State>", "the last one, must have no pdf class and no"),
    ("<State> 2 </State>", "<State> 2 </State> \n<State> 3 </State>", "2 has no transitions, but is not the last"),
    ("<Transition> 2 0.5", "<Transition> 3 0.5", "the transition from state 1 to state 3: the states are 0 to 2"),
    ("<Transition> 2 0.5", "<Transition> -1 0.5", "the transition from state 1 to state -1: the states are 0 to 2"),
    ("<Transition> 2 0.5", "<Transition> 1 0.5", "the transition from state 1 to state 1 is there twice"),
    ("<Transition> 2 0.5", "<Transition> 0 0.5", "line 3, column 17: no transition leads to state 2"),
    ("<Transition> 2 0.5", "<Transition> 2 0", "has probability 0: it must be > 0"),
    ("<Transition> 2 0.5", "<Transition> 2 nan", "has probability nan: it must be > 0"),
    ("<Transition> 2 0.5", "<Transition> 2 inf", "has probability inf: it must be > 0"),
    ("</TopologyEntry> \n</Topology>", "</TopologyEntry> \n<Topology>", "expected <TopologyEntry> or </Topology>"),
    ("<Triples>", "<Triple>", "expected <Triples> or <Tuples>, got '<Triple>'"),
    ("<Triples> 3", "<Triples> 4", "expected 4 lines of 3 integers as transition-states, got 3 of 3"),
    ("<Triples> 3", "<Triples> -1", "cannot have size -1"),
    ("<Triples> 3", "<Tuples> 3", "expected 3 lines of 4 integers as transition-states, got 3 of 3"),
    ("<Triples> 3 \n1 0 0 \n1 1 1 \n3 0 2 ", "<Triples> 0 ", "must have at least one transition-state"),
    ("1 1 1 \n", "1 1 x \n", "line 14, column 5: 'x' is not a 32-bit integer"),
    ("1 1 1 \n", "1 1 \n", "all rows must be equally long"),
    ("1 1 1 \n", "2 1 1 \n", "line 12, column 11: transition-state 2 (phone 2, HMM state 1, pdfs 1 and 1): the"),
    ("1 1 1 \n", "1 3 1 \n", "its HMM has no such state"),
    ("1 1 1 \n", "1 -1 1 \n", "its HMM has no such state"),
    ("1 1 1 \n", "1 2 1 \n", "the last state of an HMM has no transitions"),
    ("1 1 1 \n", "1 1 -1 \n", "pdfs begin at 0"),
    ("<Triples> 3 \n1 0 0 \n1 1 1 \n3 0 2 ", "<Tuples> 1 \n1 0 0 -1 ", "pdfs begin at 0"),
    ("<Triples> 3 \n1 0 0 \n1 1 1 \n3 0 2 ", "<Tuples> 1 \n1 0 -1 0 ", "pdfs begin at 0"),
    ("1 1 1 \n", "1 0 0 \n", "2 (phone 1, HMM state 0, pdfs 0 and 0): it must come before the one before"),
    ("1 0 0 \n1 1 1 \n", "1 1 1 \n1 0 0 \n", "it must come before the one before it"),
    ("3 0 2 \n", "4 0 2 \n", "the topology has no such phone"),
    (" -0.25 -1.5 ]", " -0.25 ]", "expected one log-probability more than there are transition-ids, 6 + 1, got 6"),
    (" -0.25 -1.5 ]", " -0.25 0.5 ]", "log-probability 6 is 0.5, which is not that of a probability"),
    (" -0.25 -1.5 ]", " -0.25 nan ]", "a NaN is not allowed in a vector or matrix"),
    (" -0.25 -1.5 ]", " -0.25 -inf ]", "log-probability 6 is -inf"),
    ("</LogProbs>", "<LogProbs>", "expected </LogProbs>"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "message"), BAD_TEXTS, ids=range(len(BAD_TEXTS)))
def test_damaged_text_is_refused(old: str, new: str, message: str) -> None:
    with pytest.raises(ModelFormatError) as raised:
        _read(change(TRANSITIONS_TEXT, old, new))
    assert message in str(raised.value)
    assert str(raised.value).startswith("final.mdl: line ")


BAD_BINARIES = [
    (b"\x04\x02\0\0\0\x01\0\0\0\x03\0\0\0", b"\x04\x02\0\0\0\x01\0\0\0\x02\0\0\0", "the list of phones differs"),
    (b"\x04\x02\0\0\0\x01\0\0\0\x03\0\0\0", b"\x04\xff\xff\xff\x7f\x01\0\0\0\x03\0\0\0", "but only"),
    (b"\x04\x02\0\0\0\x01\0\0\0\x03\0\0\0", b"\x04\xff\xff\xff\xff\x01\0\0\0\x03\0\0\0", "cannot have -1 elements"),
    (b"\0\0\0\0\x04\x01\0\0\0\x04\x03", b"\0\0\0\0\x04\0\0\0\0\x04\x03", "at least one entry, got 0"),
    (b"\0\0\0\0\x04\x01\0\0\0\x04\x03", b"\0\0\0\0\x04\xfe\xff\xff\xff\x04\x03", "at least one entry, got -2"),
    (b"\0\0\0\0\x04\x01\0\0\0\x04\x03", b"\x01\0\0\0\x04\x01\0\0\0\x04\x03", "not among its 1"),
    (b"\0\0\0\0\x04\x01\0\0\0\x04\x03", b"\0\0\0\0\x04\x01\0\0\0\x04\x01", "at least two states, got 1"),
    (b"\x04\x03\0\0\0\x04\0\0\0\0", b"\x04\xff\xff\xff\x7f\x04\0\0\0\0", "50000 states or 100000 transitions"),
    (b"\x04\0\0\0\0\x04\x02\0\0\0", b"\x04\0\0\0\0\x04\xff\xff\xff\x7f", "50000 states or 100000 transitions"),
    (b"<Triples> \x04\x03\0\0\0", b"<Triples> \x04\xff\xff\xff\x7f", "takes 32212254705 bytes, but only"),
    (b"<Triples> \x04\x03\0\0\0\x04\x01", b"<Triples> \x04\x03\0\0\0\x05\x01", "begins with byte 4, got byte 5"),
    (b"FV \x04\x07", b"FV \x04\x08", ""),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "message"), BAD_BINARIES, ids=range(len(BAD_BINARIES)))
def test_damaged_bytes_are_refused(old: bytes, new: bytes, message: str) -> None:
    contents = _bytes(_read(TRANSITIONS_TEXT))
    assert old in contents
    with pytest.raises(ModelFormatError) as raised:
        _read(contents.replace(old, new, 1))
    assert message in str(raised.value)
    assert str(raised.value).startswith("final.mdl: byte ")


@pytest.mark.parametrize("text", [TRANSITIONS_TEXT, CHAIN_TRANSITIONS_TEXT], ids=["hmm", "chain"])
@pytest.mark.parametrize("binary", [True, False], ids=["binary", "text"])
def test_a_file_cut_anywhere_is_refused(text: str, binary: bool) -> None:
    contents = _bytes(_read(text), binary)
    assert_every_cut_is_found(contents, TransitionModel.read, len(contents) if binary else len(contents.rstrip()))


def test_large_topologies_are_refused_before_they_take_memory() -> None:
    many = "<State> 0 <PdfClass> 0" + " <Transition> 0 0.5" * 100_001
    with pytest.raises(ModelFormatError, match="100000 transitions is not believable"):
        _read(change(TRANSITIONS_TEXT, "<State> 0 <PdfClass> 0", many))


def test_a_topology_entry_that_no_phone_uses() -> None:
    entry = TRANSITIONS_TEXT[TRANSITIONS_TEXT.index("<TopologyEntry>") : TRANSITIONS_TEXT.index("</Topology>")]
    second = entry.replace("1 3 \n", "")
    with pytest.raises(ModelFormatError, match="line 2, column 12: entry 1 of the topology is for no phone"):
        _read(change(TRANSITIONS_TEXT, "</Topology>", second + "</Topology>"))


def test_a_topology_must_hang_together() -> None:
    entry = TopologyEntry((TopologyState(0, 0, ((0, 0.5), (1, 0.5))), TopologyState()))
    with pytest.raises(ModelFormatError, match="at least two states, got 0"):
        TopologyEntry(())
    with pytest.raises(ModelFormatError, match="at least one phone"):
        HmmTopology((entry,), np.array([-1, -1], np.int32))
    with pytest.raises(ModelFormatError, match="phones begin at 1"):
        HmmTopology((entry,), np.array([0, 0], np.int32))
    with pytest.raises(ModelFormatError, match="not among its 1"):
        HmmTopology((entry,), np.array([-1, 0, 1], np.int32))


# ---- size ----


def _large_model(num_states: int) -> TransitionModel:
    """As of a triphone system; of a large one: 150,000 transition-states."""
    states = tuple(TopologyState(k, k, ((k, 0.5), (k + 1, 0.5))) for k in range(3))
    entry_of_phone = np.zeros(201, np.int32)
    entry_of_phone[0] = -1
    topology = HmmTopology((TopologyEntry((*states, TopologyState())),), entry_of_phone)
    number = np.arange(num_states)
    tuples = np.stack([number // 750 + 1, number // 250 % 3, number % 250, number % 250], axis=1)
    return TransitionModel(topology, tuples, np.full(2 * num_states + 1, -0.6931472))


@pytest.mark.parametrize("binary", [True, False], ids=["binary", "text"])
def test_a_large_model_takes_few_calls_more_than_a_small_one(binary: bool) -> None:
    small, contents = _bytes(_large_model(1500), binary), _bytes(_large_model(150_000), binary)
    model = _read(contents)
    assert model.num_transition_ids == 300_000
    assert model.pdf(np.array([300_000])).tolist() == [249]
    blocks = 0 if binary else 5  # text is parsed a megabyte at a time
    assert count_calls(_read, contents) <= count_calls(_read, small) + 150 * blocks


_ENTRY = TopologyEntry((TopologyState(0, 0, ((0, 0.5), (1, 0.5))), TopologyState()))
#: Three phones of one state with two transitions each; the last two have one pdf.
MODEL = TransitionModel(
    HmmTopology((_ENTRY,), np.array([-1, 0, 0, 0], np.int32)),
    [(1, 0, 0, 0), (2, 0, 1, 1), (3, 0, 1, 1)],
    [0.0, *np.log([0.5] * 6)],
)


def _counts(*values: float) -> np.ndarray:
    return np.array([0.0, *values])


def test_probabilities_are_shares() -> None:
    found = estimate_transitions(MODEL, _counts(3, 1, 10, 30, 1, 2), TransitionOptions(transition_min_count=4))
    np.testing.assert_allclose(np.exp(found.model.log_probs[1:]), [0.75, 0.25, 0.25, 0.75, 0.5, 0.5], rtol=1e-6)
    gain = sum(n * np.log(p / 0.5) for n, p in ((3, 0.75), (1, 0.25), (10, 0.25), (30, 0.75)))
    assert found.gain == pytest.approx(gain / 47)
    assert (found.frames, found.skipped, found.floored) == (47, 1, 0)


def test_small_probabilities_are_raised() -> None:
    found = estimate_transitions(MODEL, _counts(99, 1, 1, 1, 1, 1), TransitionOptions(transition_floor=0.1))
    kept = np.exp(found.model.log_probs[1:3])
    assert kept[1] == pytest.approx(0.1)
    assert 0.89 < kept[0] < 0.91
    assert found.floored > 0


def test_states_of_one_pdf_share_their_counts() -> None:
    found = estimate_transitions(MODEL, _counts(3, 3, 10, 30, 30, 10), TransitionOptions(share_for_pdfs=True))
    np.testing.assert_allclose(np.exp(found.model.log_probs[1:]), [0.5] * 6, rtol=1e-6)


def test_priors_are_shares_of_pdfs() -> None:
    np.testing.assert_allclose(pdf_priors(MODEL, _counts(1, 1, 2, 2, 1, 1), 0.0), [0.25, 0.75])
    np.testing.assert_allclose(pdf_priors(MODEL, _counts(0, 0, 2, 2, 1, 1), 0.25), [0.2, 0.8])
    with pytest.raises(NetworkError, match="no alignments"):
        pdf_priors(MODEL, _counts(0, 0, 0, 0, 0, 0), 0.0)


def test_states_with_other_numbers_of_transitions_share_nothing() -> None:
    once = TopologyEntry((TopologyState(0, 0, ((1, 1.0),)), TopologyState()))
    topology = HmmTopology((_ENTRY, once), np.array([-1, 0, 1], np.int32))
    model = TransitionModel(topology, [(1, 0, 0, 0), (2, 0, 0, 0)], [0.0, *np.log([0.5, 0.5, 1.0])])
    with pytest.raises(NetworkError, match="different numbers of transitions"):
        estimate_transitions(model, _counts(3, 1, 5), TransitionOptions(share_for_pdfs=True))
    found = estimate_transitions(model, _counts(3, 1, 5), TransitionOptions(transition_min_count=4))
    np.testing.assert_allclose(np.exp(found.model.log_probs[1:]), [0.75, 0.25, 1.0], rtol=1e-6)
    assert (found.frames, found.skipped) == (9, 0)
