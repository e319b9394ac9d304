"""Files of topologies: both forms hold the same, and damage is named where it is."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from nnet3.errors import ModelFormatError
from nnet3.kaldi_io import Reader, Writer
from nnet3.model.hmm import topology
from nnet3.model.hmm.topology import HmmTopology, read_topology, write_topology
from tests.hmm.topologies import topologies

TEXT = """<Topology>
<TopologyEntry>
<ForPhones>
1 2
</ForPhones>
<State> 0 <PdfClass> 0 <Transition> 0 0.5 <Transition> 1 0.5 </State>
<State> 1 </State>
</TopologyEntry>
</Topology>
"""


def _written(topology: HmmTopology, binary: bool) -> bytes:
    writer = Writer(binary)
    write_topology(topology, writer)
    return writer.getvalue()


def _read(contents: bytes, binary: bool = False) -> HmmTopology:
    return read_topology(Reader(contents, "topo", binary=binary))


@given(topologies())
def test_both_forms_hold_the_same(topology: HmmTopology) -> None:
    for binary in (False, True):
        again = _read(_written(topology, binary), binary)
        assert again.entries == topology.entries or not binary
        np.testing.assert_array_equal(again.entry_of_phone, topology.entry_of_phone)
        assert _written(again, binary) == _written(topology, binary)


def test_text_is_read_and_written_the_same() -> None:
    topology = _read(TEXT.encode())
    assert topology.phones.tolist() == [1, 2]
    assert topology.is_hmm
    assert _written(topology, False).decode().split() == TEXT.split()


def test_a_chain_topology_has_two_classes_a_state() -> None:
    chain = TEXT.replace("<PdfClass> 0", "<ForwardPdfClass> 0 <SelfLoopPdfClass> 1")
    topology = _read(chain.encode())
    assert not topology.is_hmm
    assert _written(topology, False).decode().split() == chain.split()
    assert _read(_written(topology, True), True).entries == topology.entries


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("1 2\n", "1 1\n", "phone 1 has a topology already"),
        ("1 2\n", "0\n", "a phone must be in 1 .. 1000000, got 0"),
        ("<State> 1", "<State> 2", "expected state 1, got state 2"),
        ("<Transition> 1 0.5", "<Transition> 7 0.5", "the states are 0 to 1"),
        ("1 2\n", "\n", "is for no phone|at least one phone"),
        ("</Topology>", "", "."),
    ],
)
def test_damaged_text_is_refused(old: str, new: str, message: str) -> None:
    assert old in TEXT
    with pytest.raises(ModelFormatError, match=message) as caught:
        _read(TEXT.replace(old, new).encode())
    assert "topo: " in str(caught.value)


def test_binary_phones_that_differ_from_the_entries() -> None:
    contents = _written(_read(TEXT.encode()), True)
    damaged = contents.replace((2).to_bytes(4, "little"), (3).to_bytes(4, "little"), 1)
    assert damaged != contents
    with pytest.raises(ModelFormatError):
        _read(damaged, True)


def test_every_cut_is_found() -> None:
    contents = _written(_read(TEXT.encode()), True)
    for length in range(len(contents) - 2):
        with pytest.raises(ModelFormatError):
            _read(contents[:length], True)


def test_more_states_than_are_believable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topology, "_MOST_STATES", 2)
    _read(TEXT.encode())
    monkeypatch.setattr(topology, "_MOST_STATES", 1)
    for binary in (False, True):
        contents = _written(_topology(), binary)
        with pytest.raises(ModelFormatError, match="more than 1 states or 100000 transitions is not believable"):
            _read(contents, binary)


def _topology() -> HmmTopology:
    state = topology.TopologyState
    entry = topology.TopologyEntry((state(0, 0, ((1, 1.0),)), state()))
    return HmmTopology((entry,), np.array([-1, 0], np.int32))
