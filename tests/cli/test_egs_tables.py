"""Tables of examples that are merged, shuffled, taken from and copied: what comes out, and what is said of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nnet3.examples import EXAMPLES, Example, ExampleReader, NnetIo, example_writer
from tests.cli.run_command import Cli

COUNT = 9


@pytest.fixture(autouse=True)
def _examples(cli: Cli) -> None:
    """Number k has one frame of input, all k; with a damaged record in `damaged.ark`."""
    index = np.zeros((1, 3), np.int32)
    with example_writer("ark:egs.ark", EXAMPLES) as writer:
        for number in range(COUNT):
            ios = [NnetIo(name, index, np.full((1, 2), number, np.float32)) for name in ("input", "output")]
            writer.write(f"eg{number}", Example((*ios,)))
    contents = Path("egs.ark").read_bytes()
    Path("damaged.ark").write_bytes(contents.replace(b"eg4 \0B<Nnet3Eg> <NumIo>", b"eg4 \0B<Nnet3Eg> <NumIX>"))


def _numbers(name: str) -> list[list[float]]:
    """Of each example the numbers of those that it was merged of."""
    with ExampleReader(f"ark:{name}", EXAMPLES) as table:
        return [np.asarray(example.ios[0].matrix)[:, 0].tolist() for _, example in table]


def _keys(name: str) -> list[str]:
    with ExampleReader(f"ark:{name}", EXAMPLES) as table:
        return [key for key, _ in table]


DAMAGED = "; 1 damaged records were left out"


@pytest.mark.parametrize(("source", "count", "more"), [("egs", 9, ""), ("p,damaged", 8, DAMAGED)])
def test_what_is_said(cli: Cli, source: str, count: int, more: str) -> None:
    prefix, _, name = source.rpartition(",")
    egs = f"{prefix}{',' if prefix else ''}ark:{name}.ark"
    err = cli.good("merge-egs", "--minibatch-size=4", egs, "ark:x").err
    assert f"{count} examples made 2 minibatches, {count - 8} were discarded" in err
    assert err.endswith(f"{more}\n")
    for options, held in (([], "all"), (["--buffer-size=3"], "3 of them")):
        outcome = cli.good("shuffle-egs", *options, egs, "ark:x")
        assert outcome.err.splitlines()[-1] == f"nnet3: {count} examples shuffled, {held} held at a time{more}"
    for arguments, said in (
        (["subset-egs", "--n=2", egs, "ark:x"], "2 examples taken"),
        (["subset-egs", egs, "ark:x"], f"{count} examples taken"),
        (["copy-egs", egs, "ark:x", "ark:y"], f"{count} examples written"),
    ):
        assert cli.good(*arguments).err.splitlines()[-1] == f"nnet3: {said}{more}"


def test_sizes_and_compression_of_minibatches_are_obeyed(cli: Cli) -> None:
    cli.good("merge-egs", "--minibatch-size=2:4", "ark:egs.ark", "ark:x")
    assert _numbers("x") == [[0, 1, 2, 3], [4, 5, 6, 7]]
    cli.good("merge-egs", "--minibatch-size=1:4", "--compress", "ark:egs.ark", "ark:y")
    with ExampleReader("ark:y", EXAMPLES) as table:
        kinds = {type(io.matrix).__name__ for _, example in table for io in example.ios}
    assert kinds == {"CompressedMatrix"}


def test_the_seed_decides_the_order(cli: Cli) -> None:
    orders = {}
    for name, options in {
        "one": ["--srand=1", "--buffer-size=4"],
        "again": ["--srand=1", "--buffer-size=4"],
        "two": ["--srand=2", "--buffer-size=4"],
        "all": ["--srand=1"],
    }.items():
        cli.good("shuffle-egs", *options, "ark:egs.ark", "ark:x")
        orders[name] = _keys("x")
        assert sorted(orders[name]) == [f"eg{number}" for number in range(COUNT)]
    assert orders["one"] == orders["again"]
    assert len({tuple(order) for order in orders.values()}) == 3


def test_subsets_are_drawn_by_the_seed(cli: Cli) -> None:
    """Without random order, what is not replaced by a later one stays in its place."""
    for options in ([], ["--randomize-order=false"]):
        taken = []
        for seed in range(4):
            cli.good("subset-egs", f"--srand={seed}", "--n=5", *options, "ark:egs.ark", "ark:x")
            taken.append(_keys("x"))
            assert len(set(taken[-1])) == 5
        assert len({tuple(sorted(keys)) for keys in taken}) > 1
        places = [(place, int(key[2:])) for keys in taken for place, key in enumerate(keys)]
        assert all(number in (place, *range(5, COUNT)) for place, number in places) == bool(options)


def test_copies_go_to_tables_in_turn_or_at_random(cli: Cli) -> None:
    cli.good("copy-egs", "ark:egs.ark", "ark:x", "ark:y")
    assert (_numbers("x"), _numbers("y")) == ([[0], [2], [4], [6], [8]], [[1], [3], [5], [7]])
    cli.good("copy-egs", "--keep-proportion=2", "ark:egs.ark", "ark:x")
    assert _numbers("x") == [[k] for k in range(COUNT) for _ in range(2)]
    cli.good("copy-egs", "--random", "--srand=3", "ark:egs.ark", "ark:x", "ark:y")
    assert sorted(_numbers("x") + _numbers("y")) == [[k] for k in range(COUNT)]
    assert _numbers("x") != [[0], [2], [4], [6], [8]]


def test_weights_and_names_choose(cli: Cli) -> None:
    Path("weights").write_text("eg0 0.5\neg1 2\neg2 0\n")
    Path("names").write_text("eg1 other\neg2 more\neg3 last\n")
    outcome = cli.good("copy-egs", "--weights=ark:weights", "ark:egs.ark", "ark:x")
    assert outcome.err.splitlines() == [
        *(f"nnet3: warning: eg{k} is left out: ark:weights has no such key" for k in range(3, COUNT)),
        "nnet3: 3 examples written",
    ]
    with ExampleReader("ark:x", EXAMPLES) as table:
        outputs = [np.asarray(example.ios[1].matrix)[0, 0] for _, example in table]
    assert outputs == [0.0, 2.0, 0.0]
    cli.good("copy-egs", "--outputs=ark:names", "ark:egs.ark", "ark:x")
    with ExampleReader("ark:x", EXAMPLES) as table:
        assert [[io.name for io in example.ios] for _, example in table] == [
            ["input", "other"], ["input", "more"], ["input", "last"],
        ]  # fmt: skip
    cli.good("copy-egs", "--outputs=ark:names", "--weights=ark:weights", "ark:egs.ark", "ark:x")
    assert _keys("x") == ["eg1", "eg2"]


@pytest.mark.parametrize(
    ("outputs", "named"),
    [
        (["ark:a", "ark:./a"], "ark:a and ark:./a"),
        (["ark,scp:a,b", "scp:b"], "ark,scp:a,b and scp:b"),
        (["ark:a", "ark:b", "ark,t:b"], "ark:b and ark,t:b"),
        (["ark:-", "ark,t:-"], "ark:- and ark,t:-"),
    ],
)
def test_two_outputs_in_one_file(cli: Cli, outputs: list[str], named: str) -> None:
    outcome = cli("copy-egs", "ark:egs.ark", *outputs)
    assert outcome.status == 1
    assert outcome.err == f"nnet3: {named} are one file: give each output a name of its own\n"


def test_two_commands_and_nothing_twice_are_no_file(cli: Cli) -> None:
    cli.good("copy-egs", "ark:egs.ark", "ark:| cat >>a", "ark:| cat >>a", "ark:/dev/null", "ark:/dev/null")
    assert 0 < Path("a").stat().st_size < Path("egs.ark").stat().st_size


def test_nothing_is_an_error(cli: Cli) -> None:
    Path("none").touch()
    for verb in ("merge-egs", "shuffle-egs", "subset-egs"):
        outcome = cli(verb, "ark:none", "ark:x")
        assert outcome.status == 1
        assert outcome.err.startswith("nnet3: ark:x: no examples were written")
    assert cli("copy-egs", "ark:none", "ark:x").err == "nnet3: ark:none: no examples were written\n"
    assert not Path("x").exists()
