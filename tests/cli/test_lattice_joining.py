"""Tables of lattices joined and composed; what is left out, and why. The work itself: tests/lattices."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.run_command import Cli

LATTICES = """u_
0	1	1	0.5,2,1_2
0	1	2	0.75,1,1_1
1	2	3	0.25,0.5,3
2	0.5,0.25,4_4

v_
0	1	5	1,1,6
1	0,0,

""".replace("_\n", " \n")


@pytest.fixture
def lattices(cli: Cli) -> Cli:
    Path("lat").write_text(LATTICES)
    return cli


def test_paths_joined_again_are_the_lattice(lattices: Cli) -> None:
    lattices.good("lattice-to-nbest", "--n=2", "ark:lat", "ark:nbest.ark")
    lattices.good("nbest-to-lattice", "ark:nbest.ark", "ark:joined.ark")
    for table in ("ark:lat", "ark:joined.ark"):
        lattices.good("lattice-to-nbest", "--n=9", table, "ark:paths.ark")
        lattices.good("nbest-to-linear", "ark:paths.ark", *(f"ark,t:{table[4:]}.{k}" for k in range(4)))
    for part in range(4):
        assert Path(f"lat.{part}").read_text() == Path(f"joined.ark.{part}").read_text()
    outcome = lattices("nbest-to-lattice", "ark:lat", "ark,t:-")
    assert outcome.status == 1
    assert "the key 'u' does not end with -1, -2" in outcome.err


def test_parts_make_the_paths_again(lattices: Cli) -> None:
    lattices.good("lattice-to-nbest", "--n=2", "ark:lat", "ark:nbest.ark")
    parts = "ark:ali", "ark:words", "ark:lm", "ark:acoustic"
    lattices.good("nbest-to-linear", "ark:nbest.ark", *parts)
    lattices.good("linear-to-nbest", *parts, "ark:again.ark")
    lattices.good("nbest-to-linear", "ark:again.ark", *(part.replace("ark:", "ark:2") for part in parts))
    for part in parts:
        assert Path(part[4:]).read_bytes() == Path("2" + part[4:]).read_bytes()
    free = lattices.good("linear-to-nbest", "ark:ali", "ark:words", "", "", "ark,t:-").out
    assert ",0," not in free.replace("\t0,0,", "")
    Path("words").write_text("other 1\n")
    outcome = lattices("linear-to-nbest", *parts, "ark:again.ark")
    assert outcome.status == 1
    assert "ark:words has no entry for it" in outcome.err


def test_a_union_keeps_the_best_of_equal_words(lattices: Cli) -> None:
    Path("other").write_text("u \n0\t1\t1\t0,0,7_7\n1\t2\t3\t0,0,7\n2\t0,0,7_7\n\n")
    outcome = lattices.good("lattice-union", "ark:lat", "ark:other", "ark:both.ark")
    assert "ark:other has no lattice 'v': the one of ark:lat is written alone" in outcome.err
    lattices.good("lattice-to-nbest", "--n=9", "ark:both.ark", "ark:nbest.ark")
    lattices.good("nbest-to-linear", "ark:nbest.ark", "ark,t:ali", "ark,t:words")
    assert Path("words").read_text() == "u-1 1 3 \nu-2 2 3 \nv-1 5 \n"
    assert Path("ali").read_text() == "u-1 7 7 7 7 7 \nu-2 1 1 3 4 4 \nv-1 6 \n"


def test_composition_with_fsts(lattices: Cli) -> None:
    Path("g.txt").write_text("0 0 1 9 0.5\n0 0 3 3 0.25\n0 1\n")
    lattices.good("fstcopy", "ark:echo u; cat g.txt; echo; echo v; cat g.txt; echo |", "ark:fsts.ark")
    lattices.good("fstcopy", "ark:echo u; cat g.txt; echo |", "ark:one.ark")
    Path("g.fst").write_bytes(Path("one.ark").read_bytes()[len("u ") :])
    for arguments in (("ark:lat", "g.fst"), ("--compose-with-fst=true", "ark:lat", "ark:fsts.ark")):
        outcome = lattices.good("lattice-compose", *arguments, "ark:out.ark")
        assert "'v' left out: no path is accepted by" in outcome.err
        lattices.good("lattice-to-nbest", "--n=9", "ark:out.ark", "ark:nbest.ark")
        lattices.good("nbest-to-linear", "ark:nbest.ark", "ark,t:ali", "ark,t:words", "ark,t:lm")
        assert Path("words").read_text() == "u-1 9 3 \n"
        assert Path("ali").read_text() == "u-1 1 2 3 4 4 \n"
        assert float(Path("lm").read_text().split()[1]) == pytest.approx(0.5 + 0.25 + 0.5 + 0.5 + 0.25 + 1)
    plain = lattices.good("lattice-compose", "--write-compact=false", "ark:lat", "g.fst", "ark,t:-").out
    assert plain.splitlines()[1].split()[:4] == ["0", "1", "1", "9"]


def test_composition_with_lattices(lattices: Cli) -> None:
    """Words are found among the transition-ids of the other lattice, whose costs are added, each to its kind."""
    Path("other").write_text("u \n0 1 1 9 0.5,4\n1 2 3 8 0.25,8\n2 1,2\n\n")
    outcome = lattices.good("lattice-compose", "--write-compact=false", "ark:lat", "ark:other", "ark,t:out")
    assert "'v' left out: ark:other has no entry for it" in outcome.err
    lattices.good("nbest-to-linear", "ark:out", "ark,t:ali", "ark,t:words", "ark,t:lm", "ark,t:acoustic")
    assert [Path(name).read_text() for name in ("ali", "words")] == ["u 1 2 3 4 4 \n", "u 9 8 \n"]
    assert float(Path("lm").read_text().split()[1]) == 0.5 + 0.25 + 0.5 + 0.5 + 0.25 + 1
    assert float(Path("acoustic").read_text().split()[1]) == 2 + 0.5 + 0.25 + 4 + 8 + 2
    outcome = lattices("lattice-compose", "--compose-with-fst=false", "ark:lat", "g.fst", "ark:-")
    assert (outcome.status, "with a table of lattices" in outcome.err) == (2, True)


def test_the_closest_path(lattices: Cli) -> None:
    Path("ref").write_text("u 2 7 3\n")
    Path("words.txt").write_text("".join(f"w{number} {number}\n" for number in range(8)))
    outcome = lattices.good(
        *("lattice-oracle", "--word-symbol-table=words.txt", "--write-lattices=ark,t:path"),
        *("ark:lat", "ark:ref", "ark,t:heard", "ark,t:errors"),
    )
    assert Path("heard").read_text() == "u 2 3 \n"
    assert Path("errors").read_text() == "u 1 \n"
    assert Path("path").read_text().splitlines()[1] == "0\t1\t2\t0.75,1,1_1"
    assert "u: %WER 33.3333 [ 1 / 3, 0 insertions, 1 deletions, 0 sub ]" in outcome.err
    assert "u (oracle) w2 w3" in outcome.err
    assert "'v' left out: ark:ref has no entry for it" in outcome.err
    free = lattices.good("lattice-oracle", "--wildcard-symbols=7", "ark:lat", "ark:ref", "ark,t:-")
    assert free.out == "u 2 3 \n"
    assert "Overall %WER 0 [ 0 / 2," in free.err
    Path("ref").write_text("x 2 7 3\n")
    outcome = lattices("lattice-oracle", "ark:lat", "ark:ref", "ark,t:-")
    assert (outcome.status, outcome.out) == (1, "")
    assert "no lattice has a path and a reference in ark:ref" in outcome.err
    assert "nan" not in outcome.err


def test_words_and_numbers_alone(lattices: Cli) -> None:
    assert "0\t1\t1\t0.5,2,\n" in lattices.good("lattice-rmali", "ark:lat", "ark,t:-").out
    assert "0\t1\t1\t1\t0.5,2\n" in lattices.good("lattice-project", "ark:lat", "ark,t:-").out
    ids = lattices.good("lattice-project", "--project-output=false", "ark:lat", "ark,t:-").out
    assert "\t6\t6\t1,1\n" in ids
    assert "\t1\t0\t6\t5\t1,1\n" not in ids
    turned = lattices.good("lattice-reverse", "ark:lat", "ark,t:-").out
    assert turned.endswith("v \n0\t2\t0\t0\n1\n2\t1\t6\t5\t1,1\n\n")
    Path("turned").write_text(turned)
    again = lattices.good("lattice-reverse", "ark:turned", "ark,t:-").out
    assert again.endswith("v \n0\t2\t0\t0\n1\n2\t3\t6\t5\t1,1\n3\t1\t0\t0\n\n")


def test_arcs_without_words_of_lattice_and_fst_take_one_order(lattices: Cli) -> None:
    """Kaldi's arcs, states apart: 11, of which none leads twice from a pair of states to another."""
    Path("one").write_text("u \n0 1 3 1,1,1\n1 2 0 0.5,2,2\n1 2 4 2,1,2\n2 3 0 0.25,1,3\n2 3 3 0.75,1,3\n3 0.5,0,\n\n")
    Path("fst").write_text("u \n0 1 3 3 0.5\n0 0 4 4 0.75\n1 0 0 0 1\n1 1 3 3 0.25\n0 0.5\n1 0.25\n\n")
    made = lattices.good("lattice-compose", "--compose-with-fst=true", "ark:one", "ark:fst", "ark,t:-").out
    arcs = [line.split("\t", 2)[2] for line in made.splitlines() if line.count("\t") == 3]
    expected = "3 1.5,1,1|0 1,0,|0 1,0,|0 1,0,|0 0.5,2,2|0 0.25,1,3|0 0.25,1,3|3 1,1,3|3 1.25,1,3|3 1.25,1,3|4 2.75,1,2"
    assert sorted(arcs) == sorted(each.replace(" ", "\t") for each in expected.split("|"))


def test_fsts_of_words(lattices: Cli) -> None:
    costs = lattices.good(
        "lattice-to-fst", "--rm-eps=false", "--lm-scale=1", "--acoustic-scale=2", "ark:lat", "ark,t:-"
    )
    assert "v \n0\t1\t5\t5\t3\n1\n" in costs.out
    Path("eps").write_text("u \n0\t1\t0\t1,1,1\n1\t2\t3\t0,0,2\n2\t0,0,\n\n")
    assert lattices.good("lattice-to-fst", "ark:eps", "ark,t:-").out == "u \n0\t1\t3\t3\n1\n\n"
