"""Files of const-arpa models: Kaldi's bytes, the old format, damage anywhere, large files that are only mapped."""

from __future__ import annotations

import mmap
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

from nnet3.base.kaldi_io.reader import Reader
from nnet3.base.kaldi_io.writer import Writer
from nnet3.errors import ArgumentError, ModelFormatError
from nnet3.speech.language_models.const_arpa import NO_UNK, ConstArpa
from nnet3.speech.language_models.const_arpa_file import load_const_arpa, read_const_arpa, write_const_arpa
from nnet3.speech.language_models.const_arpa_making import make_const_arpa
from tests.asr.golden_const_arpa import CASES, FOLDER, as_arrays, contents, needs_rescoring, random_ngrams


def _model() -> ConstArpa:
    rng = np.random.default_rng(0)
    return make_const_arpa(as_arrays(random_ngrams(rng, 3, 4), 3, rng), 1, 2, NO_UNK, most_distance=20)


def _old(model: ConstArpa) -> bytes:
    """The file in the format of old, which begins with numbers."""
    writer = Writer.of_file(binary=True)
    for number in (model.bos, model.eos, model.unk, model.order, len(model.states), *model.states.tolist()):
        writer.int32(number)
    for array in (model.unigrams, model.overflow):
        writer.int32(len(array))
        writer.raw(b"".join(b"\x08" + int(number).to_bytes(8, "little", signed=True) for number in array))
    return writer.getvalue()


@needs_rescoring
@pytest.mark.parametrize("case", CASES)
def test_kaldis_files_are_read_and_written(case: str) -> None:
    path = FOLDER / case / "G.carpa"
    model = load_const_arpa(path)
    assert (_old(model) if case == "old_format" else contents(model)) == path.read_bytes()


def test_the_old_format_is_the_same_model() -> None:
    model = _model()
    assert contents(read_const_arpa(Reader(_old(model)))) == contents(model)


@given(st.data())
def test_files_cut_off_or_changed_are_refused(data: st.DataObject) -> None:
    whole = data.draw(st.sampled_from([contents(_model()), _old(_model())]))
    cut = data.draw(st.integers(2, len(whole) - 1))
    with pytest.raises(ModelFormatError, match=r"no const-arpa model|words are 1 to"):
        read_const_arpa(Reader(whole[:cut]))
    place, byte = data.draw(st.integers(2, min(120, len(whole) - 1))), data.draw(st.integers(0, 255))
    try:
        read_const_arpa(Reader(whole[:place] + bytes([byte]) + whole[place + 1 :]))
    except ModelFormatError as error:
        assert "\n" not in str(error)  # noqa: PT017


def test_files_of_another_kind() -> None:
    with pytest.raises(ModelFormatError, match="expected a const-arpa model, always binary"):
        read_const_arpa(Reader(b"\\data\\\n"))
    with pytest.raises(ModelFormatError, match="expected <ConstArpaLm>, got '<Nnet3>'"):
        read_const_arpa(Reader(b"\0B<Nnet3> "))
    with pytest.raises(ModelFormatError, match="goes on"):
        read_const_arpa(Reader(contents(_model()) + b"x"))
    with pytest.raises(ArgumentError, match="always written in binary"):
        write_const_arpa(_model(), Writer(binary=False))


def test_a_large_file_opens_at_once(tmp_path: Path) -> None:
    """The states, 2 GB of a hole in the file, are mapped, not read."""
    head, tail = contents(_model()).split(b"<LmStates> ")
    count = 1 << 29
    behind = tail[tail.index(b"</LmStates>") :]
    with open(tmp_path / "large", "wb") as file:
        file.write(head + b"<LmStates> \x08" + count.to_bytes(8, "little"))
        file.seek(4 * count, 1)
        file.write(behind)
    model = load_const_arpa(tmp_path / "large")
    view = model.states.base
    assert isinstance(view, memoryview)
    assert isinstance(view.obj, mmap.mmap)
    assert len(model.states) == count
    assert model.log_probs(np.array([1]), np.array([[2, 3]])).tolist() == [0]
