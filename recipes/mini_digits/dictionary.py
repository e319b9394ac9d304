"""The dictionary of digits, and a language model of what was said."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np

LEXICON = """\
<UNK> SPN
zero Z IH R OW
zero Z IY R OW
one W AH N
two T UW
three TH R IY
four F AO R
five F AY V
six S IH K S
seven S EH V AH N
eight EY T
nine N AY N
"""
WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
UNKNOWN, SILENCE = "<UNK>", "SIL"
_DISCOUNT = 0.5


def pronunciations() -> dict[str, list[list[str]]]:
    """Phones of each word, one list for each way to say it."""
    found: dict[str, list[list[str]]] = {}
    for line in LEXICON.splitlines():
        word, *phones = line.split()
        found.setdefault(word, []).append(phones)
    return found


def write_dictionary(folder: Path) -> None:
    """The files that prepare-lang reads."""
    phones = sorted({phone for ways in pronunciations().values() for way in ways for phone in way} - {"SPN"})
    for name, lines in {"silence_phones": [SILENCE, "SPN"], "nonsilence_phones": phones}.items():
        (folder / f"{name}.txt").write_text("".join(f"{line}\n" for line in lines))
    (folder / "lexicon.txt").write_text(LEXICON)
    (folder / "optional_silence.txt").write_text(f"{SILENCE}\n")


def phones_of_texts(texts: dict[str, list[str]], labels: dict[str, int], seed: int) -> dict[str, list[int]]:
    """Phones of transcripts, any of a word's ways, with silence now and then, for a first language model."""
    rng, ways = np.random.default_rng(seed), pronunciations()

    def phones(words: Sequence[str]) -> list[int]:
        said: list[str] = []
        for word in [None, *words]:
            if word is not None:
                said += ways[word][rng.integers(len(ways[word]))]
            said += [SILENCE] if rng.uniform() < 0.5 else []
        return [labels[phone] for phone in said]

    return {key: phones(words) for key, words in texts.items()}


def write_unigram(texts: Sequence[Sequence[str]], path: Path) -> None:
    """How often each word comes, in the ARPA format; the rivals of discriminative training need no more."""
    counts = Counter(word for text in texts for word in (*text, "</s>"))
    total = sum(counts.values())
    lines = ["-99 <s>", *(f"{np.log10(count / total):.6f} {word}" for word, count in sorted(counts.items()))]
    path.write_text("\n".join([f"\\data\\\nngram 1={len(lines)}\n", "\\1-grams:", *lines, "", "\\end\\", ""]))


def write_arpa(texts: Sequence[Sequence[str]], path: Path) -> None:
    """A bigram with absolute discounting, in the ARPA format."""
    singles = Counter(word for text in texts for word in (*text, "</s>"))
    pairs = Counter(pair for text in texts for pair in pairwise(("<s>", *text, "</s>")))
    before = Counter[str]()
    followers = Counter[str]()
    for (first, _), count in pairs.items():
        before[first] += count
        followers[first] += 1
    total = sum(singles.values())
    single = {word: count / total for word, count in singles.items()}
    left = {word: _DISCOUNT * followers[word] / before[word] for word in before}
    lines = [f"{np.log10(p):.6f} {word} {np.log10(left.get(word, 1.0)):.6f}" for word, p in sorted(single.items())]
    lines.append(f"-99 <s> {np.log10(left['<s>']):.6f}")
    doubles = [
        f"{np.log10((count - _DISCOUNT) / before[a] + left[a] * single[b]):.6f} {a} {b}"
        for (a, b), count in sorted(pairs.items())
    ]
    counts = f"\\data\\\nngram 1={len(lines)}\nngram 2={len(doubles)}\n"
    path.write_text("\n".join([counts, "\\1-grams:", *lines, "", "\\2-grams:", *doubles, "", "\\end\\", ""]))
