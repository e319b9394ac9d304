"""Features of words: the files that Kaldi's scripts made, and damaged ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from nnet3.base.options.rnnlm import FeatureChoiceOptions
from nnet3.errors import ArgumentError, ModelFormatError
from nnet3.training.rnnlm.feature_choice import (
    WordFeatures,
    choose_features,
    parse_features,
    unigram_probs,
    word_feature_lines,
)
from nnet3.training.rnnlm.word_features import read_word_features
from tests.rescoring_data import needs_rescoring
from tests.rnnlm.golden_texts import WITH_FEATURES, names, sentences

WORDS = ["<eps>", "<s>", "</s>", "<brk>", "anna", "ann", "an"]
PROBS = [0, 0, 0.2, 0, 0.5, 0.2, 0.1]


def _probs(case: Path) -> list[float]:
    return [float(line.split()[1]) for line in (case / "unigram_probs.txt").read_text().splitlines()]


@needs_rescoring
@pytest.mark.parametrize("case", WITH_FEATURES, ids=lambda case: case.name)
def test_features_are_those_of_kaldis_script(case: Path) -> None:
    options = FeatureChoiceOptions(
        top_word_features=8, min_frequency=0.004, max_ngram_order=3, use_constant_feature=case.name == "gru"
    )
    found = choose_features([*names(case).values()], _probs(case), options)
    wanted = (case / "features.txt").read_text().splitlines()
    assert len(found) == len(wanted)
    for number, (feature, line) in enumerate(zip(found, wanted, strict=True)):
        if feature.kind != "unigram":
            assert feature.line(number) == line
            continue
        assert line.split()[:2] == [str(number), "unigram"]
        assert [feature.offset, feature.scale] == pytest.approx([float(field) for field in line.split()[2:]], rel=1e-12)


@needs_rescoring
@pytest.mark.parametrize("case", WITH_FEATURES, ids=lambda case: case.name)
def test_words_have_the_features_of_kaldis_script(case: Path) -> None:
    features = parse_features((case / "features.txt").read_text(), "features.txt")
    lines = word_feature_lines([*names(case).values()], features, _probs(case), ["#0"])
    assert list(lines) == (case / "word_feats.txt").read_text().splitlines()


@needs_rescoring
@pytest.mark.parametrize("case", WITH_FEATURES, ids=lambda case: case.name)
def test_probabilities_are_smoothed_counts(case: Path) -> None:
    assert unigram_probs(sentences(case), [*names(case).values()], 2) == pytest.approx(_probs(case))


def test_pieces_count_as_often_as_they_occur() -> None:
    lookup = WordFeatures(choose_features(WORDS, PROBS, FeatureChoiceOptions(top_word_features=0)))
    number = {(feature.kind, feature.text): place for place, feature in enumerate(lookup.features)}
    assert ("match", "nn") in number
    assert ("initial", "an") in number
    assert ("word", "an") not in number  # longer than three letters with its ends
    found = lookup.of("annann", 0.1)
    assert found[number["match", "nn"]] == pytest.approx(2 * lookup.features[number["match", "nn"]].scale)
    assert lookup.of("<brk>", None) == {number["special", "<brk>"]: 1.0}


def test_pieces_of_one_kind_are_found_by_their_lengths() -> None:
    for kind, text in (("initial", "an"), ("final", "na"), ("match", "nn")):
        features = parse_features(f"0\t{kind}\t{text}\t0.5\n", "features.txt")
        assert WordFeatures(features).of("anna", None) == {0: 0.5}


def test_unseen_words_have_features_of_their_pieces(tmp_path: Path) -> None:
    features = choose_features(WORDS, PROBS, FeatureChoiceOptions(include_unigram_feature=False))
    lines = list(word_feature_lines(["<eps>", "<s>", "banana"], features, None))
    (tmp_path / "word_feats.txt").write_text("\n".join(lines) + "\n")
    matrix = read_word_features(tmp_path / "word_feats.txt", len(features))
    assert matrix.rows == 3
    assert matrix.indptr.tolist()[:3] == [0, 0, 1]


def test_words_without_a_probability_are_named() -> None:
    features = choose_features(WORDS, PROBS, FeatureChoiceOptions())
    with pytest.raises(ModelFormatError, match="the word 'anna' needs a unigram probability above 0"):
        list(word_feature_lines(WORDS, features, None))


@pytest.mark.parametrize("line", ["1\tlength\t0.1", "0\tlength", "0\tnothing\ta\t1.0", "0\tmatch\ta\tb", ""])
def test_damaged_files_are_refused(line: str) -> None:
    with pytest.raises(ModelFormatError, match=r"features\.txt: line 1: expected 0"):
        parse_features(line + "\n", "features.txt")


def test_orders_must_ascend() -> None:
    with pytest.raises(ArgumentError, match="must not be below min_ngram_order"):
        FeatureChoiceOptions(min_ngram_order=4)
