"""Words as phones of a model: a lexicon with the numbers of phones, for alignment."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from nnet3.base.kaldi_io.files import map_file
from nnet3.base.kaldi_io.fst import Fst
from nnet3.base.kaldi_io.symbols import load_symbols
from nnet3.base.text import did_you_mean, words_of
from nnet3.errors import ArgumentError, Nnet3Error, check_kind
from nnet3.training.chain.graphs.lexicon import (
    OptionalSilence,
    Pronunciation,
    lexicon_fst,
    parse_lexicon,
    with_positions,
)

_SILENCES = ("SIL", "sil")
_MOST_SHOWN = 10
_WITH_PROBABILITIES = "lexiconp"

Phones = Mapping[str, int] | str | os.PathLike[str]


class Lexicon:
    """Pronunciations of words, the numbers of their phones, and the phone of silence.

    Silence may come before the first word and behind every word, with `silence_probability`. `unknown` is the word for
    words missing from the lexicon; None: a missing word is an error.
    """

    def __init__(
        self,
        pronunciations: Mapping[str, Sequence[str | Sequence[str]]] | Iterable[Pronunciation],
        phones: Phones,
        *,
        silence: str | None = "",
        silence_probability: float = 0.5,
        unknown: str | None = None,
    ):
        """`pronunciations`: one or more for each word, for instance {"hello": ["HH AH L OW"]}. `phones`: the model's
        `phones.txt`, or numbers by name; with phones like AH_B alone, words get these endings. `silence`: a phone's
        name, None for no silence, by default SIL or sil if the model has the phone.

        Raises ArgumentError for phones unknown to the model.
        """
        check_kind(pronunciations, Iterable, "pronunciations", "a dictionary from words to phones")
        entries = list(_entries(pronunciations))
        self.phones = dict(phones if isinstance(phones, Mapping) else load_symbols(phones).labels)
        if any(phone not in self.phones for each in entries for phone in each.phones):
            entries = self._in_position(entries)
        self.name_of_phone = {number: name for name, number in self.phones.items()}
        if silence == "":
            silence = next((name for name in _SILENCES if name in self.phones), None)
        self._check_phones([silence] if silence else [], "the phone of silence")
        if not 0 <= silence_probability < 1:
            raise ArgumentError(f"silence_probability must be at least 0 and below 1, got {silence_probability!r}")
        self.silence = silence
        self._optional = OptionalSilence(silence or "", silence_probability if silence else 0.0)
        self.pronunciations: dict[str, list[Pronunciation]] = {}
        for each in entries:
            self.pronunciations.setdefault(each.word, []).append(each)
        if unknown is not None and unknown not in self.pronunciations:
            raise ArgumentError(f"the word for unknown words, '{unknown}', is not in the lexicon")
        self.unknown = unknown

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        phones: Phones,
        *,
        silence: str | None = "",
        silence_probability: float = 0.5,
        unknown: str | None = None,
    ) -> Lexicon:
        """Reads a file such as `lexicon.txt`: a word and its phones a line; in files lexiconp... a probability between.

        Further arguments are those of the constructor. Raises ModelFormatError for other files, ArgumentError for
        phones unknown to the model.
        """
        try:
            text = bytes(map_file(path)).decode()
        except UnicodeDecodeError:
            raise ArgumentError(f"{path}: a lexicon is text in UTF-8, this file is not") from None
        entries = parse_lexicon(text, str(path), os.path.basename(path).startswith(_WITH_PROBABILITIES))
        try:
            return cls(entries, phones, silence=silence, silence_probability=silence_probability, unknown=unknown)
        except ArgumentError as error:
            raise ArgumentError(f"{path}: {error}") from None

    @classmethod
    def of_phones(cls, phones: Phones) -> Lexicon:
        """Returns a lexicon whose words are the phones of `phones.txt`, for transcripts of phones."""
        names = dict(phones if isinstance(phones, Mapping) else load_symbols(phones).labels)
        spoken = [name for name, number in names.items() if number > 0 and not name.startswith("#")]
        return cls([Pronunciation(name, (name,)) for name in spoken], names, silence=None)

    def spoken(self, words: Sequence[str]) -> list[str]:
        """Returns the words, `unknown` in place of missing words. Raises ArgumentError with all missing words."""
        missing = Counter(word for word in words if word not in self.pronunciations)
        if missing and self.unknown is None:
            raise ArgumentError(
                f"the lexicon lacks {shown_words(missing)}: add how they are said, or name a word that stands for "
                "unknown ones"
            )
        return [word if word in self.pronunciations else str(self.unknown) for word in words]

    def fst(self, words: Iterable[str]) -> tuple[Fst, dict[str, int]]:
        """Returns an FST from phones to some words, in any order and number, and their labels."""
        distinct = list(dict.fromkeys(words))
        labels = {word: number for number, word in enumerate(distinct, 1)}
        entries = [each for word in distinct for each in self.pronunciations[word]]
        return lexicon_fst(entries, self.phones, labels, self._optional), labels

    def split(self, phones: Sequence[int], words: Sequence[str]) -> list[tuple[int, int]]:
        """Returns the start and the end of each word in phones (n,), with optional silences between words.

        Raises Nnet3Error if the phones are not these words.
        """
        silence = self.phones.get(self.silence or "", 0)
        ways = {
            word: [tuple(self.phones[name] for name in each.phones) for each in self.pronunciations[word]]
            for word in set(words)
        }
        found: list[
            dict[int, tuple[int, int]]
        ] = []  # for each word: by where it ends, where it began and the one before
        ends = {0: (0, 0)}
        said = tuple(phones)
        for word in words:
            starts = dict.fromkeys(ends)
            after = {end + 1: end for end in ends if end < len(said) and said[end] == silence}
            begins = {**after, **{end: end for end in starts}}
            ends = {
                begin + len(way): (begin, before)
                for begin, before in begins.items()
                for way in ways[word]
                if said[begin : begin + len(way)] == way
            }
            found.append(ends)
        last = next((end for end in (len(said), len(said) - 1) if end in ends and _is_over(said, end, silence)), None)
        if last is None:
            raise Nnet3Error("the phones of the alignment are not those of the words")
        spans = []
        for ends in reversed(found):
            begin, before = ends[last]
            spans.append((begin, last))
            last = before
        return spans[::-1]

    def _in_position(self, entries: list[Pronunciation]) -> list[Pronunciation]:
        """Returns the entries with phones such as AH_B, by the position in the word, where the model has such phones.

        Raises ArgumentError for a phone unknown to the model in any form.
        """
        chosen = []
        for plain, marked in zip(entries, with_positions(entries), strict=True):
            self._check_phones((p for p in plain.phones if f"{p}_B" not in self.phones), f"the word '{plain.word}'")
            is_final = all(phone in self.phones for phone in plain.phones)
            chosen.append(plain if is_final else marked)
            self._check_phones(chosen[-1].phones, f"the word '{plain.word}'")
        return chosen

    def _check_phones(self, names: Iterable[str], what: str) -> None:
        for name in names:
            if name not in self.phones:
                hint = did_you_mean(name, self.phones)
                raise ArgumentError(
                    f"{what} has the phone '{name}', which the model lacks{'; ' + hint if hint else ''}"
                )


def shown_words(counts: Counter[str]) -> str:
    """Returns the commonest words with counts, for a message."""
    shown = ", ".join(
        f"'{word}'{f' ({times} times)' if times > 1 else ''}" for word, times in counts.most_common(_MOST_SHOWN)
    )
    return shown + (f" and {len(counts) - _MOST_SHOWN} more" if len(counts) > _MOST_SHOWN else "")


def _entries(
    pronunciations: Mapping[str, Sequence[str | Sequence[str]]] | Iterable[Pronunciation],
) -> Iterable[Pronunciation]:
    if not isinstance(pronunciations, Mapping):
        yield from pronunciations
        return
    for word, ways in pronunciations.items():
        if isinstance(ways, str):
            ways = [ways]
        for way in ways:
            phones = tuple(words_of(way) if isinstance(way, str) else way)
            if not phones:
                raise ArgumentError(f"the word '{word}' has a pronunciation without phones")
            yield Pronunciation(word, phones)


def _is_over(said: Sequence[int], end: int, silence: int) -> bool:
    return end == len(said) or said[end] == silence
