"""Vosk's names of a recognizer: pauses, NLSML, alternatives below 0, rates with a point."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest

from nnet3.asr import EndpointerMode, KaldiRecognizer, Model, SpokenText
from nnet3.errors import ArgumentError
from nnet3.speech.asr.vosk_json import TextAlternative, TimedWord, nlsml, nothing_heard
from tests.asr.small_recognizer import PIECE, RATE, audio, write_recognizer
from tests.effort import at_night

AUDIO = audio(3.0)
SHORT = AUDIO[: 6 * PIECE]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return Model(write_recognizer(tmp_path_factory.mktemp("model") / "small"))


def ends(recognizer: KaldiRecognizer) -> list[int]:
    """Returns the pieces after which the speaker had paused."""
    found = []
    for number, part in enumerate(np.split(AUDIO, range(PIECE, len(AUDIO), PIECE))):
        if recognizer.AcceptWaveform(part):
            found.append(number)
            recognizer.Result()
    recognizer.FinalResult()
    return found


@pytest.mark.parametrize("name", ["SetWords", "SetPartialWords", "SetNLSML"])
def test_switches_take_what_is_true_or_false(model: Model, name: str) -> None:
    switch = getattr(KaldiRecognizer(model, RATE), name)
    switch(1)
    with pytest.raises(ArgumentError, match=r"expected True or False, got array\(\[1, 2\]\)"):
        switch(np.array([1, 2]))


def test_modes_of_endpoints(model: Model) -> None:
    recognizer = KaldiRecognizer(model, RATE)
    before = ends(recognizer)
    assert before
    pauses = {}
    for mode, scale in zip(EndpointerMode, (1, 0.75, 1.5, 4), strict=True):
        recognizer.SetEndpointerMode(mode)
        rules = recognizer.endpointing.rules
        for name in ("rule2", "rule3", "rule4"):  # against the model's, not against the mode before
            wanted = scale * model.endpointing.rules[name].min_trailing_silence
            assert rules[name].min_trailing_silence == pytest.approx(wanted)
        assert rules["rule1"] == model.endpointing.rules["rule1"]
        assert rules["rule5"] == model.endpointing.rules["rule5"]
        pauses[mode] = ends(recognizer)
    assert pauses[EndpointerMode.DEFAULT] == before
    assert len(pauses[EndpointerMode.VERY_LONG]) < len(before) <= len(pauses[EndpointerMode.SHORT])
    recognizer.SetEndpointerMode(0)
    assert recognizer.endpointing == model.endpointing
    for wrong in (4, "LONG", None):
        with pytest.raises(ArgumentError, match=r"the mode of endpoints must be one of DEFAULT \(0\), SHORT \(1\)"):
            recognizer.SetEndpointerMode(wrong)  # type: ignore[arg-type]


def test_delays_of_endpoints(model: Model) -> None:
    recognizer = KaldiRecognizer(model, RATE)
    recognizer.SetEndpointerDelays(0.5, 0.3, 10)
    rules = recognizer.endpointing.rules
    silences = [rules[f"rule{number}"].min_trailing_silence for number in (1, 2, 3, 4)]
    assert silences == [0.5, 0.3, 0.8, 1.3]
    assert rules["rule5"].min_utterance_length == 10
    assert rules["rule3"].max_relative_cost == model.endpointing.rules["rule3"].max_relative_cost
    recognizer.SetEndpointerDelays(5, 2, 0.5)
    assert ends(recognizer)[0] == 3  # more than half a second of rows
    recognizer.SetEndpointerDelays(5, 0, 20)
    assert ends(recognizer)[:5] == [0, 1, 2, 3, 4]  # speech that can end needs no silence behind it
    for wrong in (("a", 1, 1), (1, -1, 1), (1, 1, float("nan"))):
        with pytest.raises(ArgumentError, match="delay"):
            recognizer.SetEndpointerDelays(*wrong)  # type: ignore[arg-type]


def test_nlsml(model: Model) -> None:
    recognizer = KaldiRecognizer(model, RATE)
    recognizer.SetNLSML(True)
    recognizer.AcceptWaveform(SHORT)
    assert set(json.loads(recognizer.FinalResult())) == {"text"}  # no alternatives were asked for
    recognizer.SetMaxAlternatives(3)
    nothing = ElementTree.fromstring(recognizer.FinalResult())
    assert nothing.find("interpretation/input/noinput") is not None
    assert recognizer.PartialResult() == nothing_heard(as_nlsml=True)
    recognizer.AcceptWaveform(SHORT)
    assert json.loads(recognizer.PartialResult())["partial"]
    document = ElementTree.fromstring(recognizer.FinalResult())
    read = document.findall("interpretation")
    assert len(read) == 3
    sure = [float(each.attrib["confidence"]) for each in read]
    assert sure == sorted(sure, reverse=True)
    texts = [each.findtext("instance") for each in read]
    assert texts == [each.findtext("input") for each in read]
    recognizer.SetNLSML(False)
    recognizer.AcceptWaveform(SHORT)
    assert texts == [each["text"] for each in json.loads(recognizer.FinalResult())["alternatives"]]


def test_nlsml_of_odd_words() -> None:
    words = [TimedWord("<unk>", 0, 1), TimedWord("r&b", 1, 2)]
    text = nlsml(SpokenText(words, [TextAlternative(words, 1234.5678), TextAlternative([], -0.5)]), 2)
    assert re.findall(r'confidence="([^"]*)"', text) == ["1234.57", "-0.5"]
    assert ElementTree.fromstring(text).findtext("interpretation/instance") == "<unk> r&b"


def test_alternatives_below_0(model: Model) -> None:
    """The wheel's answers."""
    recognizer = KaldiRecognizer(model, RATE)
    recognizer.SetMaxAlternatives(-1)
    assert recognizer.Result() == nothing_heard()
    recognizer.AcceptWaveform(SHORT)
    assert json.loads(recognizer.PartialResult())["partial"]
    assert recognizer.FinalResult() == "null"
    recognizer.AcceptWaveform(SHORT)
    recognizer.SetNLSML(True)
    assert recognizer.FinalResult() == '<?xml version="1.0"?>\n<result grammar="default">\n</result>\n'


@pytest.mark.parametrize("rate", [RATE + 0.5, np.float32(RATE), *at_night(float(RATE), np.int64(RATE))])
def test_rates_with_a_point(model: Model, rate: float) -> None:
    """The audio is heard at the whole rate; times count at the given rate."""
    recognizer, whole = KaldiRecognizer(model, rate), KaldiRecognizer(model, RATE)
    for each in (recognizer, whole):
        each.SetWords(True)
        each.AcceptWaveform(SHORT.tobytes())
        assert each.FinalResult()
        each.AcceptWaveform(SHORT.tobytes())
    ours, theirs = (json.loads(each.FinalResult()) for each in (recognizer, whole))
    assert ours["text"] == theirs["text"] != ""
    shift = len(SHORT) / RATE - len(SHORT) / float(rate)
    starts = [[word["start"] for word in each["result"]] for each in (ours, theirs)]
    np.testing.assert_allclose(starts[0], np.array(starts[1]) - shift, atol=2e-6)


@pytest.mark.parametrize("rate", [0.5, "8000", None, True, float("nan"), 1e9])
def test_rates_that_are_none(model: Model, rate: float) -> None:
    with pytest.raises(ArgumentError, match="a sample rate must be a number from 1000 to 400000, got"):
        KaldiRecognizer(model, rate)


def test_a_third_argument_that_is_nothing(model: Model, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="phrases must be a list of texts"):
        KaldiRecognizer(model, RATE, tmp_path)  # type: ignore[arg-type]
