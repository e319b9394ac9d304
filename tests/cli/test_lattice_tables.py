"""The verbs latgen-*: every run of Kaldi's decoders, mistakes of users, and lattices of both kinds."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import NamedTuple

import pytest

import nnet3
from nnet3.kaldi_io import fst_writer, open_int_vector_table
from nnet3.kaldi_io.lattice import Lattice, open_lattice_table
from tests.asr.slow_graphs import graph_of_words
from tests.asr.slow_search import best_paths
from tests.cli.run_command import Cli, Outcome
from tests.shared_data import SHARED

ROAD = SHARED / "road"
CASES = sorted(path.name for path in ROAD.glob("decode_*"))
needs_road = pytest.mark.skipif(not CASES, reason=f"the runs of Kaldi's decoders are not at {ROAD}")
_LEXICON_COSTS = {"first": 0.7, "each": 0.69}  # of L.fst


class Run(NamedTuple):
    """A line of a `.cmd` file that decodes: options and inputs, and what its outputs are called."""

    name: str
    verb: str
    arguments: list[str]
    outputs: list[str]

    def option(self, name: str, default: float) -> float:
        return next(
            (float(each.partition("=")[2]) for each in self.arguments if each.startswith(f"--{name}=")), default
        )


def runs_of(case: Path) -> list[Run]:
    found = []
    for line in [*(case / "decode.cmd").read_text().splitlines(), *(case / "forced.cmd").read_text().splitlines()]:
        program, *words = shlex.split(line)
        if not program.startswith("nnet3-latgen"):
            continue
        options = [word for word in words if word.startswith("--")]
        model, graph, features, *outputs = [word for word in words if not word.startswith("--")]
        graph = graph if graph == "HCLG.fst" else "ark:{}/" + graph.partition(":")[2]
        names = [output.partition(":")[2] for output in outputs]
        verb = program.removeprefix("nnet3-")
        found.append(Run(names[0].partition(".")[0], verb, [*options, model, graph, features], names))
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


def read_numbers(path: Path) -> dict[str, float]:
    return {key: float(value) for key, value in (line.split() for line in path.read_text().splitlines())}


def compare(name: str, case: Path, folder: Path, scale: float, beam: float) -> None:
    """Compares the lattices, and the best path without a scale where Kaldi's is there."""
    theirs = dict(open_lattice_table(f"ark,t:{case}/{name}.lat.txt"))
    mine = dict(open_lattice_table(f"ark:{folder}/{name}.lat"))
    assert list(mine) == list(theirs)
    for key, lattice in theirs.items():
        compare_lattices(lattice, mine[key], scale, beam)
    if not (case / f"{name}.words1.txt").exists():
        return
    words = dict(open_int_vector_table(f"ark,t:{case}/{name}.words1.txt"))
    costs = [read_numbers(case / f"{name}.{kind}.txt") for kind in ("lmcost", "accost")]
    assert list(words) == list(mine)
    for key, lattice in mine.items():
        best, (total, *parts) = min(best_paths(lattice, 1.0, 0.5).items(), key=lambda each: each[1])
        assert best == tuple(words[key].tolist())
        expected = [cost[key] for cost in costs]
        assert parts == pytest.approx(expected, rel=1e-4, abs=2e-3)
        assert total == pytest.approx(sum(expected), rel=1e-4, abs=2e-3)


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


LIKELIHOOD = re.compile(r"(?:for utterance (\S+)|[Oo]verall \S+ per frame) (?:is|was) (\S+) over (\d+) frames")


def compare_likelihoods(log: str, outcome: Outcome) -> None:
    """Compares the log-likelihoods per frame, of each utterance and of all."""
    theirs, mine = (LIKELIHOOD.findall(text) for text in (log, outcome.err))
    assert [(key, frames) for key, _, frames in theirs] == [(key, frames) for key, _, frames in mine]
    assert [float(value) for _, value, _ in mine] == pytest.approx([float(value) for _, value, _ in theirs], abs=2e-5)


@needs_road
@pytest.mark.parametrize("case_name", CASES)
def test_all_runs_of_kaldis_decoders(cli: Cli, case_name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    case = ROAD / case_name
    write_graphs(case, tmp_path)
    monkeypatch.chdir(case)
    runs = runs_of(case)
    assert sorted(f"{run.name}.lat.txt" for run in runs) == sorted(path.name for path in case.glob("*.lat.txt"))
    for run in runs:
        outputs = [f"ark{',t' if name.endswith('.txt') else ''}:{tmp_path}/{name}" for name in run.outputs]
        outcome = cli.good(run.verb, *(each.format(tmp_path) for each in run.arguments), *outputs)
        for name in run.outputs[1:]:
            assert (tmp_path / name).read_text() == (case / name).read_text(), (run.name, name)
        compare_likelihoods((case / f"{run.name}.log").read_text(), outcome)
        compare(run.name, case, tmp_path, run.option("acoustic-scale", 0.1), run.option("lattice-beam", 10))
