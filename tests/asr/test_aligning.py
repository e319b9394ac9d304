"""Words and phones with times: Kaldi's own alignments, with and without a tree; what cannot be aligned is one error."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import nnet3
from nnet3.base.kaldi_io.symbols import load_symbols
from nnet3.errors import ArgumentError, ExecutionError, Nnet3Error
from nnet3.kaldi_io import open_int_vector_table, open_matrix_table
from nnet3.model.nnet import AcousticModel
from nnet3.speech.asr.textgrid import TierInterval, textgrid
from tests.road_case import needs_road, road_cases

pytest.importorskip("kaldifst")


class _Case:
    def __init__(self, folder: Path):
        model = nnet3.load(folder / "final.mdl")
        assert isinstance(model, AcousticModel)
        self.folder, self.model = folder, model
        self.names = load_symbols(folder / "phones.txt").names
        self.features = dict(open_matrix_table(f"ark:{folder}/feats.ark"))
        self.alignments = dict(open_int_vector_table(f"ark:{folder}/ali.ark"))
        texts = open_int_vector_table(f"ark,t:{folder}/text.txt")
        self.phones = {key: words.tolist() for key, words in texts}
        spoken = {f"word{n}": [name] for n, name in self.names.items() if name.startswith("p")}
        self.lexicon = nnet3.Lexicon(spoken, folder / "phones.txt", silence=self.names[1])

    def words(self, key: str) -> list[str]:
        return [f"word{phone}" for phone in self.phones[key]]


@pytest.fixture(scope="module", params=road_cases("align"), ids=lambda path: path.name)
def case(request: pytest.FixtureRequest) -> _Case:
    return _Case(request.param)


@needs_road
@pytest.mark.parametrize("with_tree", [True, False])
def test_alignments_are_kaldis(case: _Case, with_tree: bool) -> None:
    """Also without the tree: that of the right context is the best of all pdfs."""
    tree = case.folder / "tree" if with_tree else None
    shift = 0.01 if case.model.transition_model.topology.is_hmm else 0.03
    ctm = {}
    for key, ids in case.alignments.items():
        found = nnet3.align(case.model, case.features[key], case.words(key), case.lexicon, tree=tree)
        assert found.transition_ids.tolist() == ids.tolist()
        assert [word.word for word in found.words] == case.words(key)
        said = [phone for phone in found.phones if phone.phone != case.names[1]]
        assert [phone for word in found.words for phone in word.phones] == said
        assert found.seconds == pytest.approx(0.01 * len(case.features[key]))
        assert found.phones[-1].end == found.seconds
        ctm[key] = [(phone.start, phone.phone) for phone in found.phones]
    theirs: dict[str, list[tuple[float, str]]] = {}
    for line in (case.folder / "phones.ctm").read_text().splitlines():
        key, _, begin, _, phone = line.split()
        theirs.setdefault(key, []).append((float(begin) * shift / 0.01, case.names[int(phone)]))
    assert ctm.keys() == theirs.keys()
    for key, lines in theirs.items():
        assert [phone for _, phone in ctm[key]] == [phone for _, phone in lines]
        np.testing.assert_allclose([at for at, _ in ctm[key]], [at for at, _ in lines], atol=1e-9)


@needs_road
def test_phones_as_numbers_and_as_names(case: _Case) -> None:
    key = next(iter(case.phones))
    words = nnet3.align(case.model, case.features[key], case.words(key), case.lexicon)
    numbers = {name: number for number, name in case.names.items()}
    said = [phone.phone for phone in words.phones]
    by_number = nnet3.align(case.model, case.features[key], [numbers[name] for name in said])
    by_name = nnet3.align(
        case.model, case.features[key], " ".join(said), nnet3.Lexicon.of_phones(case.folder / "phones.txt")
    )
    assert by_number.transition_ids.tolist() == by_name.transition_ids.tolist() == words.transition_ids.tolist()
    assert (by_number.words, [word.word for word in by_name.words]) == ((), said)
    assert '"phones"' in by_number.textgrid()
    assert '"words"' not in by_number.textgrid()


@needs_road
def test_a_word_of_several_phones_and_ways_to_say_it(case: _Case) -> None:
    key = max(case.phones, key=lambda key: len(case.phones[key]))
    plain = nnet3.align(case.model, case.features[key], case.words(key), case.lexicon)
    names = [phone.phone for phone in plain.phones]
    first, rest = names[: len(names) // 2], names[len(names) // 2 :]
    other = [name for name in case.names.values() if name.startswith("p")][:2]
    lexicon = nnet3.Lexicon(
        {"one": [other, first], "two": [" ".join(rest), other]}, case.folder / "phones.txt", silence=case.names[1]
    )
    found = nnet3.align(case.model, case.features[key], "one two", lexicon)
    assert [[phone.phone for phone in word.phones] for word in found.words] == [first, rest]
    assert found.words[0].end == found.words[1].start
    assert f"{key} 1 0.00 {found.words[0].end:.2f} one\n" in found.ctm(key)
    assert len(found.ctm(key, phones=True).splitlines()) == len(names)


@needs_road
def test_what_cannot_be_aligned(case: _Case) -> None:
    key = next(iter(case.phones))
    features, words = case.features[key], case.words(key)
    broken = features.copy()
    broken[3, 1] = np.nan
    kinds: list[tuple[type[Nnet3Error], str, tuple[object, ...]]] = [
        (ArgumentError, "lacks 'nosuch' (2 times), 'other'", (features, "nosuch other nosuch", case.lexicon)),
        (ArgumentError, "nothing to align", (features, "", case.lexicon)),
        (ArgumentError, "without a lexicon, expected phones as whole numbers, got 'word", (features, words)),
        (ArgumentError, "what was said must be a text", (features, None, case.lexicon)),
        (ArgumentError, "the model has no phone 77", (features, [77])),
        (ArgumentError, "words must be strings", (features, [2, 3], case.lexicon)),
        (ArgumentError, "the lexicon must be an nnet3.Lexicon, got 'lexicon.txt'", (features, words, "lexicon.txt")),
        (ExecutionError, "rows of scores, but there are", (features[:3], words, case.lexicon)),
        (ExecutionError, "a NaN or an infinity, first in row 3", (broken, words, case.lexicon)),
        (ExecutionError, "the utterance has no frames", (features[:0], words, case.lexicon)),
        (ExecutionError, "features", (features[:, :-1], words, case.lexicon)),
    ]
    for kind, message, given in kinds:
        with pytest.raises(kind, match=re.escape(message)):
            nnet3.align(case.model, *given)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="the model must be an acoustic model"):
        nnet3.align(case.model.nnet, features, words, case.lexicon)  # type: ignore[arg-type]
    with pytest.raises(Nnet3Error, match="there is no option 'baem'"):
        nnet3.align(case.model, features, words, case.lexicon, baem=3)


@needs_road
def test_a_wrong_transcript_within_a_narrow_beam(case: _Case) -> None:
    """Says the words of one utterance in the frames of others: some do not end within the beam."""
    errors = []
    key = min(case.phones, key=lambda key: len(case.phones[key]))
    for features in case.features.values():
        try:
            nnet3.align(case.model, features, case.words(key), case.lexicon, beam=0.01, retry_beam=0.02)
        except ExecutionError as error:
            errors.append(str(error))
    assert all("within a beam of 0.02" in each for each in errors)


def test_a_textgrid_covers_all_of_the_time() -> None:
    grid = textgrid({"words": [TierInterval('say "a"', 0.25, 0.5), TierInterval("b", 0.5, 0.75)], "none": []}, 1.0)
    assert re.findall(r'xmin = (\S+) \n\s*xmax = (\S+) \n\s*text = (".*") ', grid) == [
        ("0", "0.25", '""'),
        ("0.25", "0.5", '"say ""a"""'),
        ("0.5", "0.75", '"b"'),
        ("0.75", "1", '""'),
        ("0", "1", '""'),
    ]
    assert grid.startswith('File type = "ooTextFile"\nObject class = "TextGrid"\n\nxmin = 0 \nxmax = 1 \n')
    assert re.findall(r"intervals: size = (\d+)", grid) == ["4", "1"]
