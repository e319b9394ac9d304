"""Models by name and by language, and archives from a site of our own."""

from __future__ import annotations

import http.server
import io
import threading
import zipfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

import nnet3.asr
from nnet3.errors import ArgumentError, ModelFormatError, Nnet3Error
from nnet3.speech.asr import model_search
from nnet3.speech.asr.model_search import ModelSearch
from tests.asr.small_recognizer import write_recognizer

NAMES = ("vosk-model-en-us-0.22", "vosk-model-small-en-us-0.9", "vosk-model-small-en-us-0.15", "vosk-model-el-gr-0.7")


@pytest.fixture(autouse=True)
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Two folders in the place of those of the machine."""
    found = [tmp_path / "first", tmp_path / "second"]
    monkeypatch.setattr(model_search, "MODEL_DIRS", [None, *found, tmp_path / "nowhere"])
    monkeypatch.delenv("VOSK_MODEL_PATH", raising=False)
    for folder in found:
        folder.mkdir()
    return found


def fill(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).mkdir()


def test_by_name(folders: list[Path]) -> None:
    fill(folders[1], *NAMES)
    assert ModelSearch.get_model_path(NAMES[0], None) == str(folders[1] / NAMES[0])
    assert ModelSearch.get_model_by_name(NAMES[1]) == folders[1] / NAMES[1]
    fill(folders[0], NAMES[0])
    assert ModelSearch.get_model_path(NAMES[0], "el-gr") == str(folders[0] / NAMES[0])


def test_by_language(folders: list[Path]) -> None:
    fill(folders[1], *NAMES, "vosk-model-small-en-in-0.4", "vosk-model-eo-0.1", "notes")
    (folders[1] / "vosk-model-small-ko-0.22.zip").touch()
    languages = {"en-us": NAMES[2], "en-in": "vosk-model-small-en-in-0.4", "el-gr": NAMES[3], "el": NAMES[3]}
    for language, name in languages.items():
        assert ModelSearch.get_model_by_lang(language).name == name
    assert ModelSearch.get_model_by_lang("en").name == NAMES[2]  # a part of a language, as in Vosk
    with pytest.raises(ArgumentError, match="no model has the language 'ko'"):
        ModelSearch.get_model_by_lang("ko")
    fill(folders[0], "vosk-model-en-us-daanzu-20200905")
    assert ModelSearch.get_model_by_lang("en-us").parent == folders[0]


def test_the_folder_of_the_environment_comes_first(
    tmp_path: Path, folders: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(folders[0], NAMES[0])
    monkeypatch.setenv("VOSK_MODEL_PATH", str(tmp_path / "own"))
    assert ModelSearch.get_model_by_lang("en-us").parent == folders[0]
    (tmp_path / "own").mkdir()
    fill(tmp_path / "own", NAMES[0])
    assert ModelSearch.get_model_by_lang("en-us").parent == tmp_path / "own"


def test_a_model_is_loaded_by_its_language(folders: list[Path]) -> None:
    path = write_recognizer(folders[0] / "vosk-model-small-xx-0.1")
    model = nnet3.asr.Model(lang="xx")
    assert model.folder.path == path
    assert nnet3.asr.Model(None, path.name).folder.path == path
    assert nnet3.asr.Model(model_path=str(path), model_name="another", lang="yy").folder.path == path
    assert model.FindWord("low") == model.vosk_model_find_word("low") == 2


def test_what_is_not_there(folders: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """An error says where to put a model, and nothing is downloaded."""

    def refuse(*arguments: object, **named: object) -> None:
        raise AssertionError("nothing may be downloaded")

    monkeypatch.setattr(model_search, "urlopen", refuse)
    for arguments in ({"lang": "en-us"}, {"model_name": "vosk-model-small-en-us-0.15"}):
        with pytest.raises(ArgumentError) as caught:
            nnet3.asr.Model(**arguments)
        text = str(caught.value)
        assert "\n" not in text
        for part in (*map(str, folders), "VOSK_MODEL_PATH", "vosk-model-small-en-us-0.15", "https://alphacephei.com"):
            assert part in text
    with pytest.raises(ArgumentError, match="say which model"):
        nnet3.asr.Model()


def test_lists(folders: list[Path], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    fill(folders[0], NAMES[0])
    fill(folders[1], *NAMES, "vosk-model-small-ko-0.22", "other")
    nnet3.asr.list_models()
    assert capsys.readouterr().out.splitlines() == [
        NAMES[0],
        *sorted([*NAMES[1:], "other", "vosk-model-small-ko-0.22"]),
    ]
    nnet3.asr.list_languages()
    assert capsys.readouterr().out.splitlines() == ["el-gr", "en-us", "ko"]
    monkeypatch.setattr(model_search, "MODEL_LIST_URL", "http://127.0.0.1:9/none")
    with pytest.raises(ModelFormatError, match="cannot read the list of models"):
        nnet3.asr.list_models(remote=True)


# ---- a site with archives ----


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "site"
    folder.mkdir()

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *arguments: object) -> None: ...

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        address = f"http://127.0.0.1:{server.server_address[1]}/"
        monkeypatch.setattr(model_search, "MODEL_PRE_URL", address)
        monkeypatch.setattr(model_search, "MODEL_LIST_URL", address + "model-list.json")
        yield folder
        server.shutdown()
        thread.join()


def archive(*names: str) -> bytes:
    contents = io.BytesIO()
    with zipfile.ZipFile(contents, "w") as files:
        for name in names:
            files.writestr(name, "x")
    return contents.getvalue()


def test_a_model_is_downloaded_when_asked(site: Path, folders: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    name = "vosk-model-small-xx-0.1"
    (site / f"{name}.zip").write_bytes(archive(f"{name}/am/final.mdl"))
    (site / "model-list.json").write_text(f'[{{"name": "{name}", "lang": "xx"}}]')
    ModelSearch.download_model(folders[0] / "new" / name)
    assert (folders[0] / "new" / name / "am/final.mdl").read_text() == "x"
    assert [path.name for path in (folders[0] / "new").iterdir()] == [name]
    nnet3.asr.list_models(remote=True)
    nnet3.asr.list_languages(remote=True)
    assert capsys.readouterr().out.split() == [name, "xx"]


@pytest.mark.parametrize(
    "contents", [archive("../evil"), archive("other/file"), archive("m/a", "/m/b"), b"no archive", None]
)
def test_archives_that_are_refused(site: Path, folders: list[Path], contents: bytes | None) -> None:
    if contents is not None:
        (site / "m.zip").write_bytes(contents)
    with pytest.raises(Nnet3Error, match=r"m\.zip"):
        ModelSearch.download_model(folders[0] / "m")
    assert not list(folders[0].iterdir())
    assert not list(folders[0].parent.glob("evil"))
