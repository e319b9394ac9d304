"""Kinds of Kaldi's files that the fuzzer damages: how to load one, and what must hold of what loads."""

from __future__ import annotations

import logging
import math
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nnet3.components import read_from
from nnet3.errors import ModelFormatError, NetworkError, TrainingError
from nnet3.examples import EXAMPLES, Changes, Example, ExampleReader, read_example, write_example
from nnet3.kaldi_io import Reader, Writer
from nnet3.model.nnet.load import read_model
from nnet3.training.examples.making import generator

_ENTRIES = 3  # of an archive of examples that is damaged as a whole


@dataclass(frozen=True)
class FuzzKind:
    """`load` may raise ModelFormatError alone; `use` may raise nothing for what has been loaded."""

    name: str
    contents: Callable[[Path], Iterator[bytes]]  # of the golden folder
    load: Callable[[bytes], Any]
    use: Callable[[Any], None]


def _files(*patterns: str) -> Callable[[Path], Iterator[bytes]]:
    def contents(golden: Path) -> Iterator[bytes]:
        yield from (path.read_bytes() for path in sorted({p for pattern in patterns for p in golden.glob(pattern)}))

    return contents


def _load_component(contents: bytes) -> Any:
    reader = Reader(contents, "mutant")
    component = read_from(reader)
    reader.finish()
    return component


def _written(model: Any, binary: bool = True) -> bytes:
    writer = Writer(binary)
    writer.header()
    if isinstance(model, Example):
        write_example(writer, model)
    else:
        model.write_to(writer)
    return writer.getvalue()


def _use_model(model: Any, load: Callable[[bytes], Any]) -> None:
    """What loads can be described, written and read back."""
    try:
        model.info()
        first = _written(model)
    except NetworkError as error:
        if "the context cannot be found" in str(error):
            return
        raise
    again = load(first)
    if _written(again) != first:
        assert_same_values(_written(model, binary=False), _written(again, binary=False))
    _check_text(model, load)


def _check_text(model: Any, load: Callable[[bytes], Any]) -> None:
    text = _written(model, binary=False)
    try:
        again = load(text)
    except ModelFormatError as error:
        if "a NaN is not allowed" in str(error):  # a binary file may have one
            return
        raise
    if _written(again, binary=False) != text:
        assert_same_values(text, _written(again, binary=False))


def assert_same_values(text: bytes, again: bytes) -> None:
    """Statistics are kept as sums: on the way there and back, -0 may become 0, and an infinity a NaN."""
    words, words_again = text.split(), again.split()
    assert len(words) == len(words_again), "written, read and written again it has another length"
    for word, word_again in zip(words, words_again, strict=True):
        if word != word_again:
            values = float(word), float(word_again)
            assert values[0] == values[1] or not all(map(math.isfinite, values)), f"{word!r} became {word_again!r}"


def _single_examples(golden: Path) -> Iterator[bytes]:
    """In binary and in text."""
    for path in _archives(golden):
        with ExampleReader(f"ark:{path}", EXAMPLES) as table:
            for (_, example), _ in zip(table, range(_ENTRIES), strict=False):
                yield _written(example)
                yield _written(example, binary=False)


def _beginnings_of_archives(golden: Path) -> Iterator[bytes]:
    for path in _archives(golden):
        contents = path.read_bytes()
        marks = [at for at in range(len(contents)) if contents.startswith(b" \0B<Nnet3Eg>", at)]
        yield contents[: contents.rindex(b" ", 0, marks[_ENTRIES]) + 1] if len(marks) > _ENTRIES else contents


def _archives(golden: Path) -> list[Path]:
    return sorted(path for name in ("train", "xvector") for path in (golden / name).glob("*/*.ark") if _is_egs(path))


def _is_egs(path: Path) -> bool:
    return path.name in ("egs.ark", "merged.ark")


def _load_example(contents: bytes) -> Example:
    reader = Reader(contents, "mutant")
    example = read_example(reader)
    reader.finish()
    return example


def _use_example(example: Example) -> None:
    """Written and read back, merged with itself, changed."""
    first = _written(example)
    assert _written(_load_example(first)) == first
    _check_text(example, _load_example)
    EXAMPLES.structure(example)
    EXAMPLES.size(example)
    for change in (
        lambda: EXAMPLES.merge([example, example], False),
        lambda: Changes(frame="random", left_context=1, right_context=1, frame_shift=1).apply(example, generator(0)),
    ):
        try:
            change()
        except TrainingError:  # it says what cannot be done
            continue


def _load_archive(contents: bytes) -> list[Example]:
    """What is left of a damaged archive; the reader finds its way behind every damage."""
    with tempfile.NamedTemporaryFile(suffix=".ark") as file:
        file.write(contents)
        file.flush()
        logging.getLogger("nnet3").setLevel(logging.CRITICAL)  # each damage would be warned of
        with ExampleReader(f"ark:{file.name}", EXAMPLES, on_damage="skip") as table:
            return [example for _, example in table]


def _use_archive(examples: list[Example]) -> None:
    for example in examples:
        _written(example)


KINDS = [
    FuzzKind(
        "component",
        _files("component/*/component.bin", "component/*/component.txt"),
        _load_component,
        lambda component: _use_model(component, _load_component),
    ),
    FuzzKind(
        "model",
        _files("*/*/*.raw", "*/*/model.txt", "mdl/*/*.mdl"),
        lambda contents: read_model(Reader(contents, "mutant")),
        lambda model: _use_model(model, lambda contents: read_model(Reader(contents, "mutant"))),
    ),
    FuzzKind("example", _single_examples, _load_example, _use_example),
    FuzzKind(
        "archive of examples",
        _beginnings_of_archives,
        _load_archive,
        _use_archive,
    ),
]
