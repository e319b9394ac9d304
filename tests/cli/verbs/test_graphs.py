"""arpa2fst: labels, symbols, ends of sentences and the order of arcs; arpa-to-const-arpa."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from nnet3.kaldi_io import load_fst
from tests.asr.golden_const_arpa import FOLDER, needs_rescoring
from tests.cli.run_command import Cli, Shell

kaldifst = pytest.importorskip("kaldifst")

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
WORDS = "<eps> 0\n<UNK> 1\none 2\nwan 3\nwon 4\n#0 5\n<s> 6\n</s> 7\n"


@pytest.fixture
def arpa(cli: Cli) -> Cli:
    Path("lm.arpa").write_text(ARPA)
    Path("words.txt").write_text(WORDS)
    return cli


def test_labels_of_a_model_alone(arpa: Cli) -> None:
    arpa.good("arpa2fst", "--disambig-symbol=#0", "--write-symbol-table=table", "lm.arpa", "G.fst")
    assert Path("table").read_text() == "<eps>\t0\n#0\t1\n<s>\t2\n</s>\t3\none\t4\nwon\t5\nwan\t6\ntwo\t7\n"
    assert set(load_fst("G.fst").ilabel.tolist()) == {1, 4, 5, 6, 7}


def test_other_names_of_the_ends_of_sentences(arpa: Cli) -> None:
    Path("other.arpa").write_text(ARPA.replace("</s>", "END").replace("<s>", "BEGIN"))
    arpa.good("arpa2fst", "--write-symbol-table=own", "lm.arpa", "G.fst")
    ends = ["--bos-symbol=BEGIN", "--eos-symbol=END"]
    arpa.good("arpa2fst", *ends, "--ilabel-sort=true", "--write-symbol-table=theirs", "other.arpa", "other.fst")
    assert Path("other.fst").read_bytes() == Path("G.fst").read_bytes()


def _symbols_of(name: str) -> tuple[str, str]:
    """The tables inside an FST, as OpenFst reads them."""
    fst = kaldifst.StdVectorFst.read(name)
    assert fst is not None
    return str(fst.input_symbols), str(fst.output_symbols)


def test_symbols_inside_an_fst(arpa: Cli, shell: Shell) -> None:
    """Where no table has them, or where they are asked for: they would be lost otherwise."""
    table = "--read-symbol-table=words.txt"
    arpa.good("arpa2fst", table, "--disambig-symbol=#0", "lm.arpa", "bare.fst")
    arpa.good("arpa2fst", table, "--disambig-symbol=#0", "--keep-symbols", "lm.arpa", "kept.fst")
    arpa.good("arpa2fst", "--disambig-symbol=#0", "lm.arpa", "own.fst")
    words = {line.split()[0] for line in Path("words.txt").read_text().splitlines()}
    assert _symbols_of("bare.fst") == ("None", "None")
    for name, names in (("kept.fst", words), ("own.fst", {"<eps>", "#0", "<s>", "</s>", "one", "won", "wan", "two"})):
        of_input, of_output = _symbols_of(name)
        assert of_input == of_output
        assert {line.split()[0] for line in of_input.splitlines()} == names
    assert np.array_equal(load_fst("kept.fst").cost, load_fst("bare.fst").cost)
    assert shell("nnet3 arpa2fst --disambig-symbol='#0' - < lm.arpa > out.fst").returncode == 0
    assert Path("out.fst").read_bytes() == Path("own.fst").read_bytes()


def test_arcs_of_a_grammar_are_sorted(arpa: Cli) -> None:
    lines = Path("words.txt").read_text().splitlines()
    Path("reversed.txt").write_text("".join(f"{line.split()[0]} {len(lines) - k}\n" for k, line in enumerate(lines)))
    arpa.good("arpa2fst", "--disambig-symbol=#0", "--read-symbol-table=reversed.txt", "lm.arpa", "G.fst")
    fst = load_fst("G.fst")
    assert (np.diff(fst.ilabel)[np.diff(fst.src) == 0] >= 0).all()


INTEGER_ARPA = """\\data\\
ngram 1=4
ngram 2=2
\\1-grams:
-99 1 -0.2
-0.5 2
-0.6 3 -0.1
-0.7 4
\\2-grams:
-0.1 1 3
-0.2 3 2
\\end\\
"""


@needs_rescoring
def test_arpa_to_const_arpa_as_kaldi_writes(cli: Cli) -> None:
    """Models of all golden sets: `NAME.int.arpa` is `NAME.arpa` with integers for words."""
    commands = [path for name in ("lm.cmd", "rescore.cmd") for path in sorted(FOLDER.parent.glob(f"*/*/{name}"))]
    count = 0
    for path in commands:
        for line in path.read_text().splitlines():
            program, *options, model, output = line.split()
            if program == "arpa-to-const-arpa":
                Path(model).write_text(_model(path.parent, model))
                cli.good(program, *options, model, "made")
                assert Path("made").read_bytes() == next(path.parent.rglob(output)).read_bytes()
                count += 1
    assert count == 4 + 6 + 6


def _model(case: Path, name: str) -> str:
    packed = case / f"{name.replace('.int', '')}.gz"
    text = (
        gzip.decompress(packed.read_bytes()).decode()
        if packed.exists()
        else (case / name.replace(".int", "")).read_text()
    )
    if ".int" not in name:
        return text
    labels = dict(line.split() for line in next(case.rglob("words.txt")).read_text().splitlines())
    lines, order = [], 0
    for line in text.splitlines():
        fields = line.split()
        order += line.endswith("-grams:")
        if order and len(fields) > order:
            fields[1 : order + 1] = [labels[word] for word in fields[1 : order + 1]]
        lines.append("\t".join(fields))
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    ("options", "text", "status", "message"),
    [
        (["--bos-symbol=1"], INTEGER_ARPA, 2, "Missing option '--eos-symbol'"),
        (["--bos-symbol=0", "--eos-symbol=2"], INTEGER_ARPA, 2, "--bos-symbol"),
        (["--bos-symbol=2", "--eos-symbol=2"], INTEGER_ARPA, 1, "must be different words, got 2 for both"),
        (["--bos-symbol=1", "--eos-symbol=9"], INTEGER_ARPA, 1, "lm.arpa: </s> is word 9, but words are 1 to 4"),
        (["--bos-symbol=1", "--eos-symbol=2"], ARPA, 1, "lm.arpa: line 5, column 5: '<s>' is not a number"),
        (["--bos-symbol=1", "--eos-symbol=2"], INTEGER_ARPA.replace("1 3", "9 3"), 1, "lm.arpa: the 2-gram '9 3'"),
    ],
)
def test_what_is_no_const_arpa_model(cli: Cli, options: list[str], text: str, status: int, message: str) -> None:
    Path("lm.arpa").write_text(text)
    outcome = cli("arpa-to-const-arpa", *options, "lm.arpa", "G.carpa")
    assert outcome.status == status
    assert message in outcome.err
    assert not Path("G.carpa").exists()
