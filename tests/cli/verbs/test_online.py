"""Verbs of audio as it comes: options with prefixes, what is refused, and a client of the port."""

from __future__ import annotations

import socket
import threading
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from nnet3.cli.verb import find_verb
from nnet3.kaldi_io import load_fst, vector_writer
from nnet3.speech.asr.tcp_server import TcpServer
from nnet3.speech.features.wave_table import WaveData, wave_writer
from nnet3.speech.search.grammar_graph import Grammar
from tests.asr.grammar_bytes import grammar_bytes
from tests.asr.small_model import IVECTOR
from tests.asr.small_recognizer import RATE, audio, write_recognizer
from tests.cli.run_command import Cli
from tests.patience import PATIENCE

EXTRACTOR = """
--splice-config=ivector/splice.conf
--lda-matrix=ivector/final.mat
--global-cmvn-stats=ivector/global_cmvn.stats
--diag-ubm=ivector/final.dubm
--ivector-extractor=ivector/final.ie
"""
OPTIONS = (
    *("--mfcc-config=conf/mfcc.conf", "--ivector-extraction-config=ivector.conf", "--endpoint.silence-phones=1"),
    *("--acoustic-scale=1", "--frame-subsampling-factor=3", "--frames-per-chunk=6"),
)
WORDS = "--word-symbol-table=graph/words.txt"
MODEL = ("am/final.mdl", "graph/HCLG.fst")
SOUND = audio(1.2)


@pytest.fixture
def folder(cli: Cli) -> Cli:
    """A recognizer's files in the current folder, and a table of one recording."""
    write_recognizer(Path("model"))
    for name in ("am", "conf", "graph", "ivector"):
        Path("model", name).rename(name)
    Path("ivector.conf").write_text(EXTRACTOR)
    Path("spk2utt").write_text("a one\n")
    with wave_writer("ark,scp:wav.ark,wav.scp") as writer:
        writer.write("one", WaveData(RATE, SOUND[:, np.newaxis]))
    return cli


def test_rules_of_endpoints_have_a_prefix_and_their_own_defaults() -> None:
    for name in ("online2-wav-nnet3-latgen-faster", "online2-tcp-nnet3-decode-faster"):
        defaults = {opt: param.default for param in find_verb(name).params for opt in param.opts}
        silence = [defaults[f"--endpoint.rule{number}.min-trailing-silence"] for number in range(1, 6)]
        assert silence == [5.0, 0.5, 1.0, 2.0, 0.0]
        assert defaults["--endpoint.rule2.max-relative-cost"] == 2.0
        assert defaults["--endpoint.rule5.min-utterance-length"] == 20.0
        assert defaults["--ivector-silence-weighting.silence-weight"] == 1.0
        assert (defaults["--chunk-length"], defaults["--acoustic-scale"]) == (0.18, 0.1)


def test_recordings_are_decoded(folder: Cli) -> None:
    tables = ("ark:spk2utt", "scp:wav.scp", "ark:lat.ark")
    more = (WORDS, "--online=false", "--do-endpointing", "--num-threads-startup=2", "--plp-config=plp.conf")
    ran = folder.good("online2-wav-nnet3-latgen-faster", *OPTIONS, *more, *MODEL, *tables)
    assert "Decoded utterance one" in ran.err
    assert "--plp-config has no effect with --feature-type=mfcc" in ran.err
    assert any(set(line.split()[1:]) <= {"high", "low"} for line in ran.err.splitlines() if line.startswith("one "))
    refused = folder("online2-wav-nnet3-latgen-faster", *OPTIONS, "--determinize-lattice=false", *MODEL, *tables)
    assert (refused.status, "always determinized" in refused.err) == (2, True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--do-endpointing", "--endpoint.silence-phones="), "give --endpoint.silence-phones"),
        (("--ivector-extraction-config=",), "give --ivector-extraction-config"),
        (("--feature-type=plp", "--plp-config=none.conf"), "none.conf: cannot read"),
        (("--add-pitch=true",), "has dimension 6, but the features have 9"),
        (("--cmvn-config=a",), "--cmvn-config needs --global-cmvn-stats"),
        (("--mfcc-config=none.conf",), "none.conf: cannot read"),
    ],
)
def test_what_is_refused_by_status_255(folder: Cli, options: tuple[str, ...], message: str) -> None:
    tables = ("ark:spk2utt", "scp:wav.scp", "ark:lat.ark")
    ran = folder("online2-wav-nnet3-latgen-faster", *OPTIONS, *options, *MODEL, *tables)
    assert (ran.status, message in ran.err) == (255, True), ran.err
    assert not Path("lat.ark").exists()


def test_a_grammar_without_calls_is_its_top_graph(folder: Cli) -> None:
    """Of recordings and of features."""
    Path("grammar.fst").write_bytes(grammar_bytes(Grammar(50, load_fst("graph/HCLG.fst"), {})))
    tables = ("ark:spk2utt", "scp:wav.scp", "ark:lat.ark")
    written = []
    for program, graph in (("faster", MODEL[1]), ("grammar", "grammar.fst")):
        folder.good(f"online2-wav-nnet3-latgen-{program}", *OPTIONS, MODEL[0], graph, *tables)
        written.append(Path("lat.ark").read_bytes())
    folder.good("online2-wav-dump-features", OPTIONS[0], "ark:spk2utt", "scp:wav.scp", "ark:feats.ark")
    with vector_writer("ark:ivectors.ark") as writer:
        writer.write("one", np.zeros(IVECTOR))
    options = ("--acoustic-scale=1", "--frame-subsampling-factor=3", "--ivectors=ark:ivectors.ark", "--allow-partial")
    for program, graph in (("latgen-faster", MODEL[1]), ("latgen-grammar", "grammar.fst")):
        folder.good(program, *options, MODEL[0], graph, "ark:feats.ark", "ark:lat.ark")
        written.append(Path("lat.ark").read_bytes())
    assert (written[0], written[2]) == (written[1], written[3])
    refused = folder("latgen-grammar", *options, *MODEL, "ark:feats.ark", "ark:lat.ark")
    assert (refused.status, "expected a grammar in Kaldi's binary form" in refused.err) == (1, True)


def test_what_was_decoded_before_an_error_is_kept(folder: Cli) -> None:
    Path("spk2utt").write_text("a one bad\n")
    Path("wav.scp").write_text(f"{Path('wav.scp').read_text()}bad spk2utt\n")
    tables = ("ark:spk2utt", "scp:wav.scp", "ark:lat.ark")
    ran = folder("online2-wav-nnet3-latgen-faster", *OPTIONS, *MODEL, *tables)
    assert (ran.status, "spk2utt: byte 0: expected a WAV file" in ran.err) == (255, True), ran.err
    assert Path("lat.ark").read_bytes().startswith(b"one ")
    ran = folder.good("online2-wav-nnet3-latgen-faster", *OPTIONS, *MODEL, tables[0], "p,scp:wav.scp", tables[2])
    assert "Decoded 1 utterances, 1 with errors." in ran.err


def test_an_error_before_the_first_lattice_names_the_utterance_and_leaves_no_file(folder: Cli) -> None:
    with wave_writer("ark,scp:wav.ark,wav.scp") as writer:
        writer.write("one", WaveData(RATE, SOUND[:8, np.newaxis]))
    ran = folder("online2-wav-nnet3-latgen-faster", *OPTIONS, *MODEL, "ark:spk2utt", "scp:wav.scp", "ark:lat.ark")
    assert (ran.status, "utterance 'one': 0.001 s of audio are too short" in ran.err) == (255, True), ran.err
    assert not Path("lat.ark").exists()


def test_a_client_of_the_port_is_heard(folder: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = list[bytes]()

    def ask(port: int) -> None:
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as client:
            client.sendall(SOUND.tobytes())
            client.shutdown(socket.SHUT_WR)
            answers.append(b"".join(iter(partial(client.recv, 4096), b"")))

    serve = TcpServer.serve_client

    def serve_one(server: TcpServer) -> None:
        thread = threading.Thread(target=ask, args=(server.port,))
        thread.start()
        serve(server)
        thread.join(PATIENCE)
        raise KeyboardInterrupt

    monkeypatch.setattr(TcpServer, "serve_client", serve_one)
    ran = folder("online2-tcp-nnet3-decode-faster", *OPTIONS, "--samp-freq=8000", "--port-num=0", "--produce-time=true",
                 *MODEL, "graph/words.txt")  # fmt: skip
    assert (ran.status, "TcpServer: Listening on port: " in ran.err) == (130, True)
    assert answers[0].startswith(b"0.00 ")
    assert answers[0].endswith(b"\n")
