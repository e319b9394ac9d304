"""Recordings decoded as streams: lattices, words, alignments, messages and exit statuses are Kaldi's."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from nnet3.base.kaldi_io.lattice import open_lattice_table
from nnet3.speech.lattices.lattice_path import LatticePath, best_paths
from tests.effort import at_night
from tests.road_case import run_line
from tests.shared_data import SHARED

ONLINE = SHARED / "rescoring/online"
SETS = ("endpoint", "ivectors", "plain", "wav_forms")
BOUND, BOUND_WITH_IVECTORS = 1e-2, 0.05
needs_online = pytest.mark.skipif(
    not ONLINE.is_dir(), reason=f"the golden data of online2 programs are not at {ONLINE}"
)


def _best(name: str | Path) -> dict[str, LatticePath]:
    with open_lattice_table(f"ark:{name}") as table:
        return {key: best_paths(lattice, 1)[0] for key, lattice in table}


def _said(log: str) -> list[str]:
    """The messages without what differs between programs and runs: names, places, times, and words about WAV files."""
    lines = [re.sub(r"^(LOG|WARNING|ERROR) \(.*?:\d+\) |^nnet3: (warning: )?", "", line) for line in log.splitlines()]
    return [line for line in lines if re.match(r"Decoded|Did not|\S+ (\S+ )*$|Overall", line)]


@needs_online
@pytest.mark.parametrize("name", SETS)
def test_golden_cases(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every command of a set: the same best paths, costs within the bounds, the same messages and exit status."""
    folder = ONLINE / name
    made = ("lat.", "words.", "ali.", "decode.", "refused.")
    for file in folder.iterdir():
        if file.name == "words.txt" or not file.name.startswith(made):
            (shutil.copytree if file.is_dir() else shutil.copyfile)(file, tmp_path / file.name)
    monkeypatch.chdir(tmp_path)
    bound = BOUND_WITH_IVECTORS if name == "ivectors" else BOUND
    compared = set()
    for line in (folder / "decode.cmd").read_text().splitlines():
        command, _, status = line.partition("# exit ")
        ran = run_line(command)
        assert ran.status == int(status or 0), ran.err
        if match := re.search(r"ark:lat\.(\d)\.ark$", line):
            expected, found = _best(folder / match[0][4:]), _best(match[0][4:])
            assert list(found) == list(expected)
            for key, path in expected.items():
                assert np.array_equal(found[key].words, path.words)
                assert found[key].cost == pytest.approx(path.cost, abs=bound)
                assert found[key].acoustic_cost == pytest.approx(path.acoustic_cost, abs=bound)
            log = (folder / f"decode.{match[1]}.log").read_text()
            got, wanted = _said(ran.err), _said(log)
            assert got[:-1] == wanted[:-1]
            numbers = [[float(number) for number in re.findall(r"[\d.]+\d", lines[-1])] for lines in (got, wanted)]
            assert numbers[0] == pytest.approx(numbers[1], abs=bound)
            compared.add(f"decode.{match[1]}.log")
        compared |= {match[1] for match in re.finditer(r"ark(?:,t)?:(\S+\.\d\.\w+)", line)}
        if status:
            assert re.search(r"w_8bit.*8 bits", ran.err)
            compared.add("refused.log")
    for file in compared:
        if file.startswith(("words.", "ali.")):
            assert Path(file).read_text() == (folder / file).read_text()
    left = {file.name for file in folder.iterdir() if file.name.startswith(made)} - compared
    assert left == {"decode.cmd", "words.txt"}


@needs_online
@pytest.mark.parametrize("name", ["ivectors", "plain"])
def test_growing_lattices_have_the_same_best_paths(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Words, alignments and costs of the other program's lattices, also where these are made in many pieces."""
    monkeypatch.chdir(ONLINE / name)
    command = Path("decode.cmd").read_text().splitlines()[0].replace("latgen-faster", "latgen-incremental")
    expected = _best(ONLINE / name / "lat.1.ark")
    for delay in (*at_night(60), 10):
        more = f" --determinize-max-delay={delay} --determinize-min-chunk-size={delay // 3} final.mdl"
        ran = run_line(command.replace(" final.mdl", more).replace("ark:lat.", f"ark:{tmp_path}/lat."))
        assert ran.status == 0, ran.err
        for key, path in _best(tmp_path / "lat.1.ark").items():
            assert np.array_equal(path.transition_ids, expected[key].transition_ids)
            assert path.cost == pytest.approx(expected[key].cost, abs=BOUND)
