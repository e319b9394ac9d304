"""From a dictionary and a language model to a decoding graph: Kaldi's own graphs, and mistakes of users."""

from __future__ import annotations

import errno
import gzip
import hashlib
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from nnet3.hmm import TransitionModel
from nnet3.kaldi_io import Fst, Reader, load_fst, save_fst
from nnet3.model.nnet import load_transition_model
from nnet3.options import SearchOptions
from nnet3.speech.search.beam_search import BeamSearch, BestPath
from nnet3.speech.search.grammar_graph import read_grammar
from nnet3.speech.search.search_graph import SearchGraph
from tests.cli.run_command import Cli
from tests.effort import third
from tests.road_case import RoadCase, needs_road, road_cases, run_good
from tests.seeds import RANDOM

pytest.importorskip("kaldifst")

DICTIONARY = {
    "lexicon.txt": "<UNK> SPN\none w ah n\nwon w ah n\nwan w ah\n",
    "silence_phones.txt": "SIL\nSPN\n",
    "nonsilence_phones.txt": "w\nah\nn\n",
    "optional_silence.txt": "SIL\n",
}
ARPA = """\\data\\
ngram 1=6
ngram 2=2
\\1-grams:
-99 <s> -0.2
-0.5 </s>
-0.6 one -0.1
-0.7 won
-0.8 wan
-0.9 two
\\2-grams:
-0.1 <s> one
-0.2 one </s>
\\end\\
"""


PREPARE = ("prepare-lang", "--position-dependent-phones=false", "dict", "<UNK>", "lang")
ARPA2FST = ("arpa2fst", "--disambig-symbol=#0", "--read-symbol-table=lang/words.txt", "lm.arpa", "lang/G.fst")


@pytest.fixture
def folders(cli: Cli) -> Cli:
    """A dictionary and a language model; a folder `lang` with a grammar, and a model without a network."""
    Path("dict").mkdir()
    for name, text in DICTIONARY.items():
        Path("dict", name).write_text(text)
    Path("lm.arpa").write_text(ARPA)
    cli.good(*PREPARE)
    outcome = cli.good(*ARPA2FST)
    assert "1 of 6 words are not in lang/words.txt" in outcome.err
    Path("model").mkdir()
    assert "a tree of 10 pdfs" in cli.good("init-tree", "lang/topo", "model/tree", "model/final.mdl").err
    return cli


@needs_road
@pytest.mark.parametrize("folder", road_cases("decode"), ids=lambda path: path.name)
def test_graphs_are_kaldis(cli: Cli, folder: Path) -> None:
    """What is heard with them costs the same. The larger one has a state less, since states part without epsilons."""
    case = RoadCase(folder)
    Path("lang/phones").mkdir(parents=True)
    for name in ("L_disambig.fst", "G.fst", "words.txt"):
        shutil.copyfile(folder / name, f"lang/{name}")
    shutil.copyfile(folder / "disambig.int", "lang/phones/disambig.int")
    case.take("tree", "final.mdl", "feats.ark", *(["ivectors.ark"] if (folder / "ivectors.ark").exists() else []))
    scale = case.line("graph.cmd", "HCLG.fst").partition("--self-loop-scale=")[2].split()[0]
    cli.good("mkgraph", f"--self-loop-scale={scale}", "lang", ".", "graph")
    ours, theirs = load_fst("graph/HCLG.fst"), load_fst(str(folder / "HCLG.fst"))
    assert abs(ours.num_states - theirs.num_states) <= 1
    assert abs(ours.num_arcs - theirs.num_arcs) <= 1
    line = case.line("decode.cmd", "plain.lat").replace("HCLG.fst", "graph/HCLG.fst")
    run_good(line.replace("words.txt", "graph/words.txt", 1))
    for name in ("plain.words.txt", "plain.ali.txt"):
        assert Path(name).read_text() == case.golden(name).read_text()
    for part in case.line("decode.cmd", "plain.accost.txt").split(" | "):
        run_good(part.replace("ark:- ", "ark:best ").replace(" ark:-", " ark:best"))
    for name in ("plain.lmcost.txt", "plain.accost.txt"):
        found, expected = (
            dict(row.split() for row in Path(each).read_text().splitlines()) for each in (name, folder / name)
        )
        assert found.keys() == expected.keys()
        for key, cost in expected.items():
            assert float(found[key]) == pytest.approx(float(cost), rel=1e-4)

    columns = np.append(-1, _model(folder).pdf(np.arange(1, _model(folder).num_transition_ids + 1)))
    for _ in range(third(20)):
        scores = (3 * RANDOM.normal(size=(int(RANDOM.integers(10, 40)), columns.max() + 1))).astype(np.float32)
        mine, kaldis = (_best_path(SearchGraph(fst, columns), scores) for fst in (ours, theirs))
        assert mine.cost == pytest.approx(kaldis.cost, rel=1e-4, abs=1e-2)
        assert mine.words.tolist() == kaldis.words.tolist()
        assert mine.transition_ids.tolist() == kaldis.transition_ids.tolist()


def _model(folder: Path) -> TransitionModel:
    return load_transition_model(folder / "final.mdl")


def _best_path(graph: SearchGraph, scores: np.ndarray) -> BestPath:
    search = BeamSearch(graph, SearchOptions(beam=200))
    search.advance(scores)
    path = search.best_path(use_final=True)
    assert path is not None
    return path


@needs_road
@pytest.mark.parametrize("folder", road_cases("decode"), ids=lambda path: path.name)
def test_labels_and_grammars_are_kaldis(cli: Cli, folder: Path) -> None:
    """The grammar is the one of its text; labels that tell words apart follow phones, and then transition-ids."""
    case = RoadCase(folder)
    grammar, lines = load_fst(str(folder / "G.fst")), [line.split() for line in case.lines("G.txt")]
    arcs = [line for line in lines if len(line) > 2]
    state = dict[str, int]()  # in the order in which lines name them, as fstcompile numbers them
    for line in lines:
        for name in line[: 2 if len(line) > 2 else 1]:
            state.setdefault(name, len(state))
    wanted = [(state[i], state[j], int(a), int(b), float((*cost, 0)[0])) for i, j, a, b, *cost in arcs]
    columns = grammar.src, grammar.dst, grammar.ilabel, grammar.olabel, grammar.cost
    found = zip(*(column.tolist() for column in columns), strict=True)
    np.testing.assert_allclose(sorted(found), sorted(wanted), rtol=1e-6)
    ends = {state[line[0]]: float((*line, 0)[1]) for line in lines if len(line) <= 2}
    assert {end: grammar.final[end] for end in np.flatnonzero(grammar.final < np.inf)} == pytest.approx(ends)
    disambiguation, label, number = (
        int(case.golden(f"{name}.int").read_text()) for name in ("disambig", "disambig_ilabels", "disambig_tid")
    )
    reader = Reader.open(case.golden("ilabels"))
    windows = [reader.int_vector().tolist() for _ in range(reader.int32())]
    assert windows[label] == [-disambiguation]
    assert sorted(each for window in windows for each in window if each > 0) == sorted(
        set(load_fst(str(folder / "L_disambig.fst")).ilabel.tolist()) - {0, disambiguation}
    )
    assert number == _model(folder).num_transition_ids + 1


@needs_road
@pytest.mark.parametrize("folder", road_cases("decode"), ids=lambda path: path.name)
def test_graphs_of_texts_are_kaldis(cli: Cli, folder: Path) -> None:
    """The lines of `forced.cmd`, with the lexicon without labels that tell words apart."""
    case = RoadCase(folder)
    case.take("tree", "final.mdl", "L.fst", "text_mixed.txt", "feats.ark")
    if (folder / "ivectors.ark").exists():
        case.take("ivectors.ark")
    for line in case.lines("forced.cmd"):
        run_good(line)
    for name in ("forced.words.txt", "partial.words.txt", "forced.ali.txt", "partial.ali.txt"):
        assert Path(name).read_text() == case.golden(name).read_text(), name


def test_a_graph_of_a_dictionary(folders: Cli) -> None:
    folders.good("mkgraph", "--self-loop-scale=1.0", "lang", "model", "graph")
    names = {str(path.relative_to("graph")) for path in Path("graph").rglob("*") if path.is_file()}
    assert {"HCLG.fst", "words.txt", "phones.txt", "num_pdfs", "phones/disambig.int"} <= names
    assert Path("graph/num_pdfs").read_text() == "10\n"
    graph = load_fst("graph/HCLG.fst")
    assert graph.ilabel.max() <= 10
    assert set(graph.olabel.tolist()) == {0, 2, 3, 4}  # all words but <UNK>, which the grammar does not have


def contents(folder: str) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("command", "folder"),
    [
        (PREPARE, "lang"),
        (("mkgraph", "lang", "model", "graph"), "graph"),
    ],
)
def test_a_folder_is_of_one_age(
    command: tuple[str, ...], folder: str, folders: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever the disk is full, the old folder is as it was, and nothing lies beside it."""
    folders.good("mkgraph", "lang", "model", "graph")
    if folder == "lang":
        Path("dict/lexicon.txt").write_text(DICTIONARY["lexicon.txt"] + "abc w ah\n")
    else:
        Path("lang/words.txt").write_text(Path("lang/words.txt").read_text() + "abc 99\n")
        folders.good(*ARPA2FST)
    old, beside = contents(folder), set(Path().iterdir())
    fsync, left, failures = os.fsync, 0, 0

    def full_after(descriptor: int) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", full_after)
    while True:
        left = 5 * failures
        outcome = folders(*command)
        if outcome.status == 0:
            break
        failures += 1
        assert "No space left on device" in outcome.err
        assert contents(folder) == old
        assert set(Path().iterdir()) == beside
    assert failures >= 3
    new = contents(folder)
    assert "abc" in new["words.txt"].decode()
    assert new.keys() == old.keys()
    assert set(Path().iterdir()) == beside


OF_KALDI = ["tmp/LG.fst", "phones/nonterm_phones_offset.int", "Ha.fst", "disambig_tid.int", "mine.txt"]


def test_files_of_others_stay_in_a_folder(folders: Cli) -> None:
    """Lists that prepare_lang.sh makes of other phones go; what mkgraph.sh makes stays, with its time."""
    folders.good("mkgraph", "lang", "model", "graph")
    for folder in ("lang", "graph"):
        for name in (*OF_KALDI, "phones/align_lexicon.int"):
            Path(folder, name).parent.mkdir(exist_ok=True)
            Path(folder, name).write_text(name)
            os.utime(Path(folder, name), (5, 5))
    grammar = Path("lang/G.fst").read_bytes()
    folders.good(*PREPARE)
    folders.good("mkgraph", "lang", "model", "graph")
    for folder in ("lang", "graph"):
        assert all(contents(folder)[name] == name.encode() for name in OF_KALDI)
        own = [name for name in OF_KALDI if folder == "lang" or not name.startswith("phones/")]  # or copied
        assert all(Path(folder, name).stat().st_mtime == 5 for name in own)
        assert not Path(folder, "phones/align_lexicon.int").exists()
    assert Path("lang/G.fst").read_bytes() == grammar


@pytest.mark.parametrize("is_ours", [True, False])
def test_a_grammar_of_other_words(is_ours: bool, folders: Cli) -> None:
    """Also one that another program made, once its folder is prepared anew."""
    mkgraph, digest = ("mkgraph", "lang", "model", "graph"), Path("lang/G.words.sha256")
    said = hashlib.sha256(Path("lang/words.txt").read_bytes()).hexdigest() + "  words.txt\n"
    assert digest.read_text() == said
    if not is_ours:
        digest.unlink()
    folders.good(*PREPARE)
    folders.good(*mkgraph)
    Path("dict/lexicon.txt").write_text("aah w ah\n" + DICTIONARY["lexicon.txt"])
    for _ in range(2):
        folders.good(*PREPARE)
        assert digest.read_text() == said
        outcome = folders(*mkgraph)
        assert outcome.status == 1
        assert "G.fst was made of other words, says G.words.sha256 beside it: make it again (nnet3 arpa" in outcome.err
    folders.good(*ARPA2FST)
    folders.good(*mkgraph)


def test_a_grammar_adds_what_begins_and_ends_sentences_to_its_words(cli: Cli) -> None:
    """The table is written in the order of its labels."""
    Path("lm.arpa").write_text(ARPA)
    Path("some.txt").write_text("<eps> 0\n#0 3\none 7\n")
    tables = ("--read-symbol-table=some.txt", "--write-symbol-table=all.txt")
    cli.good("arpa2fst", "--disambig-symbol=#0", *tables, "lm.arpa", "G.fst")
    assert Path("all.txt").read_text().split() == ["<eps>", "0", "#0", "3", "one", "7", "<s>", "8", "</s>", "9"]


def test_the_digest_of_a_grammar_lies_beside_files_alone(cli: Cli) -> None:
    Path("lm.arpa").write_text(ARPA)
    cli.good("arpa2fst", "--disambig-symbol=#0", "--write-symbol-table=words.txt", "lm.arpa", "a.fst")
    assert Path("a.words.sha256").read_text().endswith("  words.txt\n")
    cli.good("arpa2fst", "--disambig-symbol=#0", "--read-symbol-table=words.txt", "lm.arpa", "/dev/null")
    cli.good("arpa2fst", "--disambig-symbol=#0", "lm.arpa", "c.fst")
    assert [path.name for path in Path().glob("*.sha256")] == ["a.words.sha256"]


def test_pairs_of_phones(folders: Cli) -> None:
    Path("phones.txt").write_text("u 3 4 5 3 4\nv 3 4 1\n")
    options = ["--phones=ark:phones.txt", "--min-count=2"]
    assert "a tree of 14 pdfs" in folders.good("init-tree", *options, "lang/topo", "tree").err
    assert folders.good("tree-info", "tree").out.splitlines() == [
        "num-pdfs 14",
        "context-width 2",
        "central-position 1",
    ]
    assert "nnet3: ark:bad: the topology has no phone 9" in _failed(
        folders, "init-tree", "--phones=ark:bad", "lang/topo", "tree", bad="u 9\n"
    )
    assert "ark:bad: expected sequences of phones, found no phone" in _failed(
        folders, "init-tree", "--phones=ark:bad", "lang/topo", "tree", bad=""
    )


def test_of_two_outputs_both_or_none_are_written(folders: Cli) -> None:
    said = _failed(folders, "init-tree", "lang/topo", "new", "/dev/full")
    assert "/dev/full: cannot write this file: No space left on device" in said
    assert "new: two outputs are to be written here" in _failed(folders, "init-tree", "lang/topo", "new", "new")
    assert not Path("new").exists()


def test_a_grammar_and_its_words_are_written_together(cli: Cli) -> None:
    Path("lm.arpa").write_text(ARPA)
    Path("a.fst").write_text("old")
    said = _failed(cli, "arpa2fst", "--write-symbol-table=/dev/full", "lm.arpa", "a.fst")
    assert "/dev/full: cannot write this file: No space left on device" in said
    Path("a.words.sha256").mkdir()  # where the digest of the words is to be
    assert "a.words.sha256: cannot write this file: Is a directory" in _failed(
        cli, "arpa2fst", "--write-symbol-table=words.txt", "lm.arpa", "a.fst"
    )
    assert Path("a.fst").read_text() == "old"
    assert sorted(os.listdir()) == ["a.fst", "a.words.sha256", "lm.arpa", "net.config", "net.raw"]


def test_no_graph_is_made_where_none_can_be_written(folders: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    folders.good(*ARPA2FST)
    Path("graph").write_text("a file")
    monkeypatch.setattr("nnet3.cli.graph_making.make_decoding_graph", None)
    assert "graph: this is a file; a folder is to be made here" in _failed(folders, "mkgraph", "lang", "model", "graph")


def test_topologies_are_named_whose_probabilities_are_none(folders: Cli) -> None:
    topology = Path("lang/topo").read_text().replace("0.5", "1.5")
    said = _failed(folders, "init-tree", "topo", "tree", "0.trans_mdl", topo=topology)
    assert "topo: log-probability 1 is 0.405465" in said
    assert not Path("tree").exists()


def _failed(cli: Cli, *arguments: str, **files: str) -> str:
    for name, text in files.items():
        Path(name).write_text(text)
    outcome = cli(*arguments)
    assert outcome.status == 1
    return outcome.err


def test_mistakes(folders: Cli) -> None:
    mkgraph = ("mkgraph", "lang", "model", "graph")
    assert "expected a logarithm not above 0" in _failed(
        folders, "arpa2fst", "bad.arpa", "G", **{"bad.arpa": ARPA.replace("-0.8", "x")}
    )
    assert "there is no symbol '#9'" in _failed(
        folders, "arpa2fst", "--disambig-symbol=#9", "--read-symbol-table=lang/words.txt", "lm.arpa", "G"
    )
    said = _failed(folders, "arpa2fst", "--bos-symbol=none", "lm.arpa", "G")
    assert "lm.arpa: there is no word 'none', which begins sentences" in said
    folders.good("arpa2fst", "lm.arpa", "G.fst")
    Path("lm.arpa.gz").write_bytes(gzip.compress(Path("lm.arpa").read_bytes()))
    folders.good("arpa2fst", "lm.arpa.gz", "unpacked.fst")
    assert Path("unpacked.fst").read_bytes() == Path("G.fst").read_bytes()
    Path("cut.gz").write_bytes(Path("lm.arpa.gz").read_bytes()[:-9])
    assert "cut.gz: gzip cannot unpack this file" in _failed(folders, "arpa2fst", "cut.gz", "G")
    shutil.copyfile("G.fst", "lang/G.fst")
    Path("lang/words.txt").write_text("<eps> 0\n")
    assert "it has the label" in _failed(folders, *mkgraph)
    Path("lang/G.fst").unlink()
    assert "lang/G.fst" in _failed(folders, *mkgraph)
    Path("lang/phones/disambig.int").write_text("5 x\n")
    assert "disambig.int: expected whole numbers" in _failed(folders, *mkgraph)
    Path("model/tree").unlink()
    assert "model/tree" in _failed(folders, *mkgraph)
    assert not Path("graph").exists()


def test_a_grammar_is_made_of_prepared_graphs(cli: Cli) -> None:
    def nonterminal(symbol: int, phone: int) -> int:
        return 10_000_000 + 1000 * symbol + phone

    top = Fst.from_arcs(
        0, [np.inf, np.inf, np.inf, 0.0], [0, 0, 1, 2], [1, 3, 2, 3],
        [nonterminal(54, 1), 2, nonterminal(53, 1), 3], None, [0, 4, 0, 5],
    )  # fmt: skip
    name = Fst.from_arcs(0, [np.inf, np.inf, 0.5], [0, 1], [1, 2], [nonterminal(51, 1), nonterminal(52, 1)])
    for path, fst in {"top.fst": top, "name.fst": name}.items():
        save_fst(fst, path)
        cli.good("make-grammar-fst", "--nonterm-phones-offset=50", path, f"prepared.{path}")
    cli.good("make-grammar-fst", "--nonterm-phones-offset=50", "prepared.top.fst", "54", "prepared.name.fst", "g.fst")
    grammar = read_grammar(Reader.open("g.fst"))
    assert (grammar.first_symbol, list(grammar.parts)) == (50, [54])
    for made, path in ((grammar.top, "top.fst"), (grammar.parts[54], "name.fst")):
        expected = load_fst(f"prepared.{path}")
        for column in ("final", "offsets", "ilabel", "olabel", "cost", "dst"):
            assert np.array_equal(getattr(made, column), getattr(expected, column))
    failed = cli("make-grammar-fst", "--nonterm-phones-offset=50", "top.fst", "53", "name.fst", "g.fst")
    assert failed.status == 1
    assert "'53': expected the number of a nonterminal of one's own, which is at least 54" in failed.err
    assert "top.fst: " in cli("make-grammar-fst", "--nonterm-phones-offset=90", "top.fst", "out.fst").err
    assert cli("make-grammar-fst", "--nonterm-phones-offset=50", "top.fst", "54", "g.fst").status == 2
    assert cli("make-grammar-fst", "top.fst", "out.fst").status == 2


def test_words_side_by_side(cli: Cli) -> None:
    Path("one").write_text("u a b\nv c\n")
    Path("two").write_text("u b\n")
    outcome = cli.good("align-text", "ark:one", "ark:two", "ark,t:-")
    assert outcome.out == "u a <eps> ; b b \n"
    assert "'v' left out: ark:two has no text for it" in outcome.err
    other = cli.good("align-text", "--special-symbol=***", "--separator=|", "ark:one", "ark:two", "ark,t:-")
    assert other.out == "u a *** | b b \n"
    assert cli("align-text", "--special-symbol=a", "ark:one", "ark:two", "ark,t:-").status == 2


def test_word_errors(cli: Cli) -> None:
    Path("ref").write_text("u a b\nv c\nw d\n")
    Path("hyp").write_text("u a\nv c e\nx f\n")
    assert "there is no sentence 'w'" in _failed(cli, "compute-wer", "--text", "ark:ref", "ark:hyp")
    outcome = cli.good("compute-wer", "--text", "--mode=present", "ark:ref", "ark:hyp")
    assert outcome.out.splitlines() == [
        "%WER 66.67 [ 2 / 3, 1 ins, 1 del, 0 sub ] [PARTIAL]",
        "%SER 100.00 [ 2 / 2 ]",
        "Scored 2 sentences, 1 not present in hyp.",
    ]
    assert "1 sentences of ark:hyp are not in ark:ref" in outcome.err
    assert cli.good("compute-wer", "--text=true", "--mode=all", "ark:ref", "ark:hyp").out.startswith(
        "%WER 75.00 [ 3 / 4"
    )
    assert "there are no words" in _failed(cli, "compute-wer", "ark:/dev/null", "ark:/dev/null")
    Path("twice").write_text("u a\nu b\n")
    for names in (("ark:twice", "ark:ref"), ("ark:ref", "ark:twice")):
        assert "ark:twice: the key 'u' is there twice" in _failed(cli, "compute-wer", "--text", *names)
    Path("numbers").write_text("u 1 2 3\n")
    assert cli.good("compute-wer", "ark:numbers", "ark:numbers").out.startswith("%WER 0.00 [ 0 / 3")
    assert cli.good("compute-wer", "ark:ref", "ark:ref").out.startswith("%WER 0.00 [ 0 / 4")  # words without --text
