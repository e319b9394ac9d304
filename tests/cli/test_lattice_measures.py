"""Posteriors, depths and phones of lattices, against all their paths."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

from nnet3 import load_transition_model
from nnet3.kaldi_io import open_posterior_table
from tests.cli.run_command import Cli
from tests.shared_data import GOLDEN

MDL = GOLDEN / "mdl" / "1" / "final.mdl"
ALL = """a_
0	1	7	0.5,1,1_2
0	1	8	0.25,2,3_1
1	2	9	0,-1,5
1	0.5,0.5,4
2	0,0.25,

b_
0

""".replace("_\n", " \n")


@pytest.fixture
def lattices(cli: Cli) -> Cli:
    Path("lat").write_text(ALL)
    return cli


def _paths(acoustic_scale: float) -> list[tuple[list[int], float]]:
    """The transition-ids of each path of lattice `a`, and its probability."""
    costs = []
    for first, cost in (([1, 2], 0.5 + 1 * acoustic_scale), ([3, 1], 0.25 + 2 * acoustic_scale)):
        costs.append(([*first, 5], cost + (-1 + 0.25) * acoustic_scale))
        costs.append(([*first, 4], cost + 0.5 + 0.5 * acoustic_scale))
    total = sum(np.exp(-cost) for _, cost in costs)
    return [(ids, float(np.exp(-cost) / total)) for ids, cost in costs]


@pytest.mark.parametrize("scale", [1.0, 0.5])
def test_posteriors_of_transition_ids(lattices: Cli, scale: float) -> None:
    outcome = lattices.good("lattice-to-post", f"--acoustic-scale={scale}", "ark:lat", "ark:post", "ark,t:likes")
    assert " over 3 frames, acoustic " in outcome.err
    expected = [defaultdict[int, float](float) for _ in range(3)]
    for ids, prob in _paths(scale):
        for frame, each in zip(expected, ids, strict=True):
            frame[each] += prob
    with open_posterior_table("ark:post") as table:
        found = dict(table)
    posterior = found["a"]
    for frame, (first, end) in enumerate(zip(posterior.indptr, posterior.indptr[1:], strict=False)):
        ids, weights = posterior.ids[first:end].tolist(), posterior.weights[first:end].tolist()
        assert ids == sorted(expected[frame])
        assert dict(zip(ids, weights, strict=True)) == pytest.approx(expected[frame], abs=1e-6)
    assert len(found["b"].indptr) == 1
    assert float(Path("likes").read_text().splitlines()[1].split()[1]) == 0
    assert lattices("lattice-to-post", "--acoustic-scale=0", "ark:lat", "ark:post").status == 2


def test_arcs_and_their_phones(lattices: Cli) -> None:
    out = lattices.good("lattice-arc-post", "--print-alignment=true", MDL, "ark:lat", "-")
    rows = [line.split("\t") for line in out.out.splitlines()]
    probs = defaultdict[str, float](float)
    for ids, prob in _paths(1.0):
        probs[f"{ids[0]},{ids[1]}"] += prob
        probs[str(ids[2])] += prob
    assert [row[:3] + row[4:6] for row in rows] == [
        ["a", "0", "2", "7", "1,2"],
        ["a", "0", "2", "8", "3,1"],
        ["a", "2", "1", "9", "5"],
    ]
    for row in rows:
        assert float(row[3]) == pytest.approx(probs[row[5]], abs=1e-6)
    model = load_transition_model(MDL)
    for row in rows:
        ids = np.array(row[5].split(","), int)
        assert row[6] == " ".join(str(model.phone(each)) for each in ids if model.is_final(np.array([each]))[0])
    assert "lattice 'b': no arc is that likely" in out.err
    assert len(lattices.good("lattice-arc-post", "--min-post=0.5", "ark:lat", "-").out.splitlines()) < len(rows)
    assert lattices("lattice-arc-post", "--min-post=1", "ark:lat", "-").status == 1
    assert lattices("lattice-arc-post", "ark:lat").status == 2


def test_depths(lattices: Cli) -> None:
    assert lattices.good("lattice-depth", "ark:lat", "ark,t:-").out == "a 2 \nb 1 \n"
    lattices.good("lattice-depth-per-frame", "ark:lat", "ark,t:depths", "ark,t:copied")
    assert Path("depths").read_text() == "a 2 2 2 \nb \n"
    assert Path("copied").read_text() == ALL
    assert "Overall density is 2 over 3 frames." in lattices.good("lattice-depth", "ark:lat").err
    assert lattices("lattice-depth", "ark:/dev/null", "ark,t:-").status == 1


def test_phones_in_the_place_of_words(lattices: Cli) -> None:
    model = load_transition_model(MDL)
    begins = {
        each: int(model.phone(each))
        for each in range(1, 6)
        if model.hmm_state(np.array([each]))[0] == 0 and not model.is_self_loop(np.array([each]))[0]
    }
    lattices.good("lattice-to-phone-lattice", MDL, "ark:lat", "ark:phones")
    lattices.good("lattice-best-path", "ark:phones", "ark,t:words", "ark,t:ids")
    for line, ids in zip(Path("words").read_text().splitlines(), Path("ids").read_text().splitlines(), strict=True):
        expected = [begins[int(each)] for each in ids.split()[1:] if int(each) in begins]
        assert line.split()[1:] == list(map(str, expected))
    out = lattices.good("lattice-to-phone-lattice", "--replace-words=false", MDL, "ark:lat", "ark,t:-").out
    lattices.good("lattice-copy", "--write-compact=false", "ark:lat", "ark:plain")
    lattices.good("lattice-copy", "ark:plain", "ark:compact")
    plain, compact = (
        lattices.good("lattice-to-phone-lattice", "--replace-words=false", MDL, f"ark:{name}", "ark,t:-").out
        for name in ("plain", "compact")
    )
    assert plain == compact
    for begin, ids in (("0\t1\t7\t0.5,1", (1, 2)), ("1\t0.5,0.5", (4,))):
        final = [str(model.phone(each)) for each in ids if model.is_final(np.array([each]))[0]]
        assert f"{begin},{'_'.join(final)}\n" in out
