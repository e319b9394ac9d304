"""Phonetic decision trees (Kaldi's `tree` files), trees made without data, and their transition models."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numpy.typing import ArrayLike

from nnet3.base.kaldi_io.reader import Reader
from nnet3.base.kaldi_io.writer import Writer
from nnet3.errors import ModelFormatError
from nnet3.model.hmm.topology import HmmTopology
from nnet3.model.hmm.transition_model import TransitionModel

_PDF_CLASS = -1  # the key that is not a position in the window
_MOST_NODES = 5_000_000
_MOST_DEPTH = 500
_LEAST_LOG_PROB = -1e10

Window = dict[int, int]
"""The known part of a context: phone by position (0: beyond the ends), and maybe the pdf-class."""


@dataclass(frozen=True)
class Leaf:
    """An answer: a pdf, or None where the tree has none."""

    pdf: int | None


@dataclass(frozen=True)
class Branch:
    """A question about `key`: `children` by answer; for a set question (in the set, not in it)."""

    key: int
    children: tuple[Leaf | Branch, ...]
    yes: frozenset[int] | None = None  # None: the answer is the value itself

    def chosen(self, window: Window) -> tuple[Leaf | Branch, ...]:
        """Returns the child of the answer if the window knows it, else all children."""
        if self.key not in window:
            return self.children
        value = window[self.key]
        number = value if self.yes is None else int(value not in self.yes)
        return self.children[number : number + 1] if number >= 0 else ()


@dataclass(frozen=True)
class ContextDependency:
    """A tree: the pdf of a phone in the middle (`central_position`) of a window of `context_width` phones."""

    context_width: int
    central_position: int
    root: Leaf | Branch

    @property
    def num_pdfs(self) -> int:
        """The largest pdf plus one."""
        largest, waiting = -1, [self.root]
        while waiting:
            node = waiting.pop()
            if isinstance(node, Branch):
                waiting += node.children
            elif node.pdf is not None:
                largest = max(largest, node.pdf)
        return largest + 1

    def pdfs(self, window: Window, pdf_class: int) -> set[int]:
        """Returns all possible pdfs of a pdf-class in contexts known only by `window`."""
        known = {**window, _PDF_CLASS: pdf_class}
        found: set[int] = set()
        waiting = [self.root]
        while waiting:
            node = waiting.pop()
            if isinstance(node, Branch):
                waiting += node.chosen(known)
            elif node.pdf is not None:
                found.add(node.pdf)
        return found

    def pdf_of_each(self, windows: np.ndarray, pdf_class: int) -> np.ndarray:
        """Returns the pdf of a pdf-class in each window, (windows,); -1 where the tree has none.

        `windows`: (windows, context_width) phones, 0 beyond the ends.
        """
        pdfs = np.full(len(windows), -1, np.int64)
        waiting = [(self.root, np.arange(len(windows)))]
        while waiting:
            node, rows = waiting.pop()
            if isinstance(node, Leaf):
                pdfs[rows] = -1 if node.pdf is None else node.pdf
                continue
            waiting += _sent_on(node, rows, windows, pdf_class)
        return pdfs

    def pdf_pairs(self, phone: int, forward: int, self_loop: int, phones: list[int]) -> set[tuple[int, int]]:
        """Returns the pairs of pdfs that two pdf-classes of a phone have together in some context."""
        return set(self._pairs({self.central_position: phone}, forward, self_loop, phones))

    def _pairs(self, window: Window, forward: int, self_loop: int, phones: list[int]) -> Iterator[tuple[int, int]]:
        firsts, seconds = self.pdfs(window, forward), self.pdfs(window, self_loop)
        if len(firsts) <= 1 or len(seconds) <= 1 or len(window) == self.context_width:
            yield from ((first, second) for first in firsts for second in seconds)
            return
        unknown = [position for position in range(self.context_width) if position not in window]
        position = min(unknown, key=lambda p: abs(p - self.central_position))
        for phone in (0, *phones):
            yield from self._pairs({**window, position: phone}, forward, self_loop, phones)

    @classmethod
    def read(cls, reader: Reader) -> ContextDependency:
        """Reads `ContextDependency ... EndContextDependency`. Raises ModelFormatError."""
        reader.expect("ContextDependency")
        width, central = reader.int32(), reader.int32()
        if not 0 <= central < width <= 64:
            raise reader.error(f"a window of {width} phones cannot have its centre at {central}")
        budget = [_MOST_NODES]
        if reader.expect("ToPdf", "ToLength") == "ToLength":  # in old files: not needed
            _read_map(reader, budget)
            reader.expect("ToPdf")
        root = _read_map(reader, budget)
        reader.expect("EndContextDependency")
        return cls(width, central, root)

    def write_to(self, writer: Writer) -> None:
        """Writes the tree in Kaldi's form, text or binary."""
        writer.token("ContextDependency").int32(self.context_width)
        writer.int32(self.central_position)
        writer.token("ToPdf")
        _write_map(self.root, writer)
        writer.token("EndContextDependency")


def _sent_on(
    branch: Branch, rows: np.ndarray, windows: np.ndarray, pdf_class: int
) -> Iterator[tuple[Leaf | Branch, np.ndarray]]:
    """Yields the children with their rows of `windows`."""
    if branch.key == _PDF_CLASS:
        values = np.full(len(rows), pdf_class)
    elif 0 <= branch.key < windows.shape[1]:
        values = windows[rows, branch.key]
    else:
        return
    answers = values if branch.yes is None else ~np.isin(values, list(branch.yes))
    for number in np.unique(answers).tolist():
        if 0 <= number < len(branch.children):
            yield branch.children[int(number)], rows[answers == number]


def _read_map(reader: Reader, budget: list[int], depth: int = 0) -> Leaf | Branch:
    budget[0] -= 1
    if budget[0] < 0:
        raise reader.error(f"a tree of more than {_MOST_NODES} nodes is not believable")
    kind = reader.expect("NULL", "CE", "TE", "SE")
    if kind == "NULL":
        return Leaf(None)
    if kind == "CE":
        return Leaf(_pdf(reader))
    if depth == _MOST_DEPTH:
        raise reader.error(f"a tree is more than {_MOST_DEPTH} questions deep")
    key = reader.int32()
    if kind == "SE":
        yes = frozenset(reader.int_vector().tolist())
        reader.expect("{")
        children = [_read_map(reader, budget, depth + 1), _read_map(reader, budget, depth + 1)]
        reader.expect("}")
        return Branch(key, tuple(children), yes)
    children = []
    count = _unsigned(reader)
    reader.expect("(")
    for _ in range(count):
        children.append(_read_map(reader, budget, depth + 1))
    reader.expect(")")
    return Branch(key, tuple(children))


def _write_map(node: Leaf | Branch, writer: Writer) -> None:
    if isinstance(node, Leaf):
        writer.token("NULL" if node.pdf is None else "CE")
        if node.pdf is not None:
            writer.int32(node.pdf)
        return
    writer.token("TE" if node.yes is None else "SE")
    writer.int32(node.key)
    if node.yes is None:
        count = len(node.children)
        writer.raw(b"\xfc" + np.array(count, "<u4").tobytes()) if writer.binary else writer.int32(count)
    else:
        writer.int_vector(sorted(node.yes))
    opening, closing = "()" if node.yes is None else "{}"
    writer.token(opening)
    for child in node.children:
        _write_map(child, writer)
    writer.token(closing)
    writer.newline()


def _pdf(reader: Reader) -> int:
    pdf = reader.int32()
    if pdf < 0:
        raise reader.error(f"a pdf must not be negative, got {pdf}")
    return pdf


def _unsigned(reader: Reader) -> int:
    """Reads the number of children; in binary files its size byte marks an unsigned integer."""
    start = reader.position
    if reader.binary:
        reader.need(5, "the number of branches")
        if reader.data[start] != 0xFC:
            raise reader.error("expected the number of branches, an unsigned integer")
        reader.position += 5
        count = int(np.frombuffer(reader.data, "<u4", 1, start + 1)[0])
    else:
        count = reader.int32()
    if not 0 <= count <= reader.left:
        raise reader.error_at(start, f"{count} branches are more than the file can hold")
    return count


def make_transition_model(tree: ContextDependency, topology: HmmTopology) -> TransitionModel:
    """Makes transition-states for all pdfs of a tree, with the transition probabilities of the topology.

    Raises ModelFormatError if a phone of the topology has no pdf in the tree.
    """
    phones = topology.phones.tolist()
    tuples: set[tuple[int, int, int, int]] = set()
    for phone in phones:
        found: dict[tuple[int, int], set[tuple[int, int]]] = {}
        for number, state in enumerate(topology.entries[topology.entry_of_phone[phone]].states):
            classes = state.forward_class, state.self_loop_class
            if not state.is_emitting:
                continue
            if classes not in found:
                found[classes] = _pairs_of_classes(tree, phone, classes, phones, topology.is_hmm)
            tuples |= {(phone, number, *pair) for pair in found[classes]}
    ordered = np.array(sorted(tuples), np.int32)
    log_probs = [0.0]
    for phone, number in ordered[:, :2].tolist():
        state = topology.entries[topology.entry_of_phone[phone]].states[number]
        log_probs += [max(float(np.log(probability)), _LEAST_LOG_PROB) for _, probability in state.transitions]
    return TransitionModel(topology, ordered, np.array(log_probs, np.float32))


def _pairs_of_classes(
    tree: ContextDependency, phone: int, classes: tuple[int, int], phones: list[int], is_hmm: bool
) -> set[tuple[int, int]]:
    """Returns pairs of pdfs; without `is_hmm` for contexts alone, so that no leaf out of reach has a part in them."""
    forward, self_loop = classes
    if is_hmm:
        pairs = {(pdf, pdf) for pdf in tree.pdfs({tree.central_position: phone}, forward)}
    else:
        pairs = tree.pdf_pairs(phone, forward, self_loop, phones)
    if not pairs:
        raise ModelFormatError(f"the tree has no pdf for phone {phone}, pdf-classes {forward} and {self_loop}")
    return pairs


def monophone_tree(topology: HmmTopology) -> ContextDependency:
    """Returns the tree with a pdf for every pdf-class of every phone, in order: the tree of Kaldi's gmm-init-mono."""
    pdf = 0
    children: list[Leaf | Branch] = []
    for phone in range(len(topology.entry_of_phone)):
        classes = _num_classes(topology, phone)
        leaves = tuple(Leaf(pdf + each) for each in range(classes))
        children.append(Branch(_PDF_CLASS, leaves) if leaves else Leaf(None))
        pdf += classes
    return ContextDependency(1, 0, Branch(0, tuple(children)))


def left_biphone_tree(topology: HmmTopology, counts: ArrayLike, min_count: int) -> ContextDependency:
    """Returns the tree with own pdfs for pairs of phones seen at least `min_count` times.

    `counts`: (phones + 1, phones + 1), how often a phone, the column, comes behind another phone, the row; row 0 is the
    beginning. Behind all other phones a phone has common pdfs.
    """
    table = np.asarray(counts)
    size = len(topology.entry_of_phone)
    if table.shape != (size, size):
        raise ModelFormatError(f"counts of pairs of phones must be {size} by {size} for this topology")
    pdf = 0
    children: list[Leaf | Branch] = []
    for phone in range(size):
        classes = _num_classes(topology, phone)
        if not classes:
            children.append(Leaf(None))
            continue
        own = table[:, phone] >= min_count
        group = np.where(own, np.cumsum(own), 0)  # 0: the pdfs that are shared
        first = pdf + classes * (group - int(own.all()))  # without that group where all have their own
        pdf = int(first.max()) + classes
        behind = (tuple(Leaf(each + of_class) for each in first.tolist()) for of_class in range(classes))
        children.append(Branch(_PDF_CLASS, tuple(Branch(0, leaves) for leaves in behind)))
    return ContextDependency(2, 1, Branch(1, tuple(children)))


def count_pairs(sequences: Iterable[ArrayLike], topology: HmmTopology) -> npt.NDArray[np.int64]:
    """Counts how often phones come behind others, for `left_biphone_tree`, in sequences of phones.

    Raises ModelFormatError for a phone that the topology does not have.
    """
    size = len(topology.entry_of_phone)
    counts = np.zeros((size, size), np.int64)
    for sequence in sequences:
        phones = np.asarray(sequence, np.int64)
        unknown = phones[~np.isin(phones, topology.phones)]
        if len(unknown):
            raise ModelFormatError(f"the topology has no phone {unknown[0]}")
        np.add.at(counts, (np.append(0, phones[:-1]), phones), 1)
    return counts


def _num_classes(topology: HmmTopology, phone: int) -> int:
    entry = int(topology.entry_of_phone[phone])
    if entry < 0:
        return 0
    return 1 + max(max(state.forward_class, state.self_loop_class) for state in topology.entries[entry].states)
