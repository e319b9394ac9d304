"""The verbs lattice-determinize*, lattice-prune, -push and -minimize: Kaldi's runs, and mistakes of users."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from nnet3.base.kaldi_io.lattice import Lattice, open_lattice_table
from nnet3.base.kaldi_io.lattice_file import lattice_writer
from nnet3.base.options.lattices import WholeDeterminizingOptions
from nnet3.speech.lattices.lattice_determinizing import determinized_whole
from tests.asr.slow_search import best_paths
from tests.cli.run_command import Cli
from tests.piped_lines import run_piped
from tests.shared_data import SHARED

GOLDEN = SHARED / "discriminative" / "lattices"
needs_golden = pytest.mark.skipif(not SHARED.is_dir(), reason=f"Kaldi's lattices are not at {GOLDEN}")
SCALE = 0.1
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_GIVEN = {"three.ark", "three", "two", "start.mdl"}
_BEAMS = {"non_compact_plain": 30.0, "prune": 0.4}  # within which sequences of words are compared; else all
#: Compared where utterances are decoded, or made from what is.
_ELSEWHERE = {"denlat.cmd", "denlat.log", "HCLG.fst", "feats.ark", "tree", "lattices.log"}


def _read(name: str | Path) -> dict[str, Lattice]:
    return dict(open_lattice_table(f"ark,t:{name}"))


@needs_golden
def test_all_lines_of_kaldis_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for name in _GIVEN:
        shutil.copy(GOLDEN / name, tmp_path)
    first, *lines = (GOLDEN / "lattices.cmd").read_text().splitlines()
    assert "state.ark" in first  # it made three.ark
    runs = [run_piped(line) for line in lines]
    statuses = [ran[-1].status for ran in runs]
    assert statuses == [0] * (len(lines) - 2) + [1, 0]  # the last but one finds nothing
    texts = sorted(path.stem for path in GOLDEN.glob("*.txt"))
    assert len(texts) == 11
    assert {path.name for path in GOLDEN.iterdir()} == (
        _GIVEN | _ELSEWHERE | {"lattices.cmd"} | {f"{name}.txt" for name in texts}
    )
    for name in texts:
        if name.startswith("exclude"):
            assert Path(f"{name}.txt").read_text().split() == (GOLDEN / f"{name}.txt").read_text().split()
            continue
        theirs, mine = _read(GOLDEN / f"{name}.txt"), _read(tmp_path / f"{name}.txt")
        assert list(mine) == list(theirs)
        for key, lattice in theirs.items():
            expected, found = (best_paths(each, SCALE, _BEAMS.get(name, 30.0)) for each in (lattice, mine[key]))
            assert found.keys() == expected.keys(), (name, key)
            for words, (total, graph, acoustic) in expected.items():
                assert found[words][0] == pytest.approx(total, abs=2e-4)
                assert found[words][1:] == pytest.approx((graph, acoustic), abs=2e-3)

    check_depths("".join(ran.err for line in runs for ran in line))


def check_depths(said: str) -> None:
    """Compares what is said of depths and sizes, but for those of phones: Kaldi says the depth after the first pass."""
    known = re.compile(r"(?:Average input|Overall, pruned).*")
    golden = (GOLDEN / "lattices.log").read_text().splitlines()
    theirs = known.findall("\n".join(line for line in golden if "phone-pruned:main" not in line))
    numbers = [[float(number) for number in _NUMBER.findall(line)] for line in theirs]
    found = [[float(number) for number in _NUMBER.findall(line)] for line in known.findall(said)]
    assert len(numbers) == 7
    assert found == numbers


@needs_golden
def test_a_lattice_pruned_for_memory_keeps_the_narrower_beam() -> None:
    """Also where it is pruned afterwards; `num_loops` beams are tried behind the whole lattice."""
    lattice = dict(open_lattice_table(f"ark:{GOLDEN}/three.ark"))["utt000"]
    options = WholeDeterminizingOptions(acoustic_scale=SCALE, beam=2.0, prune=True, max_mem=6000, num_loops=1)
    found, notices = determinized_whole(lattice, options)
    assert notices == ["it needs too much memory (max-mem): it was pruned with a beam of 1.8 first"]
    narrow, _ = determinized_whole(lattice, replace(options, beam=1.8, max_mem=50_000_000))
    expected, kept = (best_paths(each, SCALE, 30.0) for each in (narrow, found))
    assert kept.keys() == expected.keys()
    for words, costs in expected.items():
        assert kept[words] == pytest.approx(costs, abs=1e-4)


@needs_golden
@pytest.mark.parametrize("name", ["lattice-determinize-non-compact", "lattice-determinize-pruned", "lattice-prune"])
def test_a_scale_of_zero_is_refused(cli: Cli, name: str) -> None:
    outcome = cli(name, "--acoustic-scale=0", f"ark:{GOLDEN}/three.ark", "ark:/dev/null")
    assert outcome.status == 2
    assert "--acoustic-scale" in outcome.err


@needs_golden
def test_little_memory_narrows_the_beam_or_leaves_a_lattice_out(cli: Cli, tmp_path: Path) -> None:
    tables = (f"ark:{GOLDEN}/three.ark", f"ark:{tmp_path}/out.ark")
    narrowed = cli.good("lattice-determinize", "--acoustic-scale=0.1", "--max-mem=6000", *tables)
    assert "it was pruned with a beam of" in narrowed.err
    failed = cli("lattice-determinize", "--acoustic-scale=0.1", "--max-mem=1", "--num-loops=2", *tables)
    assert failed.status == 1
    assert failed.err.count("even with a beam of 8.1") == 3
    assert "Done 0 lattices, errors on 3" in failed.err


@needs_golden
def test_acoustic_costs_without_frames_are_refused(cli: Cli, tmp_path: Path) -> None:
    key, lattice = next(iter(dict(open_lattice_table(f"ark:{GOLDEN}/three.ark")).items()))
    emits = lattice.transition_ids.lengths > 0
    assert not emits.all()
    with lattice_writer(f"ark:{tmp_path}/lat.ark") as table:
        table.write(key, replace(lattice, acoustic_cost=np.where(emits, lattice.acoustic_cost, np.float32(1))))
    outcome = cli("lattice-determinize-non-compact", f"ark:{tmp_path}/lat.ark", f"ark:{tmp_path}/out.ark")
    assert outcome.status == 1
    assert "has an acoustic cost where it has no transition-id" in outcome.err


@needs_golden
def test_scales_exclude_each_other(cli: Cli) -> None:
    scales = ("--acoustic-scale=0.1", "--inv-acoustic-scale=10")
    outcome = cli("lattice-prune", *scales, f"ark:{GOLDEN}/three.ark", "ark:/dev/null")
    assert outcome.status == 2
    cli.good("lattice-prune", scales[1], f"ark:{GOLDEN}/three.ark", "ark:/dev/null")


def test_empty_lattices_stay_where_kaldi_keeps_them(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "lat").write_text("none \n\none \n0 1 3 2 0.5,1.5\n1\n\n")
    (tmp_path / "more").write_text((tmp_path / "lat").read_text() + "endless \n0 1 3 2 0.5,1.5\n\n")
    for name, *options in (
        ["lattice-determinize-pruned"],
        ["lattice-determinize-pruned", "--write-compact=false"],
        ["lattice-prune"],
    ):
        cli.good(name, *options, f"ark:{tmp_path}/more", f"ark:{tmp_path}/out")
        found = dict(open_lattice_table(f"ark:{tmp_path}/out"))
        assert [lattice.fst.num_states for lattice in found.values()] == [0, 2, 0]
        assert [lattice.is_plain for lattice in found.values()] == [bool(options)] * 3
    outcome = cli.good("lattice-determinize", f"ark:{tmp_path}/lat", f"ark:{tmp_path}/out")
    assert "lattice 'none' left out" in outcome.err
    outcome = cli.good("lattice-arc-post", f"ark:{tmp_path}/lat", f"{tmp_path}/post")
    assert (tmp_path / "post").read_text() == "one\t0\t1\t1\t2\n"
    assert "lattice 'none': no arc" in outcome.err


@pytest.mark.parametrize("verb", ["prune", "push", "minimize"])
def test_paths_may_have_different_numbers_of_ids(cli: Cli, tmp_path: Path, verb: str) -> None:
    """As lattice-to-phone-lattice --replace-words=false leaves them; these are what Kaldi writes."""
    (tmp_path / "lat").write_text("u \n0 1 1 1,2,6\n0 1 2 2,0,6_5\n1 0,0,\n\n")
    cli.good(f"lattice-{verb}", f"ark:{tmp_path}/lat", f"ark,t:{tmp_path}/out")
    assert (tmp_path / "out").read_text().replace("\t", " ") == "u \n0 1 1 1,2,6\n0 1 2 2,0,6_5\n1\n\n"


_APART = "1 3 3 0.5,0,{0}\n2 3 3 0,1,{0}\n3 0,1,\n"


@pytest.mark.parametrize(
    ("verb", "options", "expected"),
    [
        ("push", [], "0 1 1 1.5,3,6_5\n0 2 2 2,2,6_5\n1 3 3\n2 3 3\n3\n"),
        ("push", ["--push-strings=false"], "0 1 1 1.5,3,6\n0 2 2 2,2,6\n1 3 3 0,0,5\n2 3 3 0,0,5\n3\n"),
        ("push", ["--push-weights=false"], "0 1 1 1,2,6_5\n0 2 2 2,0,6_5\n" + _APART.format("")),
        ("minimize", [], "0 1 1 1.5,3,6_5\n0 1 2 2,2,6_5\n1 2 3\n2\n"),
        ("minimize", ["--push-strings=false"], "0 1 1 1.5,3,6\n0 1 2 2,2,6\n1 2 3 0,0,5\n2\n"),
        ("minimize", ["--push-weights=false"], "0 1 1 1,2,6_5\n0 2 2 2,0,6_5\n" + _APART.format("")),
    ],
)
def test_ids_and_costs_move_towards_the_start(
    cli: Cli, tmp_path: Path, verb: str, options: list[str], expected: str
) -> None:
    """What Kaldi writes, too; an empty lattice is left out."""
    (tmp_path / "lat").write_text("none \n\nu \n0 1 1 1,2,6\n0 2 2 2,0,6\n" + _APART.format("5") + "\n")
    outcome = cli.good(f"lattice-{verb}", *options, f"ark:{tmp_path}/lat", f"ark,t:{tmp_path}/out")
    assert "Done 1 lattices, errors on 1" in outcome.err
    assert (tmp_path / "out").read_text().replace("\t", " ") == f"u \n{expected}\n"
