"""Sessions: commands, settings and when they hold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nnet3.asr import Model, Recognizer, SpkModel
from nnet3.errors import ArgumentError
from nnet3.options import HearingOptions
from nnet3.speech.serve.scheduler import Scheduler
from nnet3.speech.serve.session import MoreModels, Session
from tests.asr.small_recognizer import PIECE, RATE, audio, write_recognizer
from tests.asr.small_speakers import write_speaker_model
from tests.patience import PATIENCE

AUDIO = audio(2.0)


@pytest.fixture(scope="module")
def lookahead(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return Model(write_recognizer(tmp_path_factory.mktemp("model") / "lookahead", lookahead=True))


def session(model: Model) -> Session:
    return Session(model, model.computer(), HearingOptions())


def config(**settings: Any) -> str:
    return json.dumps({"config": settings})


def said(each: Session, *parts: bytes) -> list[Any]:
    """The answers to audio, and the last one."""
    with Scheduler() as scheduler:
        works = [*(each.hear(part) for part in parts), each.finish()]
        return [json.loads(scheduler.submit(work).result(PATIENCE)) for work in works]


def test_commands(lookahead: Model) -> None:
    each = session(lookahead)
    assert each.command('{"eof" : 1}') == each.command('{"eof":true}') == "eof"
    assert each.command('{ "reset" : 1}') == "reset"
    assert each.command(config(sample_rate="16000", words=0, max_alternatives=2.0, colour="blue")) == "config"
    assert each.options == HearingOptions(sample_rate=16000, words=False, max_alternatives=2)
    assert each.command(config(sample_rate=8000.0, phrase_list=["high low"])) == "config"
    assert each.options == HearingOptions(sample_rate=8000, words=False, max_alternatives=2, phrase_list=("high low",))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "a text message is "),
        ("hello", "a text message is "),
        ("[" * 100_000, "a text message is "),
        ("9" * 5000, "a text message is "),
        ("{}", "a text message is "),
        ('["eof"]', "a text message is "),
        ('{"eof": 1, "reset": 1}', "a text message is "),
        ('{"config": [1]}', "config must be an object"),
        (config(model="/etc/passwd"), "this server has one model"),
        (config(sample_rate="fast"), "sample_rate must be an integer, got 'fast'"),
        (config(sample_rate=44100.5), "sample_rate must be an integer"),
        ('{"config": {"sample_rate": 1e999}}', "sample_rate must be an integer"),
        ('{"config": {"sample_rate": NaN}}', "sample_rate must be an integer"),
        (config(sample_rate=1), "sample_rate must be within [4000, 96000]"),
        (config(sample_rate=None), "sample_rate must be an integer"),
        (config(words="yes"), "words must be true or false"),
        (config(max_alternatives=10**9), "max_alternatives must be within [0, 100]"),
        (config(phrase_list=[1]), "phrase_list must be "),
        (config(phrase_list=["high\nlow"]), "phrase_list must have no line breaks"),
        (config(phrase_list=["high " * 5000]), "phrase_list must have at most"),
    ],
)
def test_bad_messages_change_nothing(lookahead: Model, text: str, message: str) -> None:
    each = session(lookahead)
    with pytest.raises(ArgumentError) as caught:
        each.command(text)
    assert message in str(caught.value)
    assert each.options == HearingOptions()


def test_settings_of_results_hold_at_once_and_the_rate_from_the_next_stream_on(lookahead: Model) -> None:
    each = session(lookahead)
    each.command(config(words=False))
    parts = [AUDIO[:PIECE].tobytes(), AUDIO[PIECE:].tobytes()]
    assert set(said(each, parts[0])[-1]) == {"text"}
    with Scheduler() as scheduler:
        scheduler.submit(each.hear(parts[1])).result(PATIENCE)
    each.command(config(words=True, sample_rate=2 * RATE))
    first = said(each)[-1]
    assert first["result"][-1]["end"] <= 2.1
    fast = Recognizer(lookahead, 2 * RATE)
    fast.SetWords(True)
    fast.accept(AUDIO)
    assert said(each, AUDIO.tobytes())[-1] == json.loads(fast.FinalResult())
    each.command(config(max_alternatives=2))
    assert "alternatives" in said(each, AUDIO.tobytes())[-1]
    assert each.seconds == pytest.approx(2.0 + 1.0 + 1.0)


def test_a_client_chooses_one_of_several_models(lookahead: Model, tmp_path: Path) -> None:
    other = Model(write_recognizer(tmp_path / "other"))
    more = MoreModels({"other": (other, other.computer())})
    each = Session(lookahead, lookahead.computer(), HearingOptions(sample_rate=RATE), more)
    with pytest.raises(ArgumentError, match="this server has no model '/etc/passwd', but lookahead, other"):
        each.command(config(model="/etc/passwd"))
    for name, model in (("other", other), ("lookahead", lookahead), ("", lookahead)):
        each.command(config(model=name))
        recognizer = each.begin()
        assert recognizer.model is model
        assert said(each, AUDIO.tobytes())[-1]["text"]
        each.command(config(model="other" if model is lookahead else ""))  # from the next stream on
        assert each.begin() is recognizer
        said(each)


def test_speakers(lookahead: Model, tmp_path: Path) -> None:
    speakers = SpkModel(write_speaker_model(tmp_path / "spk"))
    each = Session(lookahead, lookahead.computer(), HearingOptions(sample_rate=RATE), MoreModels({}, speakers))
    with_vector = said(each, AUDIO.tobytes())[-1]
    each.command(config(spk=0))
    assert said(each, AUDIO.tobytes())[-1].keys() == with_vector.keys()  # the recognizer is the one from before
    without = said(each, AUDIO.tobytes())[-1]
    assert with_vector.keys() - without.keys() == {"spk", "spk_frames"}
    with pytest.raises(ArgumentError, match="spk must be true or false"):
        each.command(config(spk="no"))


def test_phrases(lookahead: Model, tmp_path: Path) -> None:
    each = session(lookahead)
    each.command(config(phrase_list=["high", "strange high"]))
    assert each.takes_time_to_begin
    each.begin()
    assert not each.takes_time_to_begin
    assert {word["word"] for word in said(each, AUDIO.tobytes())[-1]["result"]} == {"high"}
    each.command(config(phrase_list=[]))
    assert said(each)[-1] == {"text": ""}
    assert "low" in {word["word"] for word in said(each, AUDIO.tobytes())[-1]["result"]}
    other = session(lookahead)
    other.command(config(phrase_list=["strange"]))
    assert said(other, AUDIO.tobytes())[-1] == {"text": ""}
    fixed = session(Model(write_recognizer(tmp_path / "fixed")))
    fixed.command(config(phrase_list=["high"]))
    assert "low" in {word["word"] for word in said(fixed, AUDIO.tobytes())[-1]["result"]}
