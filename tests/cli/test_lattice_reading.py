"""The verbs lattice-* and nbest-to-linear: paths, scales, both kinds of files, and lattices that cannot be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from nnet3.base.kaldi_io.lattice import Lattice, open_lattice_table
from tests.asr.slow_search import paths_of
from tests.cli.run_command import Cli

LATTICES = """\
one_
0	1	7	1.5,-2,4_3
0	2	8	0.5,2,6
1	3	9	1,1,1_1
2	3	9	0.25,0.5,5_1_1
3	0.5,0.25,2

two_
0	1	0	0,-1,4_3
1	0,2,

""".replace("_\n", " \n")
COSTS = {"one": {(7, 9): (3.0, -0.75), (8, 9): (1.25, 2.75)}, "two": {(): (0.0, 1.0)}}


@pytest.fixture
def lattices(cli: Cli) -> Cli:
    Path("lat").write_text(LATTICES)
    return cli


def read(name: str) -> dict[str, Lattice]:
    return dict(open_lattice_table(f"ark:{name}"))


def costs_of(lattice: Lattice, scale: float) -> dict[tuple[int, ...], float]:
    return {words: cost for words, paths in paths_of(lattice, scale).items() for cost, _ in paths}


def test_both_kinds_of_files_have_the_same_paths(lattices: Cli) -> None:
    lattices.good("lattice-copy", "ark:lat", "ark:binary")
    lattices.good("lattice-copy", "--write-compact=false", "ark:binary", "ark:plain")
    lattices.good("lattice-copy", "--write-compact=false", "ark:binary", "ark,t:plain.txt")
    lattices.good("lattice-copy", "ark:binary", "ark,t:text")
    assert Path("text").read_text() == LATTICES
    assert b"lattice4" in Path("plain").read_bytes()
    assert "0\t2\t6\t8\t0.5,2\n" in Path("plain.txt").read_text()
    expected = read("lat")
    for name in ("binary", "plain", "plain.txt"):
        for key, lattice in read(name).items():
            assert paths_of(lattice, 0.5) == paths_of(expected[key], 0.5)


def test_some_lattices_are_copied(lattices: Cli) -> None:
    """Without --write-compact, --exclude copies what it names: a bug of Kaldi's (facts: discriminative.md, 10)."""
    Path("keys").write_text("two of it\nthree\n\n")
    for options, keys in (
        (["--include=keys"], ["two"]), (["--exclude=keys"], ["one"]), (["--exclude=none"], ["one", "two"]),
        (["--exclude=keys", "--write-compact=false"], ["two"]), (["--include=none", "--ignore-missing=true"], []),
    ):  # fmt: skip
        Path("none").write_text("")
        lattices.good("lattice-copy", *options, "ark:lat", "ark:some")
        assert Path("some").stat().st_size == 0 if not keys else list(read("some")) == keys
    assert lattices("lattice-copy", "--include=none", "ark:lat", "ark:some").status == 1
    outcome = lattices("lattice-copy", "--include=keys", "--exclude=keys", "ark:lat", "ark:some")
    assert (outcome.status, "not both" in outcome.err) == (2, True)
    assert "nofile" in lattices("lattice-copy", "--include=nofile", "ark:lat", "ark:some").err


def test_scales_and_penalties(lattices: Cli) -> None:
    lattices.good("lattice-scale", "--acoustic-scale=10", "--lm-scale=3", "ark:lat", "ark:scaled")
    lattices.good("lattice-scale", "--inv-acoustic-scale=0.1", "--lm-scale=3", "ark:lat", "ark:same")
    mixing = ("--acoustic2lm-scale=0.5", "--lm2acoustic-scale=2", "--write-compact=false")
    lattices.good("lattice-scale", *mixing, "ark:lat", "ark:mixed")
    lattices.good("lattice-add-penalty", "--word-ins-penalty=0.25", "ark:lat", "ark:dearer")
    names = ("scaled", "same", "mixed", "dearer")
    scaled, same, mixed, dearer = (read(name) for name in names)
    for key, paths in COSTS.items():
        for words, (graph, acoustic) in paths.items():
            assert costs_of(scaled[key], 1)[words] == pytest.approx(3 * graph + 10 * acoustic)
            assert costs_of(same[key], 1)[words] == pytest.approx(3 * graph + 10 * acoustic)
            assert costs_of(mixed[key], 0)[words] == pytest.approx(graph + 0.5 * acoustic)
            assert costs_of(mixed[key], 1)[words] == pytest.approx(3 * graph + 1.5 * acoustic)
            assert costs_of(dearer[key], 0)[words] == pytest.approx(graph + 0.25 * len(words))
    outcome = lattices("lattice-scale", "--inv-acoustic-scale=0", "ark:lat", "ark:out")
    assert outcome.status == 2
    assert "give --acoustic-scale, or an --inv-acoustic-scale that is not 0" in outcome.err


def test_random_paths(lattices: Cli) -> None:
    for name in ("random", "again"):
        lattices.good("lattice-to-nbest", "--random=true", "--n=20", "--srand=3", "ark:lat", f"ark:{name}")
    assert Path("again").read_bytes() == Path("random").read_bytes()
    found = read("random")
    assert list(found) == [f"{key}-{number}" for key in COSTS for number in range(1, 21)]
    drawn = [(key[:3], *paths_of(lattice)) for key, lattice in found.items()]
    assert set(drawn) == {("one", (7, 9)), ("one", (8, 9)), ("two", ())}
    assert {cost for lattice in found.values() for [(cost, _)] in paths_of(lattice).values()} == {0.0}
    lattices.good("lattice-to-nbest", "--random=true", "--n=20", "--srand=4", "ark:lat", "ark:other")
    assert Path("other").read_bytes() != Path("random").read_bytes()


def test_paths_without_number_are_not_written(lattices: Cli) -> None:
    outcome = lattices("lattice-to-nbest", "--random=true", "--n=2147483647", "ark:lat", "ark:many")
    assert outcome.status == 1
    assert "--n=2147483647: at most 100000 random paths of each lattice are written" in outcome.err
    states = 20  # with two arcs to the next one each
    arcs = "".join(f"{state} {state + 1} {word} 1,1,1\n" for state in range(states) for word in (7, 8))
    Path("wide").write_text(f"wide\n{arcs}{states}\n\n")
    outcome = lattices("lattice-to-nbest", "--n=2147483647", "ark:wide", "ark:many")
    assert outcome.status == 1
    assert "lattice 'wide' left out: it has 1.04858e+06 paths: ask for 100000 at most" in outcome.err
    lattices.good("lattice-to-nbest", "--n=2147483647", "ark:lat", "ark:all")
    assert list(read("all")) == ["one-1", "one-2", "two-1"]


def test_best_paths_and_their_parts(lattices: Cli) -> None:
    Path("words.txt").write_text("<eps> 0\na 7\nb 8\nc 9\n")
    options = ("--acoustic-scale=0.1", "--word-symbol-table=words.txt")
    outcome = lattices.good("lattice-best-path", *options, "ark:lat", "ark,t:words", "ark,t:ali")
    assert Path("words").read_text() == "one 8 9 \ntwo \n"
    assert Path("ali").read_text() == "one 6 5 1 1 2 \ntwo 4 3 \n"
    assert outcome.err.splitlines() == [
        "one b c",
        "nnet3: For utterance one, best cost 1.25 + 0.275 = 1.525 over 5 frames.",
        "two",
        "nnet3: For utterance two, best cost 0 + 0.1 = 0.1 over 2 frames.",
        "nnet3: 2 lattices read",
        "nnet3: Overall cost per frame is 0.232143 = 0.178571 [graph] + 0.0535714 [acoustic] over 7 frames.",
    ]
    outcome = lattices("nbest-to-linear", "ark:lat", "ark,t:ali")
    assert "lattice 'one' left out: expected one path" in outcome.err
    assert (outcome.status, Path("ali").read_text()) == (0, "two 4 3 \n")
    outcome = lattices("lattice-best-path", "ark:lat", "ark:same", "ark,t:same")
    assert (outcome.status, "ark:same and ark,t:same are one file" in outcome.err) == (1, True)
    lattices.good("lattice-1best", "ark:lat", "ark:best")
    assert paths_of(read("best")["one"]) == {(7, 9): [(2.25, (4, 3, 1, 1, 2))]}
    lattices.good("nbest-to-linear", "ark:best", "ark,t:ali", "ark,t:words", "ark,t:lm", "ark,t:acoustic")
    assert Path("words").read_text() == "one 7 9 \ntwo \n"
    assert Path("lm").read_text() == "one 3 \ntwo 0 \n"
    assert Path("acoustic").read_text() == "one -0.75 \ntwo 1 \n"
    lattices.good("lattice-1best", "--word-ins-penalty=1", "--lm-scale=3", "--acoustic-scale=0", "ark:lat", "ark:best")
    assert list(paths_of(read("best")["one"])) == [(8, 9)]
    lattices.good("lattice-to-nbest", "--n=5", "ark:lat", "ark:nbest")
    found = read("nbest")
    assert list(found) == ["one-1", "one-2", "two-1"]
    assert [list(paths_of(each)) for each in found.values()] == [[(7, 9)], [(8, 9)], [()]]


def test_paths_of_lattice_to_nbest_have_an_arc_for_each_word_as_in_kaldi(lattices: Cli) -> None:
    """What follows without a word, the end's transition-ids too, is added to it; lattice-1best keeps arcs and ends."""
    lattices.good("lattice-to-nbest", "--n=1", "ark:lat", "ark,t:nbest")
    assert Path("nbest").read_text() == (
        "one-1 \n0\t1\t7\t1.5,-2,4_3\n1\t2\t9\t1.5,1.25,1_1_2\n2\n\ntwo-1 \n0\t1\t0\t0,-1,4_3\n1\t0,2,\n\n"
    )
    lattices.good("lattice-1best", "ark:lat", "ark,t:best")
    assert "1\t2\t9\t1,1,1_1\n2\t0.5,0.25,2\n" in Path("best").read_text()


def test_several_paths_begin_with_an_arc_of_nothing_and_end_without_costs_as_in_kaldi(lattices: Cli) -> None:
    """As OpenFst finds several; the costs of ends are then added to what comes before."""
    Path("lat").write_text("one \n0\t1\t3\t7\t1,2\n0\t1\t4\t8\t2,3\n1\t0.5,0.25\n\n")
    lattices.good("lattice-to-nbest", "--n=2", "ark:lat", "ark,t:nbest")
    assert Path("nbest").read_text() == (
        "one-1 \n0\t1\t0\n1\t2\t7\t1.5,2.25,3\n2\n\none-2 \n0\t1\t0\n1\t2\t8\t2.5,3.25,4\n2\n\n"
    )


def test_costs_of_a_path_are_added_one_after_the_other_as_in_kaldi(lattices: Cli) -> None:
    Path("lat").write_text("one \n0\t1\t7\t16777216,0,4\n1\t2\t8\t1,-1,4\n2\t1,16777216,\n\n")
    lattices.good("nbest-to-linear", "ark:lat", "ark:ali", "ark:words", "ark,t:lm", "ark,t:acoustic")
    assert [Path(name).read_text() for name in ("lm", "acoustic")] == ["one 16777216 \n", "one 16777215 \n"]


def test_a_table_without_a_path_has_kaldis_status(lattices: Cli) -> None:
    Path("empty").write_text("none \n\n")
    outcome = lattices("lattice-best-path", "ark:empty", "ark,t:words")
    assert (outcome.status, "lattice 'none' left out: it has no path" in outcome.err) == (1, True)
    for program in (["lattice-1best"], ["lattice-to-nbest", "--n=2"], ["lattice-to-nbest", "--random=true"]):
        assert lattices(*program, "ark:empty", "ark:some").status == 1
    Path("both").write_text(LATTICES + "none \n\n")
    assert lattices("lattice-best-path", "ark:both", "ark,t:words").status == 0


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("lattice-scale --acoustic-scale=3e38", "0 * graph cost + 3e+38 * acoustic cost"),
        ("lattice-scale --acoustic-scale=1e300", "it must be a number of float32, at most 3.4e+38, got '1e300'"),
        ("lattice-scale --acoustic2lm-scale=-3e38", "1 * graph cost + -3e+38 * acoustic cost"),
        ("lattice-best-path --acoustic-scale=3e38", "1 * graph cost + 3e+38 * acoustic cost"),
    ],
)
def test_costs_beyond_float32_are_refused(command: str, message: str, lattices: Cli) -> None:
    outcome = lattices(*command.split(), "ark:lat", "ark:out")
    assert outcome.status in (1, 2)
    assert message in outcome.err
    assert "encountered" not in outcome.err
    assert not Path("out").exists() or not Path("out").read_bytes()


def test_a_penalty_below_0_is_none_for_lattice_1best_as_in_kaldi(lattices: Cli) -> None:
    Path("lat").write_text("one \n0\t1\t7\t1,0,4\n0\t2\t8\t0.25,0,4\n2\t1\t9\t1,0,\n1\n\n")
    for options in ((), ("--word-ins-penalty=-3",)):
        lattices.good("lattice-1best", *options, "ark:lat", "ark,t:best")
        assert Path("best").read_text() == "one \n0\t1\t7\t1,0,4\n1\n\n"


def test_lattices_that_cannot_be_read(lattices: Cli) -> None:
    Path("bad").write_text(LATTICES.replace("8\t0.5,2,6", "8\t0.5,x,6"))
    outcome = lattices("lattice-best-path", "ark:bad", "ark,t:words")
    assert outcome.status == 1
    assert "a cost of an FST must be a number, got 'x'" in outcome.err
    assert "lattices could not be read" in outcome.err
    outcome = lattices("lattice-1best", "ark:/dev/null", "ark:out")
    assert "ark:/dev/null: there are no lattices" in outcome.err
    assert not Path("out").exists()
    Path("endless").write_text("none \n0\t1\t7\t1,1,3\n1\t0\t7\t1,1,3\n1\n\n")
    assert "the lattice has a cycle" in lattices("lattice-1best", "ark:endless", "ark:out").err


CYCLE = "bad \n0 1 1 0.5,2,1_2\n1 2 1 0,0,1\n2 1 1 0,0,1\n2 0,0,\n\n"
VERBS_OF_PATHS = (
    "lattice-1best IN ark:out",
    "lattice-best-path IN ark:out",
    "lattice-depth IN ark:out",
    "lattice-depth-per-frame IN ark:out",
    "lattice-mbr-decode IN ark:out",
    "lattice-to-ctm-conf IN out",
    "lattice-to-nbest IN ark:out",
    "lattice-to-nbest --random IN ark:out",
    "lattice-to-post IN ark:out",
    "lattice-arc-post IN out",
)


@pytest.mark.parametrize("command", VERBS_OF_PATHS)
def test_a_lattice_with_a_cycle_is_named_and_left_out(lattices: Cli, command: str) -> None:
    Path("lat").write_text(CYCLE + LATTICES)
    outcome = lattices.good(*command.replace("IN", "ark:lat").split())
    assert "warning: lattice 'bad' left out: " in outcome.err
    assert "3 lattices read" in outcome.err
    assert "one" in Path("out").read_text("latin1")
    Path("lat").write_text(CYCLE)
    assert lattices(*command.replace("IN", "ark:lat").split()).status == 1


def test_damage_in_a_text_lattice_is_one_lattice_that_cannot_be_read(lattices: Cli) -> None:
    Path("lat").write_text(LATTICES.replace("1.5,-2,", "1.5,nan,"))
    outcome = lattices("lattice-copy", "ark:lat", "ark,t:out")
    assert outcome.status == 1
    assert "the entry 'one': lat: line 2, column 1: an acoustic cost of a lattice is not a finite number" in outcome.err
    assert "1 lattices could not be read" in outcome.err


def test_a_table_of_something_else_is_no_table_of_lattices(lattices: Cli) -> None:
    Path("feats").write_text("utt [\n1 2 ]\n")
    outcome = lattices("lattice-copy", "ark:feats", "ark:out")
    assert outcome.status == 1
    assert "the entry 'utt': feats: line 1, column 5: expected a lattice: text, on the lines" in outcome.err
