"""Language models in the ARPA format, as FSTs of words (Kaldi: arpa2fst)."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from nnet3.base.kaldi_io.fst import Fst
from nnet3.base.text import BLANKS, whole_number, words_of
from nnet3.errors import ModelFormatError

_LOG = logging.getLogger("nnet3")
BEGIN, END = "<s>", "</s>"
_LOG_10 = math.log(10)
_NEVER = -98.0  # log10 of a probability: what is below is not said, such as <s>
Ngram = tuple[str, ...]


@dataclass(frozen=True)
class ArpaModel:
    """`log10`: the logarithms of the probabilities of n-grams; `back_off`: the logarithms of back-off weights, of
    n-grams with such a weight.
    """

    log10: dict[Ngram, float]
    back_off: dict[Ngram, float]
    begin: str = BEGIN
    end: str = END

    @property
    def words(self) -> list[str]:
        """All words, in the order of the file; those of beginning and end too."""
        return [ngram[0] for ngram in self.log10 if len(ngram) == 1]


def parse_arpa(text: str, source: str, begin: str = BEGIN, end: str = END) -> ArpaModel:
    r"""Reads from `\data\` to `\end\`; `begin` and `end` stand at the ends of sentences.

    A file may have fewer n-grams than announced. Raises ModelFormatError, with the line, for more, and for what is not
    as the format says.
    """
    log10: dict[Ngram, float] = {}
    back_off: dict[Ngram, float] = {}
    counts: dict[int, int] = {}
    misplaced: list[tuple[int, str]] = []  # lines and n-grams
    order = -1  # 0 in \data\
    number = 0
    for number, line in _lines(text):
        where = source, f"line {number}"
        if line == "\\data\\":
            order = 0
        elif order < 0:
            continue
        elif line == "\\end\\":
            break
        elif line.startswith("\\"):
            order = _order(line, order, counts, *where)
        elif order == 0:
            size, count = _count(line, *where)
            counts[size] = count
        else:
            ngram, values = _ngram(line, order, *where)
            if ngram in log10:
                raise ModelFormatError(f"the n-gram '{' '.join(ngram)}' is there twice", *where)
            if begin in ngram[1:] or end in ngram[:-1]:
                misplaced.append((number, " ".join(ngram)))
            log10[ngram] = values[0]
            if len(values) > 1:
                back_off[ngram] = values[1]
    else:
        what = "\\end\\" if order >= 0 else "\\data\\"
        raise ModelFormatError(f"there is no line {what}: is this a language model in the ARPA format?", source)
    for size, count in counts.items():
        found = sum(len(ngram) == size for ngram in log10)
        if found > count:
            raise ModelFormatError(f"expected {count} {size}-grams at most, as the file says, found {found}", source)
    if misplaced:
        number, ngram_text = misplaced[0]
        _LOG.warning(
            "%s, line %d: the n-gram '%s' is left out: %s can only begin and %s only end one (%d such n-grams)",
            *(source, number, ngram_text, begin, end, len(misplaced)),
        )
    return ArpaModel(log10, back_off, begin, end)


def _lines(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.split("\n"), 1):
        if stripped := line.strip(BLANKS):
            yield number, stripped


def _order(line: str, before: int, counts: Mapping[int, int], source: str, place: str) -> int:
    if line != f"\\{before + 1}-grams:" or before + 1 not in counts:
        raise ModelFormatError(f"expected \\{before + 1}-grams: or \\end\\, got {line}", source, place)
    return before + 1


def _count(line: str, source: str, place: str) -> tuple[int, int]:
    before, _, after = line.removeprefix("ngram").partition("=")
    size, count = whole_number(before.strip(BLANKS)), whole_number(after.strip(BLANKS))
    if not line.startswith("ngram") or size is None or count is None:
        raise ModelFormatError(f"expected a line such as 'ngram 1=200', got '{line[:60]}'", source, place)
    return size, count


def _ngram(line: str, order: int, source: str, place: str) -> tuple[Ngram, list[float]]:
    """Returns an n-gram, and its probability and maybe weight of backing off as logarithms."""
    fields = words_of(line)
    try:
        if not order + 1 <= len(fields) <= order + 2:
            raise ValueError
        values = [float(fields[0]), *map(float, fields[order + 1 :])]
        if not (math.isfinite(values[-1]) and values[0] <= 0):
            raise ValueError
    except ValueError:
        words = "a word" if order == 1 else f"{order} words"
        raise ModelFormatError(
            f"expected a logarithm not above 0, {words}, and maybe one more number, got '{line}'", source, place
        ) from None
    return tuple(fields[1 : order + 1]), values


def arpa_fst(model: ArpaModel, labels: Mapping[str, int], back_off_label: int = 0) -> Fst:
    """Returns the FST of sentences: states are histories of n-grams, arcs of `back_off_label` on the input lead to
    shorter ones.

    N-grams with words that have no label are left out. Raises ModelFormatError if nothing is left that ends.
    """
    log10 = {ngram: value for ngram, value in model.log10.items() if _is_sayable(ngram, value, model, labels)}
    histories = dict.fromkeys([(), *(ngram[:-1] for ngram in log10)])
    if (model.begin,) in model.log10:
        histories[model.begin,] = None
    number = {history: state for state, history in enumerate(histories)}
    final = np.full(len(number), np.inf)
    arcs = []

    def longest(ngram: Ngram) -> tuple[int, float]:
        """Returns the state of the n-gram's longest known suffix, and the cost of backing off to it."""
        cost = 0.0
        while ngram not in number:
            cost -= model.back_off.get(ngram, 0.0)
            ngram = ngram[1:]
        return number[ngram], cost

    for ngram, value in log10.items():
        src = number[ngram[:-1]]
        if ngram[-1] == model.end:
            final[src] = -value * _LOG_10
            continue
        dst, more = longest(ngram)
        arcs.append((src, dst, labels[ngram[-1]], labels[ngram[-1]], (more - value) * _LOG_10))
    if not arcs or np.isinf(final).all():
        raise ModelFormatError("no sentence of the language model has only known words and comes to an end")
    for history, src in number.items():
        if history:
            dst, more = longest(history[1:])
            arcs.append((src, dst, back_off_label, 0, (more - model.back_off.get(history, 0.0)) * _LOG_10))
    src_, dst_, ilabel, olabel, cost = (np.array(column) for column in zip(*arcs, strict=True))
    return Fst.from_arcs(number.get((model.begin,), 0), final, src_, dst_, ilabel, cost, olabel)


def with_ends(fst: Fst, begin: int, end: int) -> Fst:
    """Returns the FST with an arc of label `begin` before each sentence, and an arc of label `end` behind."""
    ended = np.flatnonzero(fst.final < np.inf)
    final_state, start = fst.num_states + np.arange(2)
    src, dst = np.concatenate([fst.src, ended, [start]]), np.append(fst.dst, np.full(len(ended), final_state))
    ends = np.append(np.full(len(ended), end), begin)
    ilabel, olabel = np.append(fst.ilabel, ends), np.append(fst.olabel, ends)
    cost = np.concatenate([fst.cost, fst.final[ended], [0]])
    final = np.full(fst.num_states + 2, np.inf)
    final[final_state] = 0
    return Fst.from_arcs(int(start), final, src, np.append(dst, fst.start), ilabel, cost, olabel)


def _is_sayable(ngram: Ngram, log10: float, model: ArpaModel, labels: Mapping[str, int]) -> bool:
    """Returns true for an n-gram of known words; <s> stands at the beginning and </s> at the end of some."""
    if log10 <= _NEVER or ngram[-1] == model.begin:
        return False
    inner = ngram[1:] if ngram[0] == model.begin else ngram
    inner = inner[:-1] if inner and inner[-1] == model.end else inner
    return all(word in labels and word not in (model.begin, model.end) for word in inner)
