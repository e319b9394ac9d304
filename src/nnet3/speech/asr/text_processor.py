"""Processor: text rewritten by two FSTs over bytes, such as "ten apples" into "10 apples"."""

from __future__ import annotations

import os

import numpy as np

from nnet3.base.kaldi_io.graph_file import load_graph
from nnet3.base.options.recognizer import SearchOptions
from nnet3.errors import ArgumentError, ModelFormatError
from nnet3.speech.search.beam_search import BeamSearch
from nnet3.speech.search.search_graph import SearchGraph

_BYTES = 256
_BEAM = 1e6  # wider than any cost
_OPTIONS = SearchOptions(beam=_BEAM, lattice_beam=_BEAM, min_active=0, prune_interval=1 << 20)


class Processor:
    """Vosk's inverse text normalization: a tagger marks text to rewrite, a verbalizer rewrites it.

    Tagger and verbalizer are FSTs over the bytes of UTF-8. Raises ModelFormatError for other files.
    """

    def __init__(self, tagger: str | os.PathLike[str], verbalizer: str | os.PathLike[str]):
        self._graphs = _load(tagger), _load(verbalizer)

    def process(self, text: str) -> str:
        """Returns the text after the best path of the tagger, then of the verbalizer; "" if either accepts no path."""
        if not isinstance(text, str):
            raise ArgumentError(f"a processor takes text, got {type(text).__name__}")
        contents = text.encode()
        for graph in self._graphs:
            contents = _rewritten(graph, contents) if contents else b""
        return contents.decode(errors="replace")


def _load(path: str | os.PathLike[str]) -> SearchGraph:
    fst = load_graph(path).fst
    for labels in (fst.ilabel, fst.olabel):
        if labels.max(initial=0) >= _BYTES:
            raise ModelFormatError(f"the labels must be bytes, but one is {labels.max()}", os.fspath(path))
    return SearchGraph(fst, np.arange(_BYTES))


def _rewritten(graph: SearchGraph, contents: bytes) -> bytes:
    search = BeamSearch(graph, _OPTIONS)
    scores = np.full((len(contents), _BYTES), -np.inf, np.float32)  # of a byte that is not there
    scores[np.arange(len(contents)), np.frombuffer(contents, np.uint8)] = 0
    search.advance(scores)
    path = search.best_path(use_final=True)
    return bytes(path.words.tolist()) if path is not None and search.can_end else b""
