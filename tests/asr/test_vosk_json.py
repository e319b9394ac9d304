"""JSON as Vosk writes it."""

from __future__ import annotations

import json

from nnet3.speech.asr.vosk_json import SpokenText, TextAlternative, TimedWord, dumps, partial_json, result_json

WORDS = [TimedWord("one", 0.87, 1.11, 1.0), TimedWord('"zwei"', 1.11, 1.5, 0.25)]
SPOKEN = SpokenText(WORDS, [TextAlternative([TimedWord("eins", 0.5, 1)], 101.5), TextAlternative([], -1.0)])


def test_words() -> None:
    expected = """\
{
  "result" : [{
      "conf" : 1.000000,
      "end" : 1.110000,
      "start" : 0.870000,
      "word" : "one"
    }, {
      "conf" : 0.250000,
      "end" : 1.500000,
      "start" : 1.110000,
      "word" : "\\"zwei\\""
    }],
  "text" : "one \\"zwei\\""
}"""
    assert result_json(SPOKEN, with_words=True) == expected
    assert json.loads(expected)["text"] == SPOKEN.text


def test_text_alone() -> None:
    assert result_json(SPOKEN) == '{\n  "text" : "one \\"zwei\\""\n}'
    assert result_json(SpokenText([]), with_words=True) == '{\n  "text" : ""\n}'
    assert result_json(SpokenText([], extra={"spk_frames": 7})) == '{\n  "spk_frames" : 7,\n  "text" : ""\n}'


def test_alternatives() -> None:
    found = json.loads(result_json(SPOKEN, with_words=True, most_alternatives=5))
    assert found == {
        "alternatives": [
            {"confidence": 101.5, "result": [{"end": 1.0, "start": 0.5, "word": "eins"}], "text": "eins"},
            {"confidence": -1.0, "text": ""},
        ]
    }
    assert json.loads(result_json(SPOKEN, most_alternatives=1)) == {
        "alternatives": [{"confidence": 101.5, "text": "eins"}]
    }


def test_partial_results() -> None:
    assert partial_json([]) == '{\n  "partial" : ""\n}'
    found = json.loads(partial_json(WORDS[:1], with_words=True))
    assert found == {"partial": "one", "partial_result": [{"conf": 1.0, "end": 1.11, "start": 0.87, "word": "one"}]}


def test_empty_lists_and_letters() -> None:
    assert dumps({"b": [], "a": "안녕"}) == '{\n  "a" : "안녕",\n  "b" : []\n}'
