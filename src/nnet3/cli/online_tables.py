"""Decodes tables of recordings as streams of audio, speaker by speaker, to a table of lattices."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NoReturn

from nnet3.base.kaldi_io.lattice_file import lattice_writer
from nnet3.base.kaldi_io.symbols import SymbolTable, load_symbols
from nnet3.base.options.online import OnlineDecodingOptions, TcpOptions
from nnet3.base.options.recognizer import (
    DecodingOptions,
    EndpointRule,
    LatticeOptions,
    OnlineFeatureOptions,
    SilenceOptions,
    SilenceWeightingOptions,
)
from nnet3.cli.files import load_acoustic_model
from nnet3.cli.lattice_tables import read_search_graph
from nnet3.cli.messages import naming, say, say_words
from nnet3.cli.wave_tables import SpeakersRecordings
from nnet3.errors import Nnet3Error
from nnet3.speech.arrays.aliases import Integers
from nnet3.speech.asr.acoustic_stream import UNKNOWN_SPEAKER
from nnet3.speech.asr.incremental_search import IncrementalSearch, graph_of_labels
from nnet3.speech.asr.online_decoder import Hearing, OnlineDecoder
from nnet3.speech.asr.online_front import load_online_features, online_front
from nnet3.speech.asr.tcp_server import TcpServer
from nnet3.speech.language_models.graph_words import check_words
from nnet3.speech.search.endpoints import Endpointing
from nnet3.speech.search.growing_graph import GrowingGraph
from nnet3.speech.search.search_graph import SearchGraph
from nnet3.speech.search.utterance_decoder import DecodedUtterance, UtteranceDecoder, UtteranceSearch


@dataclass(frozen=True)
class OnlineSettings:
    """All options of an online2 program that say how audio is heard.

    `is_incremental`: lattices are made in pieces, while audio comes. `read` reads the graph: name of the file, and the
    column of the scores of each input label.
    """

    features: OnlineFeatureOptions
    decoding: DecodingOptions
    lattices: LatticeOptions
    weighting: SilenceWeightingOptions
    silence: SilenceOptions
    rules: dict[str, EndpointRule]
    online: OnlineDecodingOptions
    is_incremental: bool = False
    read: Callable[[str, Integers], SearchGraph | GrowingGraph] = read_search_graph

    def decoder(self, model: str, graph: str) -> OnlineDecoder:
        """Loads a model and a graph. Raises Nnet3Error for files that cannot be read, or do not fit."""
        features = load_online_features(self.features, greedy=not self.online.online)
        acoustic = load_acoustic_model(model)
        front = online_front(acoustic, model, features, self.decoding, self.weighting)
        transitions = acoustic.transition_model
        search = self.read(graph, transitions.pdf_of_label)
        utterances = UtteranceDecoder(
            *(transitions, self.decoding, self.lattices, self.decoding.acoustic_scale), allow_partial=True
        )
        endpoints = None
        if self.online.do_endpointing:
            endpoints = Endpointing(self.rules, front.seconds_per_row)
        begin: Callable[[], Hearing] = partial(UtteranceSearch, utterances, search)
        if self.is_incremental and isinstance(search, SearchGraph):
            begin = partial(IncrementalSearch, graph_of_labels(search, transitions), self.decoding)
        return OnlineDecoder(front, begin, self.online.seconds_at_once, endpoints, self.silence.silence_phones)


def decode_waves(
    model: str,
    graph: str,
    spk2utt: str,
    waves: str,
    lattices: str,
    settings: OnlineSettings,
    word_symbol_table: str | None,
) -> int:
    """Writes a lattice for each utterance of each speaker. Returns Kaldi's exit status: 1 without a recording."""
    symbols = load_symbols(word_symbol_table) if word_symbol_table else None
    if word_symbol_table and os.path.isfile(graph):
        check_words(Path(graph), Path(word_symbol_table))
    tally, recordings = _Tally(symbols), SpeakersRecordings(spk2utt, waves)
    decoder = settings.decoder(model, graph)
    writer = lattice_writer(lattices)
    try:
        for key, found in _decoded(recordings, decoder, keeps_sums=not settings.is_incremental):
            tally.add(key, found)
            writer.write(key, found.lattice)
            say(f"Decoded utterance {key}")
    except BaseException:
        with suppress(Nnet3Error):  # the first error is told
            writer.keep() if writer.count else writer.discard()
        raise
    writer.close()
    return tally.status(recordings.missing)


def serve_tcp(model: str, graph: str, words: str, settings: OnlineSettings, options: TcpOptions) -> NoReturn:
    """Hears clients of a port, one after another, until interrupted."""
    symbols = load_symbols(words)
    if os.path.isfile(graph):
        check_words(Path(graph), Path(words))
    decoder = settings.decoder(model, graph)
    decoder.computer.prepare()
    with TcpServer(decoder, symbols.names, options, decoder.front.seconds_per_row) as server:
        say(f"TcpServer: Listening on port: {server.port}")
        while True:
            server.serve_client()


def _decoded(
    recordings: SpeakersRecordings, decoder: OnlineDecoder, keeps_sums: bool
) -> Iterator[tuple[str, DecodedUtterance]]:
    """Yields the key and the decoded result of each utterance of each speaker.

    `keeps_sums`: sums for the network's normalised input go on from utterance to utterance; in Kaldi's incremental
    program they begin anew.
    """
    for utterances in recordings:
        known = UNKNOWN_SPEAKER
        for key, wave in utterances:
            with naming(f"utterance '{key}'"):
                found, known = decoder.decode(wave.rate, wave.channel(0), known)
            if not keeps_sums:
                known = known._replace(input_stats=None)
            yield key, found


class _Tally:
    """Says what each utterance says, and counts."""

    def __init__(self, symbols: SymbolTable | None):
        self._symbols, self._done, self._cost, self._rows = symbols, 0, 0.0, 0

    def add(self, key: str, found: DecodedUtterance) -> None:
        for notice in found.notices:
            say(f"warning: utterance '{key}': {notice}")
        if not found.lattice.fst.num_states:
            say(f"warning: utterance '{key}': Empty lattice.")
        elif self._symbols is not None:
            say_words(key, found.words, self._symbols)
        self._done, self._cost, self._rows = self._done + 1, self._cost + found.cost, self._rows + len(found)

    def status(self, missing: int) -> int:
        """Says how many utterances there were, and returns the exit status."""
        say(f"Decoded {self._done} utterances, {missing} with errors.")
        if self._rows:
            mean = -self._cost / self._rows
            say(f"Overall likelihood per frame was {mean:g} per frame over {self._rows} frames.")
        return int(self._done == 0)
