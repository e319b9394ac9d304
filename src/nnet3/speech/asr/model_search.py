"""Model directories by name or by language, in the folders where Vosk looks for them."""

from __future__ import annotations

import contextlib
import json
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from urllib.error import URLError
from urllib.request import urlopen
from zipfile import BadZipFile, ZipFile

from nnet3.errors import ArgumentError, ModelFormatError

MODEL_PRE_URL = "https://alphacephei.com/vosk/models/"
MODEL_LIST_URL = MODEL_PRE_URL + "model-list.json"
_VARIABLE = "VOSK_MODEL_PATH"
#: The folders where models are looked for, the first one first; None is left out.
MODEL_DIRS: list[str | Path | None] = [
    os.getenv(_VARIABLE),
    Path("/usr/share/vosk"),
    Path.home() / "AppData/Local/vosk",
    Path.home() / ".cache/vosk",
]
_NAME = re.compile(r"vosk-model(?P<small>-small)?-(?P<rest>.+)")
_LANGUAGE = re.compile(r"[a-z]{2,3}(-[a-z]{2})?(?![a-z])")  # at the begin of what follows in a name
_TIMEOUT = 10  # seconds


class ModelSearch:
    """The ways of Vosk's `Model` to find a directory."""

    @staticmethod
    def get_model_path(model_name: str | None, lang: str | None) -> str:
        """Returns the directory of a model with this name, else with this language. Raises ArgumentError."""
        if model_name is None and lang is None:
            raise ArgumentError("say which model: a directory, model_name=... or lang=...")
        found = ModelSearch.get_model_by_lang(lang) if model_name is None else ModelSearch.get_model_by_name(model_name)
        return str(found)

    @staticmethod
    def get_model_by_name(model_name: str | None) -> Path:
        """Returns the first directory of this name in `MODEL_DIRS`. Raises ArgumentError without one."""
        for path in _models():
            if path.name == model_name:
                return path
        raise _not_found(f"no model has the name {model_name!r}", str(model_name))

    @staticmethod
    def get_model_by_lang(lang: str | None) -> Path:
        """Returns a directory of this language, from the first folder in `MODEL_DIRS` with any.

        Names are `vosk-model-LANG-...` or `vosk-model-small-LANG-...`. A name with exactly this language comes first,
        then a small model, then a higher version. Raises ArgumentError without one.
        """
        best: dict[Path, tuple[Path, tuple[bool, bool, list[tuple[int, str]]]]] = {}
        for path in _models():
            match = _NAME.match(path.name)
            if match and match["rest"].startswith(str(lang)):
                rank = _language(path.name) == lang, bool(match["small"]), _natural(path.name)
                if path.parent not in best or rank > best[path.parent][1]:
                    best[path.parent] = path, rank
        for path, _ in best.values():
            return path
        raise _not_found(f"no model has the language {lang!r}", f"vosk-model-small-{lang}-0.15")

    @staticmethod
    def download_model(model_name: str | os.PathLike[str]) -> None:
        """Downloads the model named as this directory, and makes the directory; no other function downloads a model.

        Raises ModelFormatError if the model cannot be had, or if the archive has files outside its own folder.
        """
        target = Path(model_name)
        url = f"{MODEL_PRE_URL}{target.name}.zip"
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=target.parent, prefix=".download-") as folder:
                archive = Path(folder) / "model.zip"
                with urlopen(url, timeout=_TIMEOUT) as source, open(archive, "wb") as file:
                    while part := source.read(1 << 20):
                        file.write(part)
                with ZipFile(archive) as files:
                    if any(PurePosixPath(name).parts[:1] != (target.name,) for name in files.namelist()):
                        raise ModelFormatError(f"the archive has files outside a folder {target.name}", url)
                    files.extractall(folder)
                (Path(folder) / target.name).rename(target)
        except (URLError, OSError, BadZipFile) as error:
            raise ModelFormatError(f"cannot download this model: {error}", url) from None


def model_directory(name: str) -> str:
    """Returns the directory of a name: the name itself if it exists, else a model of this name or language, if any."""
    if os.path.exists(name) or os.sep in name:
        return name
    with contextlib.suppress(ArgumentError):
        return str(ModelSearch.get_model_by_name(name))
    with contextlib.suppress(ArgumentError):
        return str(ModelSearch.get_model_by_lang(name)) if _LANGUAGE.fullmatch(name) else name
    return name


def list_models(remote: bool = False) -> None:
    """Prints the names of the models in `MODEL_DIRS`; with `remote`, of models on Vosk's site."""
    names = [entry["name"] for entry in _offered()] if remote else [path.name for path in _models()]
    for name in dict.fromkeys(names):
        print(name)


def list_languages(remote: bool = False) -> None:
    """Prints the languages of the models in `MODEL_DIRS`; with `remote`, of models on Vosk's site."""
    found = [entry["lang"] for entry in _offered()] if remote else [_language(path.name) for path in _models()]
    for language in sorted({each for each in found if each}):
        print(language)


def _models() -> Iterator[Path]:
    """Yields the directories with names of models: folder by folder, in each by name."""
    for folder in _folders():
        if folder.is_dir():
            yield from sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))


def _folders() -> list[Path]:
    """Returns the folders to look in: the present one of the environment variable, and `MODEL_DIRS`."""
    folders = [os.getenv(_VARIABLE), *MODEL_DIRS]
    return list(dict.fromkeys(Path(folder) for folder in folders if folder))


def _language(name: str) -> str:
    """Returns the language in a model's name, for instance "en-us"; "" without a language."""
    match = _NAME.match(name)
    language = _LANGUAGE.match(match["rest"]) if match else None
    return language[0] if language else ""


def _natural(name: str) -> list[tuple[int, str]]:
    """Returns a key that sorts names by the numbers inside."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]


def _offered() -> list[dict[str, str]]:
    try:
        with urlopen(MODEL_LIST_URL, timeout=_TIMEOUT) as source:
            return list(json.load(source))
    except (URLError, OSError, ValueError) as error:
        raise ModelFormatError(f"cannot read the list of models: {error}", MODEL_LIST_URL) from None


def _not_found(what: str, example: str) -> ArgumentError:
    folders = _folders()
    return ArgumentError(
        f"{what} in {', '.join(map(str, folders))}: unpack one of {MODEL_PRE_URL} there, such as "
        f"{folders[-1] / example}, set {_VARIABLE} to a folder of models, or give a directory; nothing is downloaded "
        "unless Model.download_model is asked"
    )
