"""What graphs and supervision are made from, for the fuzzer to damage: FSTs, lattices of phones, trees."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np

from nnet3.base.kaldi_io.lattice import Lattice, open_lattice_table, read_lattice
from nnet3.errors import ModelFormatError, TrainingError
from nnet3.kaldi_io import Fst, Reader, Writer, open_fst_table, read_fst, write_acceptor, write_fst
from nnet3.model.hmm.transition_model import TransitionModel
from nnet3.model.hmm.tree import ContextDependency
from nnet3.options import SupervisingOptions
from nnet3.training.chain.graphs.chunks import FrameCutter, shortest_path, supervision_of_graph, without_times
from nnet3.training.chain.graphs.denominator_fst import make_denominator_fst
from nnet3.training.chain.graphs.normalization import NormalizationWeights
from nnet3.training.chain.graphs.phone_hmms import PhoneHmms
from nnet3.training.chain.graphs.supervising import supervise
from nnet3.training.chain.graphs.timed_phones import phones_of_durations, phones_of_lattice
from tools.fuzz_kinds import FuzzKind

_ENTRIES = 3  # of each table
_MOST_ARCS = 3000  # of a graph that is used as more than a file
_EXAMPLE = Fst.from_arcs(0, [np.inf] * 4 + [0], range(4), range(1, 5), [1, 2, 3, 2])
_golden: list[Path] = []


def _graphs(golden: Path) -> Iterator[bytes]:
    _golden[:] = [golden]
    for path in sorted(golden.glob("chain/*/*.fst")):
        yield path.read_bytes()
    for path in sorted(golden.glob("chain/*/*.fst.txt")):
        yield b"\n" + path.read_bytes() + b"\n"
    for path in sorted(golden.glob("chain/*/graphs.ark")):
        with open_fst_table(f"ark:{path}") as table:
            yield from (_written(fst) for (_, fst), _ in zip(table, range(_ENTRIES), strict=False))


def _written(fst: Fst, binary: bool = True) -> bytes:
    writer = Writer(binary)
    write_fst(writer, fst)
    return writer.getvalue()


def _load_graph(contents: bytes) -> Fst:
    reader = Reader(contents, "mutant", binary=False)
    fst = read_fst(reader)
    reader.finish()
    return fst


@cache
def _hmms(name: str) -> PhoneHmms:
    folder = _golden[0] / "chain" / name
    model = TransitionModel.read(Reader.open(folder / "0.trans_mdl"))
    return PhoneHmms(ContextDependency.read(Reader.open(folder / "tree")), model)


def _use_graph(fst: Fst) -> None:
    """It is written, read back, and taken for each of the graphs that it could be."""
    assert _written(_load_graph(_written(fst))) == _written(fst)
    _load_graph(_written(fst, binary=False))
    if fst.is_acceptor:
        writer = Writer(binary=True)
        write_acceptor(writer, fst)
        assert _load_graph(writer.getvalue()).num_arcs == fst.num_arcs
    if fst.num_arcs > _MOST_ARCS:
        return
    hmms = _hmms("mono")
    for use in (
        lambda: make_denominator_fst(hmms.tree, hmms.model, fst),
        lambda: NormalizationWeights(fst).weighted(_EXAMPLE),
        lambda: NormalizationWeights(_EXAMPLE).weighted(fst),
        lambda: NormalizationWeights(fst, 0.5).weighted_end_to_end(_EXAMPLE),
        lambda: shortest_path(supervision_of_graph(fst, hmms.transitions.pdf_of_id)),
        lambda: FrameCutter(fst).cut(1, 2),
        lambda: without_times(FrameCutter(fst).cut(0, 5), hmms.transitions),
    ):
        try:
            use()
        except (ModelFormatError, TrainingError):  # it says what cannot be done
            continue


def _lattices(golden: Path) -> Iterator[bytes]:
    _golden[:] = [golden]
    for path in sorted(golden.glob("chain/*/phone_lat.ark")):
        contents = path.read_bytes()
        places = [at for at in range(len(contents)) if contents.startswith(b"\xd6\xfd\xb2\x7e", at)]
        for begin, end in pairwise(places[: _ENTRIES + 1]):
            yield contents[begin : contents.rindex(b"utt", begin, end)]
        with open_lattice_table(f"ark:{path}") as table:
            yield from (_as_text(lattice) for (_, lattice), _ in zip(table, range(_ENTRIES), strict=False))


def _as_text(lattice: Lattice) -> bytes:
    fst, ids = lattice.fst, lattice.transition_ids
    strings = np.split(ids.values, ids.offsets[1:-1])
    arcs = [
        f"{fst.src[k]} {fst.dst[k]} {fst.ilabel[k]} {fst.cost[k]:g},{lattice.acoustic_cost[k]:g},"
        + "_".join(map(str, strings[k].tolist()))
        for k in range(fst.num_arcs)
    ]
    ends = [f"{state} {fst.final[state]:g},0," for state in np.flatnonzero(fst.final < np.inf)]
    return ("\n" + "\n".join([*arcs, *ends]) + "\n\n").encode()


def _load_lattice(contents: bytes) -> Lattice:
    reader = Reader(contents, "mutant", binary=False)
    lattice = read_lattice(reader)
    reader.finish()
    return lattice


def _use_lattice(lattice: Lattice) -> None:
    for scale in (0.0, 0.5):
        try:
            supervise(phones_of_lattice(lattice, scale), _hmms("lattice"), SupervisingOptions())
        except (ModelFormatError, TrainingError):  # it says what cannot be done
            continue


def _trees(golden: Path) -> Iterator[bytes]:
    _golden[:] = [golden]
    for path in sorted(golden.glob("chain/*/tree")):
        yield path.read_bytes()


def _use_tree(tree: ContextDependency) -> None:
    phones = phones_of_durations([[1, 4], [2, 3], [3, 5], [1, 2]])
    try:
        supervise(phones, PhoneHmms(tree, _hmms("biphone").model), SupervisingOptions())
    except (ModelFormatError, TrainingError):  # it says what cannot be done
        return


GRAPH_KINDS = [
    FuzzKind("graph", _graphs, _load_graph, _use_graph),
    FuzzKind("lattice", _lattices, _load_lattice, _use_lattice),
    FuzzKind("tree", _trees, lambda contents: ContextDependency.read(Reader(contents, "mutant")), _use_tree),
]
