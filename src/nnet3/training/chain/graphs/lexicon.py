"""Lexicons: pronunciations of words, symbols that tell equal ones apart, and FSTs from phones to words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import numpy as np

from nnet3.base.kaldi_io.fst import Fst
from nnet3.base.text import words_of
from nnet3.errors import ModelFormatError


@dataclass(frozen=True)
class Pronunciation:
    """One way to say a word. `probability` is relative to the word's most probable one."""

    word: str
    phones: tuple[str, ...]
    probability: float = 1.0


def parse_lexicon(text: str, source: str, with_probabilities: bool = False) -> list[Pronunciation]:
    """Reads lines `WORD PHONE...`, or `WORD PROBABILITY PHONE...` as in `lexiconp.txt`.

    Raises ModelFormatError, with the line, for a word without phones, a pronunciation that is there twice, and a
    probability that is none.
    """
    found: dict[tuple[str, tuple[str, ...]], Pronunciation] = {}
    for number, line in enumerate(text.split("\n"), 1):
        fields = words_of(line)
        if not fields:
            continue
        word, *phones = fields
        probability = 1.0
        if with_probabilities:
            probability = _probability(phones[0] if phones else "", source, number)
            phones = phones[1:]
        if not phones:
            raise ModelFormatError(f"the word '{word}' has no phones", source, f"line {number}")
        if (word, (*phones,)) in found:
            raise ModelFormatError(f"this pronunciation of '{word}' is there twice", source, f"line {number}")
        found[word, tuple(phones)] = Pronunciation(word, (*phones,), probability)
    if not found:
        raise ModelFormatError("there are no words in this lexicon", source)
    return list(found.values())


def _probability(text: str, source: str, line: int) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= 1:
        raise ModelFormatError(f"expected a probability above 0, at most 1, got '{text}'", source, f"line {line}")
    return value


def with_positions(lexicon: Sequence[Pronunciation]) -> list[Pronunciation]:
    """Says of each phone where in the word it stands: _B at the beginning, _I inside, _E at the end, _S alone."""

    def marked(phones: tuple[str, ...]) -> tuple[str, ...]:
        if len(phones) == 1:
            return (f"{phones[0]}_S",)
        return (f"{phones[0]}_B", *(f"{phone}_I" for phone in phones[1:-1]), f"{phones[-1]}_E")

    return [replace(each, phones=marked(each.phones)) for each in lexicon]


def with_disambiguation(lexicon: Sequence[Pronunciation]) -> tuple[list[Pronunciation], int]:
    """Adds #1, #2 ... to pronunciations shared by words or beginning other pronunciations; returns the largest number.

    For a: x, b: x, c: x y, d: z the result is a: x #1, b: x #2, c: x y, d: z and 2.
    """
    times = Counter(each.phones for each in lexicon)
    beginnings = {part for each in lexicon for part in accumulate(((p,) for p in each.phones[:-1]), tuple.__add__)}
    used = Counter[tuple[str, ...]]()
    marked = []
    for each in lexicon:
        if times[each.phones] == 1 and each.phones not in beginnings:
            marked.append(each)
            continue
        used[each.phones] += 1
        marked.append(replace(each, phones=(*each.phones, f"#{used[each.phones]}")))
    return marked, max(used.values(), default=0)


@dataclass(frozen=True)
class OptionalSilence:
    """A phone that may come before the first word and behind every word, with a probability (0: never).

    `disambiguation`: a symbol behind the silence, needed by disambiguated lexicons; "" for none.
    """

    phone: str
    probability: float = 0.5
    disambiguation: str = ""


def lexicon_fst(
    lexicon: Sequence[Pronunciation],
    phones: Mapping[str, int],
    words: Mapping[str, int],
    silence: OptionalSilence,
    loop: tuple[int, int] | None = None,
) -> Fst:
    """Returns the FST from phones to words, any number of them; a word stands on its first phone.

    State 0 is the start, state 1 is between words, state 2 is before a silence that must come. `loop` is a pair of
    labels for which state 1 has an arc to itself: #0 as phone and word. KeyError for a phone or a word without label.
    """
    with np.errstate(divide="ignore"):
        says_silence, says_none = -np.log([silence.probability, 1 - silence.probability])
    states = 3
    arcs: list[tuple[int, int, int, int, float]] = [(0, 1, 0, 0, says_none)] if says_none < np.inf else []
    if says_silence < np.inf:
        label = phones[silence.phone]
        behind = 1
        if silence.disambiguation:
            behind, states = 3, 4
            arcs.append((3, 1, phones[silence.disambiguation], 0, 0.0))
        arcs += [(0, behind, label, 0, says_silence), (2, behind, label, 0, 0.0)]
    for each in lexicon:
        inner = range(states, states + len(each.phones) - 1)
        states += len(inner)
        ways = zip((1, *inner), (phones[phone] for phone in each.phones), strict=True)
        word, cost = words[each.word], -np.log(each.probability)
        for (src, phone), dst in zip(ways, (*inner, None), strict=True):
            ends = ((dst, 0.0),) if dst is not None else ((1, says_none), (2, says_silence))
            arcs += [(src, end, phone, word, cost + more) for end, more in ends if more < np.inf]
            word, cost = 0, 0.0
    if loop is not None:
        arcs.append((1, 1, *loop, 0.0))
    src_, dst_, phone_, word_, cost_ = (np.array(column) for column in zip(*arcs, strict=True))
    final = np.full(states, np.inf)
    final[1] = 0.0
    return Fst.from_arcs(0, final, src_, dst_, phone_, cost_, word_)
