"""Programs that rescore lattices: the golden command lines, models of other words, lattices that lose all paths."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from nnet3.base.kaldi_io.fst import Fst
from nnet3.base.kaldi_io.fst_file import load_fst, save_fst
from tests.asr.golden_rescoring import CASES, assert_same_arcs, assert_same_paths, lattices, paths
from tests.cli.run_command import Cli
from tests.rescoring_data import needs_rescoring

_MADE = re.compile(r"ark:(\w+\.lats)$")
_ARCS = ("raw.lats", "pruned.lats", "pruned_narrow.lats", "pruned_carpa.lats")  # the others: paths


def _run(cli: Cli, line: str) -> None:
    """Runs programs joined by `|` or `&&`; a pipe is a file here."""
    parts = re.split(r" \| | && ", line)
    for place, part in enumerate(parts):
        words = part.split()
        if " | " in line:
            words = ["ark:between" if word == "ark:-" else word for word in words]
        if words[0] != "arpa2fst":  # by the words of another table
            cli.good(*words)
        assert place < 2


@needs_rescoring
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_golden_command_lines(cli: Cli, case: Path) -> None:
    given = ("G.fst", "big.carpa", "final.raw", "raw.txt", "small.carpa", "two.txt", "word_embedding.final.mat")
    for name in given:
        shutil.copy(case / name, name)
    compared = []
    for line in (case / "rescore.cmd").read_text().splitlines():
        if not line.startswith("arpa"):
            _run(cli, line)
            name = _MADE.search(line)[1]  # type: ignore[index]
            made, wanted = lattices(Path(name)), lattices(case / name)
            assert list(made) == list(wanted)
            for key, lattice in wanted.items():
                (assert_same_arcs if name in _ARCS else assert_same_paths)(made[key], lattice, bound=1e-5)
            compared.append(name)
    assert sorted(compared) == sorted(path.name for path in case.glob("*.lats"))
    projected, wanted_fst = load_fst("G_words.fst"), load_fst(str(case / "G_words.fst"))
    for part in ("final", "offsets", "ilabel", "olabel", "cost", "dst"):
        np.testing.assert_array_equal(getattr(projected, part), getattr(wanted_fst, part))


LATTICES = """one
0 1 3 1.5,-2,1_1
0 1 4 2,-3,2
0 2 0 0.25,0,1
2 1 3 0.5,-1,2_2
1 0.5,0,3

two
0 1 9 0,0,1
1

"""
ARPA = """\\data\\
ngram 1=4
ngram 2=2
\\1-grams:
-99 1 -0.25
-0.5 2
-0.75 3 -0.5
-1 4
\\2-grams:
-0.125 1 3
-0.25 3 2
\\end\\
"""


def _save_grammar(back_off: float, name: str = "G.fst") -> None:
    """Words 3 and 4 from state 2, behind a back-off; word 3 also directly, for 0.5."""
    arcs = np.array([(0, 1, 3), (0, 2, 0), (2, 1, 3), (2, 1, 4)])
    save_fst(Fst.from_arcs(0, [np.inf, 0.75, 1], *arcs.T, [0.5, back_off, 0.25, 2]), name)


@pytest.fixture
def small(cli: Cli) -> Cli:
    Path("lat.txt").write_text(LATTICES)
    Path("lm.arpa").write_text(ARPA)
    _save_grammar(1.25)
    cli.good("arpa-to-const-arpa", "--bos-symbol=1", "--eos-symbol=2", "lm.arpa", "G.carpa")
    return cli


def _costs(name: str, most: int = 1) -> dict[tuple[int, ...], float]:
    """The graph costs of the best paths of the lattice `one` by their words."""
    ((key, lattice),) = lattices(Path(name)).items()
    assert key == "one"
    assert all(len(each) <= most for each in paths(lattice).values())
    found = {words: each[0][1:] for words, each in paths(lattice).items()}
    assert {words: acoustic for words, (_, acoustic) in found.items()} == {(3,): -2, (4,): -3}
    return {words: graph for words, (graph, _) in found.items()}


def test_costs_of_a_small_model(small: Cli) -> None:
    """In log10: <s> 3 has -0.125, 3 </s> -0.25; <s> 4 backs off, -0.25 - 1, and 4 </s> has -0.5."""
    outcome = small.good("lattice-lmrescore-const-arpa", "--lm-scale=2", "ark:lat.txt", "G.carpa", "ark:out")
    assert "warning: lattice 'two' left out: no path is left" in outcome.err
    assert "1 lattices rescored, 1 left out" in outcome.err
    ln = np.log(10)
    assert _costs("out") == pytest.approx({(3,): 2 + 2 * ln * 0.375, (4,): 2.5 + 2 * ln * 1.75}, rel=1e-6)


def test_the_cheapest_way_and_the_exact_one(small: Cli) -> None:
    """Word 3 costs 0.5 directly, and 1.25 + 0.25 by the back-off; with a cheaper back-off the ways differ."""
    small.good("lattice-lmrescore", "ark:lat.txt", "G.fst", "ark:out")
    assert _costs("out") == pytest.approx({(3,): 2 + 0.5 + 0.75, (4,): 2.5 + 3.25 + 0.75})
    _save_grammar(0.125)
    small.good("lattice-lmrescore", "--lm-scale=-1", "ark:lat.txt", "G.fst", "ark:out")
    assert _costs("out") == pytest.approx({(3,): 2 - 0.375 - 0.75, (4,): 2.5 - 2.125 - 0.75})
    small.good("lattice-lmrescore-pruned", "--lattice-compose-beam=50", "G.fst", "G.carpa", "ark:lat.txt", "ark:out",
               "--add-const-arpa=true")  # fmt: skip
    ln = np.log(10)
    wanted = {(3,): 2 - 0.5 - 0.75 + ln * 0.375, (4,): 2.5 - 2.125 - 0.75 + ln * 1.75}
    assert _costs("out", most=2) == pytest.approx(wanted, rel=1e-6)


def test_a_scale_of_nothing_copies(small: Cli) -> None:
    Path("more.txt").write_text(f"{LATTICES}empty\n\n")
    small.good("lattice-lmrescore-const-arpa", "--lm-scale=0", "ark:more.txt", "G.carpa", "ark,t:out")
    small.good("lattice-copy", "ark:more.txt", "ark,t:copied")
    assert Path("out").read_text() == Path("copied").read_text()


def test_nothing_is_left(small: Cli) -> None:
    Path("other.txt").write_text(LATTICES[LATTICES.index("two") :])
    for verb, model in (("lattice-lmrescore-const-arpa", "G.carpa"), ("lattice-lmrescore", "G.fst")):
        outcome = small(verb, "ark:other.txt", model, "ark:out")
        assert outcome.status == 1
        assert outcome.err.count("\n") == 3
        assert Path("out").read_bytes() == b""
    outcome = small("lattice-lmrescore-pruned", "G.fst", "G.fst", "ark:other.txt", "ark:out")
    assert (outcome.status, "lattice 'two' left out: no path is left" in outcome.err) == (1, True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["lattice-lmrescore-const-arpa", "ark:lat.txt", "G.fst", "ark:out"], "expected a const-arpa model"),
        (["lattice-lmrescore-const-arpa", "ark:lat.txt", "nofile", "ark:out"], "nofile"),
        (["lattice-lmrescore", "ark:lat.txt", "G.carpa", "ark:out"], "G.carpa"),
        (["lattice-lmrescore-pruned", "two.fst", "G.fst", "ark:lat.txt", "ark:out"], "two.fst: a state of the"),
        (
            ["lattice-lmrescore", "ark:cycle.txt", "G.fst", "ark:out"],
            "lattice 'cycle' left out: the lattice has a cycle",
        ),
        (["lattice-lmrescore-const-arpa", "ark:cycle.txt", "G.carpa", "ark:out"], "left out: the lattice has a cycle"),
        (
            ["lattice-lmrescore-pruned", "G.fst", "G.fst", "ark:cycle.txt", "ark:out"],
            "left out: the lattice has a cycle",
        ),
        (
            ["lattice-lmrescore", "ark:lat.txt", "round.fst", "ark:out"],
            "round.fst: the arcs without words",
        ),
    ],
)
def test_what_cannot_be_rescored(small: Cli, arguments: list[str], message: str) -> None:
    save_fst(Fst.from_arcs(0, [np.inf, 0], [0, 0], [1, 1], [3, 3]), "two.fst")
    save_fst(Fst.from_arcs(0, [np.inf, 0], [0, 1, 0], [1, 0, 1], [0, 0, 3]), "round.fst")
    Path("cycle.txt").write_text("cycle\n0 1 3 1,1,1\n1 0 3 1,1,1\n1\n\n")
    outcome = small(*arguments)
    assert outcome.status == 1
    assert message in outcome.err
