"""First-pass graphs in files, since making one takes longer than reading it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np

from nnet3.asr.lookahead import FirstPass
from nnet3.errors import ModelFormatError
from nnet3.kaldi_io import Writer
from nnet3.kaldi_io.fst_const import write_const
from nnet3.kaldi_io.graph_file import load_graph
from nnet3.kaldi_io.load import load_vector

_VERSION = 2  # of what is kept


def kept_first_pass(
    folder: str | os.PathLike[str], made_of: Iterable[Path], make: Callable[[], FirstPass]
) -> FirstPass:
    """Returns the graph that `folder` keeps for these files, as they are now; makes and keeps it if there is none.

    The graph is an FST of type `const`, which OpenFst reads too. Beside it, a vector has the costs of words, of the end
    and of the start. Files that are damaged are made anew.
    """
    states = [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in made_of]
    key = hashlib.sha256(repr((_VERSION, states)).encode()).hexdigest()[:32]
    graph, costs = (Path(folder) / f"{key}.{ending}" for ending in ("fst", "costs"))
    if graph.exists() and costs.exists():
        try:
            return _read(graph, costs)
        except ModelFormatError:
            pass  # it was cut off, or another program's
    first = make()
    Path(folder).mkdir(parents=True, exist_ok=True)
    writer = Writer(binary=True)
    write_const(writer, first.fst)
    writer.write_to(graph)
    writer = Writer.of_file(binary=True)
    writer.vector(np.append(first.cost_of_word, [first.end_cost, first.start_cost]), double=True)
    writer.write_to(costs)
    return first


def _read(graph: Path, costs: Path) -> FirstPass:
    fst, vector = load_graph(graph).fst, load_vector(costs, np.float64)
    if len(vector) < int(fst.olabel.max(initial=0)) + 3:
        raise ModelFormatError("the costs of words do not belong to this graph", str(costs))
    return FirstPass(fst, vector[:-2].astype(np.float32), *vector[-2:].tolist())
