"""Words and phones of tables of lattices, against Kaldi's lattices and what Vosk heard, and against toys."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from nnet3.base.kaldi_io.lattice import Lattice, open_lattice_table
from nnet3.base.kaldi_io.symbols import load_symbols
from nnet3.kaldi_io import Writer
from nnet3.speech.lattices.label_lattice import LabelLattice
from nnet3.speech.lattices.lattice_posteriors import arc_posteriors
from tests.cli.run_command import Cli
from tests.discriminative.small_supervision import toy_transitions
from tests.shared_data import SHARED

VOSK = SHARED / "rescoring" / "vosk"
#: Cases of which Kaldi aligned lattices, and what it aligned.
ALIGNED = {"plain": "clat", "carpa": "tlat", "oov": "tlat", "rnnlm": "rlat", "rnnlm_alone": "clat"}
needs_vosk = pytest.mark.skipif(not VOSK.is_dir(), reason=f"the golden data of lattices are not at {VOSK}")
GRAPH_SCALE = 0.9  # of graph costs in Vosk's aligned lattices


def _read(name: str | Path) -> Lattice:
    with open_lattice_table(f"ark:{name}") as table:
        ((_, lattice),) = table
    return lattice


def _segments(lattice: Lattice) -> dict[tuple[int, ...], float]:
    """The probability of each word with its transition-ids, summed over arcs."""
    labelled, found = LabelLattice.of(lattice), dict[tuple[int, ...], float]()
    probs, edges = np.exp(arc_posteriors(labelled).log_probs).tolist(), labelled.ids.offsets.tolist()
    ids = labelled.ids.values.tolist()
    for arc, (label, prob) in enumerate(zip(labelled.label.tolist(), probs, strict=True)):
        key = (label, *ids[edges[arc] : edges[arc + 1]])
        found[key] = found.get(key, 0.0) + prob
    return found


@needs_vosk
@pytest.mark.parametrize("name", ALIGNED)
def test_words_are_aligned_as_by_kaldi(cli: Cli, name: str) -> None:
    folder = VOSK / name
    files = (folder / "model/graph/phones/word_boundary.int", folder / "model/am/final.mdl")
    cli.good("lattice-align-words", *files, f"ark:{folder}/stage.{ALIGNED[name]}", "ark:aligned")
    ours, theirs = _read("aligned").with_costs((GRAPH_SCALE, 0.0)), _read(folder / "stage.aligned")
    assert (ours.fst.num_states, ours.fst.num_arcs) == (theirs.fst.num_states, theirs.fst.num_arcs)
    assert LabelLattice.of(ours).best_cost == pytest.approx(LabelLattice.of(theirs).best_cost, abs=1e-3)
    found, expected = _segments(ours), _segments(theirs)
    assert found.keys() == expected.keys()
    assert max(abs(found[key] - prob) for key, prob in expected.items()) < 1e-4


@needs_vosk
def test_words_have_the_times_and_confidences_that_vosk_gives(cli: Cli) -> None:
    folder = VOSK / "plain"
    options = ("--frame-shift=0.03", "--confidence-digits=6")
    cli.good("lattice-to-ctm-conf", *options, f"ark:{folder}/stage.aligned", "out.ctm")
    (answer,) = json.loads((folder / "answers.json").read_text())["words"]
    symbols = load_symbols(folder / "model/graph/words.txt")
    lines = [line.split() for line in Path("out.ctm").read_text().splitlines()]
    assert [symbols[int(line[4])] for line in lines] == [word["word"] for word in answer["result"]]
    for line, word in zip(lines, answer["result"], strict=True):
        begin, lasts, confidence = float(line[2]), float(line[3]), float(line[5])
        assert (begin, begin + lasts) == pytest.approx((word["start"], word["end"]), abs=1e-4)
        assert confidence == pytest.approx(word["conf"], abs=1e-4)


@needs_vosk
@pytest.mark.parametrize("replaces", [False, True])
def test_phones_keep_all_paths(cli: Cli, replaces: bool) -> None:
    folder = VOSK / "oov"
    model, lattice = folder / "model/am/final.mdl", f"ark:{folder}/stage.tlat"
    cli.good("lattice-align-phones", f"--replace-output-symbols={replaces}", model, lattice, "ark:phones")
    before, after = LabelLattice.of(_read(folder / "stage.tlat")), LabelLattice.of(_read("phones"))
    assert after.best_cost == pytest.approx(before.best_cost, abs=1e-3)
    assert arc_posteriors(after).total == pytest.approx(arc_posteriors(before).total, abs=1e-3)
    cli.good("lattice-1best", "ark:phones", "ark:best")
    cli.good("nbest-to-linear", "ark:best", "ark:ids", "ark,t:words")
    cli.good("lattice-best-path", lattice, "ark,t:best_words", "ark:best_ids")
    assert Path("ids").read_bytes() == Path("best_ids").read_bytes()
    phones = cli.good("ali-to-phones", model, "ark:ids", "ark,t:-").out
    assert Path("words").read_text() == (phones if replaces else Path("best_words").read_text())
    ctm = cli.good("nbest-to-ctm", "--print-silence=true", "--frame-shift=0.03", "ark:best", "-").out
    expected = cli.good("ali-to-phones", "--ctm-output=true", "--frame-shift=0.03", model, "ark:ids", "-").out
    times, others = (np.array([line.split()[2:4] for line in each.splitlines()], float) for each in (ctm, expected))
    assert np.abs(times - others).max() < 0.011


TWO = """a_
0	1	7	0,0.5,1_1
0	1	8	0,1.5,1_1
1	2	9	0,0,1_1_1
2	0,0,

b_
0	1	7	0,0,1_1_1
1	0,0,

""".replace("_\n", " \n")
SURE = 1 / (1 + np.exp(-1))


def test_words_with_the_least_risk(cli: Cli) -> None:
    Path("lat").write_text(TWO)
    tables = ("ark,t:words", "ark,t:risks", "ark,t:sausages", "ark,t:times")
    outcome = cli.good("lattice-mbr-decode", "ark:lat", *tables)
    assert "Average Bayes Risk per sentence is 0.134471 and per word, 0.0896471" in outcome.err
    assert Path("words").read_text() == "a 7 9 \nb 7 \n"
    risks = dict(line.split() for line in Path("risks").read_text().splitlines())
    assert {key: float(risk) for key, risk in risks.items()} == pytest.approx({"a": 1 - SURE, "b": 0.0}, abs=1e-6)
    first = Path("sausages").read_text().splitlines()[0].split()
    assert first[:13] == ["a", "[", "0", "1", "]", "[", "7", first[7], "8", first[9], "]", "[", "0"]
    assert float(first[7]) == pytest.approx(SURE, abs=1e-6)
    assert Path("times").read_text().splitlines()[1] == "b 0 0 ; 0 3 ; 3 3 "
    cli.good("lattice-mbr-decode", "--one-best-times=true", "ark:lat", "ark:words", "", "", "ark:times")
    assert Path("times").read_bytes().startswith(b"a \0B\4\2\0\0\0\4" + np.float32(0).tobytes())
    Path("silence").write_text("a \n0\t1\t0\t0,0,1\n1\t0,0,\n\n")
    outcome = cli.good("lattice-mbr-decode", "ark:silence", "ark:words")
    assert "Average Bayes Risk per sentence is 0 and per word, 0" in outcome.err


def test_words_are_kaldis_whatever_the_order_of_states(cli: Cli) -> None:
    """The words are those of Kaldi's lattice-mbr-decode, which numbers the states of scaled lattices anew."""
    Path("lat").write_text("a \n0\t1\t0\t0,0,1\n0\t2\t1\t0,0,1\n1\t0,0,1\n2\t3\t1\t0,0,1\n3\t0,0,\n\n")
    for scale, words in (("1", "a 1 \n"), ("0.5", "a 1 1 \n")):
        cli.good("lattice-mbr-decode", f"--acoustic-scale={scale}", "ark:lat", "ark,t:words")
        assert Path("words").read_text() == words


def test_a_lattice_without_a_path_is_left_out(cli: Cli) -> None:
    Path("lat").write_text("a \n0\t1\t7\t0,0,1\n\n" + TWO)
    outcome = cli.good("lattice-mbr-decode", "ark:lat", "ark,t:words")
    assert "lattice 'a' left out: it has no path" in outcome.err


def test_given_words_keep_their_places(cli: Cli) -> None:
    Path("lat").write_text(TWO)
    Path("words").write_text("a 8 9 4\n")
    out = cli.good("lattice-to-ctm-conf", "--decode-mbr=false", "ark:lat", "ark:words", "-")
    assert [line.split()[4] for line in out.out.splitlines()] == ["8", "9", "4"]
    assert out.out.splitlines()[0] == f"a 1 0.00 0.02 8 {1 - SURE:.2f}"
    assert out.out.splitlines()[2].endswith("4 0.00")
    assert "lattice 'b' left out: ark:words has no words for it" in out.err
    out = cli.good("lattice-to-ctm-conf", "--print-silence=true", "ark:lat", "-").out
    assert [line.split()[4] for line in out.splitlines()] == ["0", "7", "0", "9", "0", "0", "7", "0"]
    out = cli.good("lattice-to-ctm-conf", "ark:lat", "ark:words", "ark:times", "-").out
    assert [line.split()[4] for line in out.splitlines()] == ["7", "9"]


def test_lattices_of_several_paths_have_no_times(cli: Cli) -> None:
    Path("lat").write_text(TWO)
    outcome = cli.good("nbest-to-ctm", "ark:lat", "-")
    assert outcome.out == "b 1 0.00 0.03 7\n"
    assert "lattice 'a' left out: expected one path" in outcome.err
    assert cli.good("nbest-to-ctm", "--frame-shift=0.005", "ark:lat", "-").out == "b 1 0.000 0.015 7\n"


def test_what_is_broken_off_is_told(cli: Cli) -> None:
    """A search that ended in the middle of a word."""
    folder = VOSK / "oov"
    if not folder.is_dir():
        pytest.skip("no model")
    boundaries, model = folder / "model/graph/phones/word_boundary.int", folder / "model/am/final.mdl"
    cli.good("lattice-1best", f"ark:{folder}/stage.aligned", "ark,t:best")
    lines = Path("best").read_text().splitlines()
    word = next(line for line in lines if len(line.split("\t")) > 3 and line.split("\t")[2] != "0")
    ids = word.split(",")[-1]
    Path("cut").write_text(f"cut \n0\t1\t7\t0,0,{ids.split('_')[0]}\n1\t0,0,\n\n")
    outcome = cli("lattice-align-words", "--partial-word-label=99", boundaries, model, "ark:cut", "ark,t:-")
    assert (outcome.status, "lattice 'cut' is broken off" in outcome.err) == (1, True)
    assert f"0\t1\t7\t0,0,{ids.split('_')[0]}" in outcome.out
    outcome = cli("lattice-align-words", "--output-error-lats=false", boundaries, model, "ark:cut", "ark,t:-")
    assert (outcome.status, outcome.out) == (1, "")


def test_lattices_that_grow_too_much_are_left_out(cli: Cli) -> None:
    Path("wb").write_text("1 singleton\n")
    writer = Writer.of_file(binary=True)
    toy_transitions().write_to(writer)
    writer.write_to("MODEL")
    arcs = "".join(f"{state} {state + 1} 7 0.5,2,1_2\n" for state in range(1200))
    Path("lat").write_text(f"long \n{arcs}1200 0,0,\n\n")
    outcome = cli("lattice-align-words", "--max-expand=0.1", "wb", "MODEL", "ark:lat", "ark,t:-")
    assert (outcome.status, outcome.out) == (1, "")
    assert "lattice 'long' left out: aligned, it has more than 1120 states, which --max-expand allows" in outcome.err
    for more in ([], ["--max-expand=2"]):
        assert cli("lattice-align-words", *more, "wb", "MODEL", "ark:lat", "ark,t:-").out.startswith("long")


@pytest.mark.parametrize(
    "command",
    [
        "lattice-align-words wb MODEL IN ark:out",
        "lattice-align-phones MODEL IN ark:out",
        "lattice-to-phone-lattice MODEL IN ark:out",
        "lattice-arc-post MODEL IN out",
        "lattice-determinize-phone-pruned MODEL IN ark:out",
    ],
)
def test_a_lattice_of_another_model_is_named_and_left_out(cli: Cli, command: str) -> None:
    Path("wb").write_text("1 singleton\n")
    writer = Writer.of_file(binary=True)
    toy_transitions().write_to(writer)
    writer.write_to("MODEL")
    Path("lat").write_text("a \n0 1 1 0.5,2,1_99\n1 0,0,\n\n")
    outcome = cli(*command.replace("IN", "ark:lat").split())
    assert outcome.status == 1
    assert "lattice 'a' left out: a transition-id must be in 1 .. 4, got 99" in outcome.err
