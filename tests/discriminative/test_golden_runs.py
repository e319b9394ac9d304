"""The lines of Kaldi's runs: lattices decoded, examples made, merged and copied, networks trained and evaluated."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import nnet3
from nnet3.base.kaldi_io.lattice import open_lattice_table
from nnet3.base.kaldi_io.writer import Writer
from nnet3.kaldi_io import open_matrix_table
from nnet3.training.discriminative.supervision_file import TARGETS
from tests.asr.slow_search import best_paths
from tests.discriminative.golden_discriminative import (
    CASES,
    GIVEN,
    DiscriminativeCase,
    needs_golden,
    options_of,
    read_examples,
)
from tests.piped_lines import run_piped
from tests.train.golden_runs import compare_lines

pytestmark = needs_golden
_LOGGED = re.compile(r"^(?:LOG|nnet3:)(?: \(\S+\))? (.*)$", re.MULTILINE)


@pytest.fixture
def case(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> DiscriminativeCase:
    """A case whose lines run in the folder of the test."""
    monkeypatch.chdir(tmp_path)
    made = DiscriminativeCase(request.param)
    made.take(*GIVEN)
    return made


@pytest.mark.parametrize("case", [*CASES, "lattices"], indirect=True)
def test_utterances_are_decoded_to_lattices(case: DiscriminativeCase) -> None:
    lines = case.lines("denlat.cmd")
    for line in lines:
        (ran,) = run_piped(line)
        assert ran.status == 0, ran.err
    options = options_of(lines[0])
    scale, beam = float(options["acoustic-scale"]), float(options["lattice-beam"]) - 0.01
    made = dict(open_lattice_table("ark:denlat.ark"))
    kept = case.folder / "denlat.ark"
    if not kept.exists():
        assert sorted(made) == ["utt000", "utt001", "utt002", "utt003", "utt004", "utt005"]
        return
    wanted = case.lattices("denlat.ark")
    assert list(made) == list(wanted)
    for key, lattice in wanted.items():
        expected, found = (best_paths(each, scale, beam) for each in (lattice, made[key]))
        best = min(cost for cost, *_ in expected.values())
        inside, also = ({w for w, c in each.items() if c[0] <= best + beam - 0.01} for each in (expected, found))
        assert inside == also, key
        assert max(abs(expected[words][0] - found[words][0]) for words in inside) < 2e-3


def _target_bytes(target: object) -> bytes:
    writer = Writer(binary=True)
    TARGETS.write(writer, target)  # type: ignore[arg-type]
    return writer.getvalue()


@pytest.mark.parametrize("case", CASES, indirect=True)
def test_examples_are_made_merged_and_copied(case: DiscriminativeCase) -> None:
    case.take("denlat.ark")
    for line in case.lines("egs.cmd"):
        (ran,) = run_piped(line)
        assert ran.status == 0, ran.err
        output = line.rpartition("ark:")[2]
        found, wanted = read_examples(output), case.examples(output)
        if "get-egs" in line:  # which chunks is drawn at random
            assert {key.rpartition("-")[0] for key in found} == {key.rpartition("-")[0] for key in wanted}
            case.take(output)
            continue
        assert list(found) == list(wanted)
        for key, example in wanted.items():
            for own, theirs in zip(found[key].outputs, example.outputs, strict=True):
                assert _target_bytes(own) == _target_bytes(theirs)
            for given, golden in zip(found[key].inputs, example.inputs, strict=True):
                assert given.structure == golden.structure


def _runs(case: DiscriminativeCase) -> list[str]:
    return sorted(path.stem.partition("_")[2] for path in case.folder.glob("train_*.cmd"))


@pytest.mark.parametrize("case", CASES, indirect=True)
def test_networks_are_trained_and_evaluated(case: DiscriminativeCase) -> None:
    case.take("merged.ark")
    start = case.model.nnet
    for run in _runs(case):
        (line,) = case.lines(f"train_{run}.cmd")
        (ran,) = run_piped(line)
        assert ran.status == 0, ran.err
        check_log(case.golden(f"train_{run}.log").read_text(), ran.err)
        check_network(start, nnet3.load_nnet(f"{run}.raw"), nnet3.load_nnet(case.golden(f"{run}.raw")))
    case.take(*(f"{run}.raw" for run in _runs(case)))
    number = 0
    for line in case.lines("objf.cmd"):
        (ran,) = run_piped(line)
        assert ran.status == 0, ran.err
        if "compute-objf" in line:
            number += 1
            check_log(case.golden(f"objf_{number}.log").read_text(), ran.err)
    assert number == len(list(case.folder.glob("objf_*.log")))


def check_log(theirs: str, mine: str) -> None:
    """Compares lines and their numbers; the order of outputs and of lines about steps is not compared."""
    wanted, found = (sorted(_LOGGED.findall(text)) for text in (theirs, mine))
    known = ("Average", "Overall", "Number", "MMI", "SMBR", "MPFE", "Parameter", "[this")
    compare_lines([line for line in found if line.startswith(known)], wanted, least=3)


def check_network(start: nnet3.Nnet, found: nnet3.Nnet, wanted: nnet3.Nnet) -> None:
    """Compares changes of parameters, 5e-3 for each component, and statistics of batch-norm."""
    compared = 0
    for name, component in wanted.components.items():
        own, before = found.components[name], start.components[name]
        changes = [
            np.concatenate([(after.parameters()[key] - old).double().numpy().ravel() for key, old in given.items()])
            for given in [before.parameters()]
            if given
            for after in (own, component)
        ]
        if changes and np.linalg.norm(changes[1]):
            compared += 1
            assert np.linalg.norm(changes[0] - changes[1]) <= 5e-3 * np.linalg.norm(changes[1]), name
        for (_, leaf), (_, golden) in zip(own.leaves(), component.leaves(), strict=True):
            if golden.has_running_statistics:
                assert leaf.count == pytest.approx(golden.count, rel=1e-4)
                np.testing.assert_allclose(leaf.stats_sum, golden.stats_sum, rtol=1e-4, atol=1e-4 * golden.count)
                np.testing.assert_allclose(leaf.stats_sumsq, golden.stats_sumsq, rtol=1e-4, atol=1e-4 * golden.count)
    assert compared > 2


@pytest.mark.parametrize("case", ["mmi"], indirect=True)
def test_posteriors_of_examples_make_priors(case: DiscriminativeCase) -> None:
    case.take("egs.ark")
    for line in case.lines("post.cmd"):
        if "binary=false" in line:
            break  # it prints the priors
        assert all(ran.status == 0 for ran in run_piped(line)), line
    with open_matrix_table("ark:post.ark") as mine, open_matrix_table(f"ark:{case.golden('post.ark')}") as theirs:
        found, wanted = dict(mine), dict(theirs)
    assert list(found) == list(wanted)
    for key, matrix in wanted.items():
        np.testing.assert_allclose(found[key], matrix, atol=1e-5)
    numbers = re.findall(r"[\d.e-]+", case.golden("start_adj.priors.txt").read_text().partition("[")[2])
    priors = nnet3.load("start_adj.mdl").priors
    np.testing.assert_allclose(priors, np.array(numbers, float), rtol=1e-4)
    case.golden("post.vec")


@pytest.mark.parametrize("case", ["smbr"], indirect=True)
def test_a_recipe_of_two_jobs(case: DiscriminativeCase) -> None:
    case.take("egs.ark")
    said = ""
    for line in case.lines("recipe.cmd"):
        for ran in run_piped(line):
            assert ran.status == 0, ran.err
            said += ran.err
    wanted = [line for line in _LOGGED.findall(case.golden("recipe.log").read_text()) if line.startswith(_SAID)]
    found = [line for line in _LOGGED.findall(said) if line.startswith(_SAID)]
    compare_lines(found, wanted)
    for iteration, before in (("1", "start.mdl"), ("2", "1.mdl")):
        start = nnet3.load(case.golden(before)).nnet
        for job in ("1", "2"):
            name = f"{iteration}.{job}.raw"
            check_network(start, nnet3.load_nnet(name), nnet3.load_nnet(case.golden(name)))
    for name in ("1.mdl", "2_adj.mdl"):
        mine, theirs = nnet3.load(name), nnet3.load(case.golden(name))
        check_network(case.model.nnet, mine.nnet, theirs.nnet)
        np.testing.assert_allclose(mine.priors, theirs.priors, rtol=1e-3)


_SAID = ("Average num", "Overall average")
