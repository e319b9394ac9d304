"""Text rewritten by FSTs over bytes, against a search that tries all paths."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from nnet3.asr import Processor
from nnet3.base.kaldi_io.fst_file import save_fst
from nnet3.errors import ArgumentError, ModelFormatError
from nnet3.kaldi_io import Fst
from tests.effort import draws

Arc = tuple[int, int, int, int, float]


def fst_of(arcs: list[Arc], final: list[float]) -> Fst:
    """Returns the FST of arcs (src, dst, input, output, cost)."""
    src, dst, ilabel, olabel, cost = zip(*arcs, strict=True)
    return Fst.from_arcs(0, np.array(final, np.float32), src, dst, ilabel, cost, olabel)


def copying(more: list[Arc]) -> Fst:
    """Returns an FST that copies bytes, at a cost of 1 each, and has further states from 1 on."""
    arcs = [(0, 0, byte, byte, 1.0) for byte in range(1, 256)] + more
    states = 1 + max(dst for _, dst, *_ in arcs)
    return fst_of(arcs, [0.0] + [np.inf] * (states - 1))


def rewriting(old: str, new: str) -> Fst:
    """Returns an FST that writes `new` for `old` and copies all else."""
    read, written = old.encode(), new.encode()
    length = max(len(read), len(written))
    read, written = read.ljust(length, b"\0"), written.ljust(length, b"\0")
    states = [0, *range(1, length), 0]
    return copying([(states[i], states[i + 1], read[i], written[i], 0.0) for i in range(length)])


def saved(folder: Path, *fsts: Fst) -> list[Path]:
    paths = [folder / f"{number}.fst" for number in range(len(fsts))]
    for path, fst in zip(paths, fsts, strict=True):
        save_fst(fst, str(path))
    return paths


def test_both_fsts_rewrite(tmp_path: Path) -> None:
    processor = Processor(*saved(tmp_path, rewriting("zehn", "<10>"), rewriting("<10> Äpfel", "10 Äpfel")))
    assert processor.process("wir: zehn Äpfel") == "wir: 10 Äpfel"
    assert processor.process("zehn") == "<10>"
    assert processor.process("") == ""


def test_what_is_not_accepted_is_empty(tmp_path: Path) -> None:
    only_a = fst_of([(0, 1, ord("a"), ord("b"), 1.0)], [np.inf, 0.0])
    processor = Processor(*saved(tmp_path, only_a, copying([])))
    assert processor.process("a") == "b"
    for other in ("", "aa", "c"):
        assert processor.process(other) == ""
    with pytest.raises(ArgumentError, match="a processor takes text, got bytes"):
        processor.process(b"a")  # type: ignore[arg-type]


def all_outputs(arcs: list[Arc], final: list[float], text: str) -> dict[str, float]:
    """Returns the least cost of each output."""
    found: dict[str, float] = {}
    stack = [(0, text, "", 0.0, 0)]
    while stack:
        state, rest, written, cost, epsilons = stack.pop()
        if not rest and final[state] < np.inf:
            found[written] = min(found.get(written, np.inf), cost + final[state])
        for src, dst, read, write, more in arcs:
            if src == state and ((read == 0 and epsilons < 3) or (rest and read == ord(rest[0]))):
                output = written + chr(write) * (write > 0)
                stack.append((dst, rest[read > 0 :], output, cost + more, epsilons + 1 if read == 0 else 0))
    return found


@settings(max_examples=draws(20))
@given(st.integers(0, 10_000), st.text("ab", min_size=1, max_size=4))
def test_the_cheapest_path_is_taken(tmp_path_factory: pytest.TempPathFactory, seed: int, text: str) -> None:
    random = np.random.default_rng(seed)
    arcs: list[Arc] = []
    for _ in range(10):
        src, dst = random.integers(0, 3, 2).tolist()
        read = random.choice([0, 97, 98])
        if read == 0 and dst <= src:
            continue  # epsilons make no cycles here
        arcs.append((src, dst, int(read), int(random.choice([0, 97, 120])), float(random.integers(1, 1000)) / 64))
    arcs.append((0, 0, 97, 97, 5.0))
    final = [0.0, float(random.integers(0, 3)), np.inf]
    path = tmp_path_factory.mktemp("fst")
    processor = Processor(*saved(path, fst_of(arcs, final), copying([])))
    outputs = all_outputs(arcs, final, text)
    least = min(outputs.values(), default=0.0)
    assert processor.process(text) in ([each for each, cost in outputs.items() if cost <= least + 1e-6] or [""])


def test_files_that_are_no_fsts_of_bytes(tmp_path: Path) -> None:
    (good,) = saved(tmp_path, copying([]))
    wide = tmp_path / "wide.fst"
    save_fst(fst_of([(0, 0, 300, 5, 0.0)], [0.0]), str(wide))
    with pytest.raises(ModelFormatError, match="the labels must be bytes, but one is 300"):
        Processor(good, wide)
    wide.write_bytes(good.read_bytes()[:100])
    for broken in (wide, tmp_path / "missing.fst"):
        with pytest.raises(ModelFormatError, match=broken.name):
            Processor(broken, good)
