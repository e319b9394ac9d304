"""The verbs latgen-*: every run of Kaldi's decoders, mistakes of users, and lattices of both kinds."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import nnet3
from nnet3.asr import FeatureStream, Model
from nnet3.base.kaldi_io.lattice import Lattice, open_lattice_table
from nnet3.kaldi_io import (
    Fst,
    fst_writer,
    load_fst,
    matrix_writer,
    open_int_vector_table,
    open_matrix_table,
    save_fst,
    vector_writer,
)
from nnet3.options import LatticeOptions, SearchOptions
from nnet3.speech.search.utterance_decoder import UtteranceDecoder
from tests.asr.slow_graphs import graph_of_words
from tests.asr.slow_search import best_paths
from tests.asr.small_model import IVECTOR
from tests.asr.small_recognizer import RATE, audio, write_recognizer
from tests.asr.toy_phones import chain_model
from tests.cli.check_options import check_options
from tests.cli.run_command import Cli
from tests.kaldi_io.graph_bytes import const_bytes
from tests.lattices.words_of_one_phone import QUARTERS, WORDS_OF_ONE_PHONE
from tests.shared_data import SHARED

ROAD = SHARED / "road"
CASES = sorted(path.name for path in ROAD.glob("decode_*"))
needs_road = pytest.mark.skipif(not CASES, reason=f"the runs of Kaldi's decoders are not at {ROAD}")
_LEXICON_COSTS = {"first": 0.7, "each": 0.69}  # of L.fst


#: What lines begin with, and graphs with their lists of labels, which test_graph_making.py compares.
_GIVEN = {
    *("tree", "final.mdl", "feats.ark", "three.ark", "text.txt", "text_mixed.txt", "words.txt", "decode.cmd"),
    *("forced.cmd", "graph.cmd", "L.fst", "L_disambig.fst", "G.fst", "G.txt", "HCLG.fst", "disambig.int"),
    *("ilabels", "disambig_ilabels.int", "disambig_tid.int"),
}


class Line(NamedTuple):
    """A program of a `.cmd` file with its arguments, whose outputs go to another folder."""

    program: str
    arguments: list[str]

    def option(self, name: str, default: float) -> float:
        given = (each.partition("=") for each in self.arguments)
        return next((float(value) for key, _, value in given if key == f"--{name}"), default)

    @property
    def lattices(self) -> str:
        """The name of the lattices that it writes."""
        return next(Path(each).stem for each in self.arguments if each.endswith(".lat"))


def lines_of(case: Path, folder: Path) -> list[Line]:
    """All but the one that makes graphs; what goes through a pipe goes through a file."""
    text = (case / "decode.cmd").read_text() + (case / "forced.cmd").read_text()
    found = []
    for command in text.replace("|", "\n").splitlines():
        program, *words = shlex.split(command)
        for number, word in enumerate(words):
            kind, colon, name = word.partition(":")
            if (colon and not (case / name).exists()) or name.endswith(".txt"):
                words[number] = f"{kind}:{folder}/{name}"
        if program != "compile-train-graphs":
            found.append(Line(program, words))
    return found


def write_graphs(case: Path, folder: Path) -> None:
    """Makes `wrong.fsts` of the texts in `text_mixed.txt`, as the first line of `forced.cmd` does."""
    model = nnet3.load(case / "final.mdl")
    assert isinstance(model, nnet3.AcousticModel)
    scale = float(re.findall(r"--self-loop-scale=(\S+)", (case / "forced.cmd").read_text())[0])
    with fst_writer(f"ark:{folder}/wrong.fsts") as table:
        for key, words in open_int_vector_table(f"ark,t:{case}/text_mixed.txt"):
            fst = graph_of_words(model.transition_model, words.tolist(), **_LEXICON_COSTS, self_loop_scale=scale)
            table.write(key, fst)


def compare_lattices(theirs: Lattice, mine: Lattice, scale: float, beam: float) -> None:
    """Compares sequences of words within nearly the beam, and their costs."""
    expected, found = (best_paths(lattice, scale, beam) for lattice in (theirs, mine))
    best = min(expected.values())[0]
    assert min(found.values())[0] == pytest.approx(best, rel=1e-4, abs=2e-4)
    inside, also = (
        {words for words, cost in each.items() if cost[0] <= best + beam - 0.01} for each in (expected, found)
    )
    assert inside == also
    assert max(abs(expected[words][0] - found[words][0]) for words in inside) < 2e-3


def read_numbers(path: Path) -> dict[str, float]:
    return {key: float(value) for key, value in (line.split() for line in path.read_text().splitlines())}


NUMBER = re.compile(r"-?\d+\.?\d*(?:e-?\d+)?")
SAID = re.compile(r"(?:Log-like per frame for|[Oo]verall \S+ per frame|best cost).*")


def compare_logs(theirs: str, mine: str) -> None:
    """Compares the lines with likelihoods and costs, number by number."""
    lines = [SAID.findall(text) for text in (theirs, mine)]
    assert len(lines[0]) == len(lines[1])
    for expected, found in zip(*lines, strict=True):
        numbers = [[float(each) for each in NUMBER.findall(line)] for line in (expected, found)]
        assert numbers[1] == pytest.approx(numbers[0], rel=1e-4, abs=2e-4), (expected, found)


@needs_road
@pytest.mark.parametrize("case_name", CASES)
def test_all_lines_of_kaldis_runs(cli: Cli, case_name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    case = ROAD / case_name
    write_graphs(case, tmp_path)
    monkeypatch.chdir(case)
    logs, beams = dict[str, str](), dict[str, tuple[float, float]]()
    for line in lines_of(case, tmp_path):
        outcome = cli.good(line.program.removeprefix("nnet3-"), *line.arguments)
        if line.program.startswith("nnet3-latgen"):
            logs[line.lattices] = outcome.err
            beams[line.lattices] = line.option("acoustic-scale", 0.1), line.option("lattice-beam", 10)
        elif line.program == "lattice-best-path":
            logs["best"] = outcome.err
    assert sorted(logs) == sorted(path.stem for path in case.glob("*.log"))
    for name, said in logs.items():
        compare_logs((case / f"{name}.log").read_text(), said)
    outputs = [path for path in case.glob("*.*.txt") if path.name.partition(".")[0] in logs]
    seen = {path.name for path in outputs} | {f"{name}.log" for name in logs}
    assert {path.name for path in case.iterdir()} - seen == _GIVEN, "a file that nothing looks at"
    for path in outputs:
        own = tmp_path / path.name
        if path.name.endswith(".lat.txt"):
            theirs, mine = (dict(open_lattice_table(f"ark,t:{each}")) for each in (path, own))
            assert list(mine) == list(theirs)
            for key, lattice in theirs.items():
                compare_lattices(lattice, mine[key], *beams[path.name.partition(".")[0]])
        elif "cost" in path.name:
            assert read_numbers(own) == pytest.approx(read_numbers(path), rel=1e-4, abs=2e-3)
        else:
            assert own.read_text() == path.read_text(), path.name


@needs_road
def test_graphs_in_other_files_and_other_tables(cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A graph of type const, out of a pipe; features of a script; lattices of both kinds as text; threads."""
    case = ROAD / CASES[0]
    monkeypatch.chdir(tmp_path)
    with open_matrix_table(f"ark:{case}/three.ark") as table, matrix_writer("ark,scp:f.ark,f.scp") as writer:
        for key, features in table:
            writer.write(key, features)
    Path("const.fst").write_bytes(const_bytes(load_fst(str(case / "HCLG.fst"))))
    options = ["--beam=8", "--lattice-beam=2", "--frames-per-chunk=50", str(case / "final.mdl")]
    cli.good("latgen-faster", *options, case / "HCLG.fst", f"ark:{case}/three.ark", "ark,t:first", "ark,t:words")
    cli.good("latgen-faster-parallel", "--num-threads=3", *options, "cat const.fst |", "scp:f.scp", "ark,t:second")
    assert Path("second").read_text() == Path("first").read_text()
    for kind in ("ark", "ark,t"):
        cli.good("latgen-faster", "--determinize-lattice=false", *options, "const.fst", "scp:f.scp", f"{kind}:raw")
        raw = dict(open_lattice_table("ark:raw"))
        for key, lattice in open_lattice_table("ark:first"):
            compare_lattices(raw[key], lattice, 0.1, 2)
    for verb in ("latgen-faster", "latgen-faster-looped"):
        outcome = cli(verb, "--max-mem=400", *options, "const.fst", "scp:f.scp", "ark:out")
        assert "warning: utterance 'utt000': the lattice needs too much memory: its beam is" in outcome.err


@needs_road
def test_matrices_of_log_likelihoods_give_the_same_lattices(cli: Cli) -> None:
    case = ROAD / "decode_2"  # a model without priors
    model, graph, features = case / "final.mdl", case / "HCLG.fst", f"ark:{case}/three.ark"
    cli.good("compute", "--frame-subsampling-factor=3", "--frames-per-chunk=51", model, features, "ark:output.ark")
    search = ("--acoustic-scale=0.7", "--beam=11", "--lattice-beam=5")
    cli.good("latgen-faster-mapped", *search, model, graph, "ark:output.ark", "ark:lat", "ark,t:words", "ark,t:ids")
    chunks = ("--frame-subsampling-factor=3", "--frames-per-chunk=51")
    cli.good("latgen-faster", *search, *chunks, model, graph, features, "ark:lat2", "ark,t:words2", "ark,t:ids2")
    assert Path("words").read_text() == Path("words2").read_text()
    assert Path("ids").read_text() == Path("ids2").read_text()
    theirs = dict(open_lattice_table("ark:lat2"))
    for key, lattice in open_lattice_table("ark:lat"):
        compare_lattices(theirs[key], lattice, 0.7, 5)
    outcome = cli("latgen-faster-mapped", model, graph, features, "ark:out")
    assert outcome.status == 1
    assert "columns, the model" in outcome.err


@needs_road
def test_memory_that_suffices_for_kaldi_suffices(cli: Cli) -> None:
    """Kaldi makes these lattices whole with `--max-mem=2000000`, not with half of it."""
    case = ROAD / "decode_1"
    options = ["--lattice-beam=8", "--beam=13", "--frames-per-chunk=60", case / "final.mdl", case / "HCLG.fst"]
    for memory, suffices in ((2_000_000, True), (200_000, False)):
        outcome = cli.good("latgen-faster", f"--max-mem={memory}", *options, f"ark:{case}/three.ark", "ark:out")
        assert ("too much memory" not in outcome.err) == suffices


@needs_road
def test_mistakes(cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    case = ROAD / CASES[0]
    monkeypatch.chdir(tmp_path)
    model, graph, features = str(case / "final.mdl"), str(case / "HCLG.fst"), f"ark:{case}/three.ark"
    cli.good("am-copy", "--raw=true", model, "final.raw")
    Path("few.txt").write_text("<eps> 0\nw01 1\n")
    Path("two.ark").write_text("utt000 \n0\t1\t2\t2\n1\t1\t1\t0\n\nutt001 \n0\t0\t999\t1\n0\n\nother \n0\n\n")
    for arguments, message in (
        (
            ["final.raw", graph, features, "ark:out"],
            "final.raw: this is a raw network; an acoustic model (.mdl) is needed",
        ),
        ([model, str(case / "tree"), features, "ark:out"], "expected an FST in OpenFst's binary form"),
        ([model, "nofile.fst", features, "ark:out"], "nofile.fst"),
        ([model, graph, "ark:nofile", "ark:out"], "nofile"),
        (["--word-symbol-table=few.txt", model, graph, features, "ark:out"], "the symbol table has no label"),
        ([model, str(ROAD / CASES[0] / "G.fst"), features, "out"], "'out' is not a wspecifier"),
        ([model, "ark:two.ark", features, "ark:out"], "has input label 999, but the model has 54 transition-ids"),
        ([model, "ark:two.ark", features, "ark:out"], "utterance 'utt000' left out: no path reached a final state"),
        ([model, "ark:two.ark", features, "ark:out"], "utterance 'other' left out: no features for it"),
        ([model, "ark:two.ark", features, "ark:out"], "no utterance was computed (3 left out)"),
    ):
        outcome = cli("latgen-faster", *arguments)
        assert outcome.status == 1
        assert message in outcome.err
        assert not Path("out").exists()


@needs_road
def test_streams_are_decoded_several_at_once(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lattices are those of the program that takes one after the other; there is no other default than chunks."""
    case = ROAD / CASES[0]
    monkeypatch.chdir(case)
    lines = [line for line in lines_of(case, tmp_path) if line.program == "nnet3-latgen-faster-looped"]
    assert lines
    for line in lines:
        cli.good("latgen-faster-looped", *line.arguments)
        written = {each: each.read_bytes() for each in tmp_path.glob("*.lat")}
        chunks = [] if any("frames-per-chunk" in each for each in line.arguments) else ["--frames-per-chunk=24"]
        more = ("--num-threads=3", "--max-batch-size=8", "--compute-interval=7", *chunks)
        cli.good("latgen-faster-looped-parallel", *more, *line.arguments)
        assert {each: each.read_bytes() for each in tmp_path.glob("*.lat")} == written
    check_options("latgen-faster-looped-parallel", {"--frames-per-chunk": (20, 1), "--num-threads": (1, 1)})


def test_a_graph_is_made_in_the_search(cli: Cli) -> None:
    """By rows of scores from the network: the same as the recognizer's graph of the same files gives."""
    graph = write_recognizer(Path("model"), lookahead=True) / "graph"
    model = Model("model")
    rows = FeatureStream(model.front.features, RATE).accept(audio(2.0).astype(np.float32), last=True)
    with matrix_writer("ark:feats.ark") as features, vector_writer("ark:ivectors.ark") as ivectors:
        features.write("utt", rows)
        ivectors.write("utt", np.zeros(IVECTOR))
    files = [graph / name for name in ("HCLr.fst", "Gr.fst", "disambig_tid.int")]
    options = ("--acoustic-scale=1", "--frame-subsampling-factor=3", "--frames-per-chunk=0", "--lattice-beam=4",
               "--ivectors=ark:ivectors.ark", "--allow-partial=true")  # fmt: skip
    tables = ("ark:feats.ark", "ark:lat.ark", "ark,t:words", "ark,t:ali")
    ran = cli.good("latgen-faster-lookahead", *options, "model/am/final.mdl", *files, *tables)
    search = SearchOptions(lattice_beam=4)
    decoder = UtteranceDecoder(model.transition_model, search, LatticeOptions(), 1.0, allow_partial=True)
    acoustic, none = model.front.acoustic_model, np.zeros(IVECTOR, np.float32)
    scores = acoustic.compute(rows, none, frame_subsampling_factor=3)
    found = decoder.decode(model.graph.search.begin(), np.asarray(scores))
    assert Path("words").read_text().split()[1:] == [str(word) for word in found.words]
    assert Path("ali").read_text().split()[1:] == [str(label) for label in found.transition_ids]
    assert f"is {-found.cost / len(found):.3f}"[:8] in ran.err
    outcome = cli("latgen-faster-lookahead", *options, "model/am/final.mdl", files[1], *files[1:], *tables)
    assert (outcome.status, "expected an FST of type olabel_lookahead" in outcome.err) == (1, True)


def test_the_search_of_many_at_once_is_not_pruned_at_the_end(cli: Cli) -> None:
    """The numbers of states that nnet3-latgen-faster-batch and nnet3-latgen-faster have in Kaldi."""
    model, (quarters, _) = chain_model(), QUARTERS["two words"]
    dim = model.num_pdfs
    config = f"input-node name=input dim={dim}\noutput-node name=output input=input"
    nnet3.AcousticModel(model, nnet3.Nnet.from_config(config)).save("final.mdl")
    src, dst, ilabel, olabel, cost = zip(*WORDS_OF_ONE_PHONE, strict=True)
    save_fst(Fst.from_arcs(0, [*[np.inf] * 5, 0.75, np.inf], src, dst, ilabel, cost, olabel), "HCLG.fst")
    with matrix_writer("ark:feats.ark") as features:
        rows = np.array(quarters, np.float32) / np.float32(4)
        features.write("utt", np.pad(rows, ((0, 0), (0, dim - rows.shape[1]))))
    for program, states in (("latgen-faster-batch", 3), ("latgen-faster", 2)):
        options = "--acoustic-scale=1.0", "--beam=20", "--lattice-beam=1"
        cli.good(program, *options, "final.mdl", "HCLG.fst", "ark:feats.ark", "ark:lat.ark")
        with open_lattice_table("ark:lat.ark") as table:
            assert next(table)[1].fst.num_states == states
