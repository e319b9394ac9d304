"""Minimized lattices: what Kaldi's lattice-determinize --minimize=true made of small ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nnet3.base.kaldi_io.lattice import open_lattice_table
from nnet3.base.options.lattices import WholeDeterminizingOptions
from nnet3.speech.lattices.lattice_determinizing import determinized_whole

_TWO_WAYS = """
0 1 2 0 0.15820,-9.67681
1 2 4 1 1.15692,-1.63929
1 3 6 0 1.64036,-5.49371
2 4 3 0 2.90309,-5.91575
3 4 1 3 2.72052,-9.36162
4 5 2 0 2.45486,-15.61824
5 6 4 2 1.08029,-13.94983
6 7 6 1 1.70648,-8.04646
7 8 5 0 0.80323,-2.51319
8 9 1 0 0.46053,3.46178
9 0.08443,0
"""
_ONE_WAY = """
0 1 1 3 2.10585,-14.18666
1 2 6 0 2.92104,23.74887
2 3 6 2 0.54362,-1.78746
3 4 3 0 1.35175,-24.33877
4 5 3 0 2.25119,-7.42155
5 6 4 0 0.67988,17.66779
6 7 2 4 2.78150,8.91656
7 0.59325,0
"""
_NO_WORDS = """
0 1 6 0 0.16544,2.81211
1 2 2 0 1.29789,-7.92147
2 3 6 0 2.04919,1.26828
3 4 5 0 2.32669,-10.10758
4 5 4 0 0.32162,-15.04831
5 6 5 0 2.58635,-4.21859
6 7 1 0 1.49417,-5.63287
7 1.04566,0
"""
#: Arcs (source, destination, word, costs, transition-ids) and ends by Kaldi, acoustic scale 0.1.
_KALDIS: dict[str, tuple[set[tuple[Any, ...]], set[tuple[Any, ...]]]] = {
    _TWO_WAYS: (
        {
            (0, 1, 1, (10.808, -53.8978), (2, 4, 3, 2, 4, 6, 5, 1)),
            (0, 1, 3, (11.1089, -61.1981), (2, 6, 1, 2, 4, 6, 5, 1)),
            (1, 2, 2, (0, 0), ()),
            (2, 3, 1, (0, 0), ()),
        },
        {(3, (0, 0), ())},
    ),
    _ONE_WAY: (
        {(0, 1, 3, (13.2281, 2.59878), (1, 6, 6, 3, 3, 4, 2)), (1, 2, 2, (0, 0), ()), (2, 3, 4, (0, 0), ())},
        {(3, (0, 0), ())},
    ),
    _NO_WORDS: (set(), {(0, (11.287, -38.8484), (6, 2, 6, 5, 4, 5, 1))}),
}


def _close(found: list[tuple[Any, ...]], wanted: set[tuple[Any, ...]]) -> None:
    assert len(found) == len(wanted)
    for one, other in zip(sorted(found), sorted(wanted), strict=True):
        assert one[:-2] == other[:-2]
        assert one[-2] == pytest.approx(other[-2], abs=1e-3)
        assert one[-1] == other[-1]


@pytest.mark.parametrize("text", _KALDIS)
def test_ids_and_costs_stand_where_kaldi_has_them(text: str, tmp_path: Path) -> None:
    (tmp_path / "lat").write_text(f"u {text}\n")
    ((_, lattice),) = open_lattice_table(f"ark:{tmp_path}/lat")
    options = WholeDeterminizingOptions(acoustic_scale=0.1, minimize=True)
    found, _ = determinized_whole(lattice, options)
    fst, arcs, ends = found.fst, [], []
    for arc in range(fst.num_arcs):
        ids = found.transition_ids[np.array([arc])].values.tolist()
        costs = float(fst.cost[arc]), float(found.acoustic_cost[arc])
        arcs.append((int(fst.src[arc]), int(fst.dst[arc]), int(fst.ilabel[arc]), costs, tuple(ids)))
    for state in np.flatnonzero(np.isfinite(fst.final)).tolist():
        ids = found.final_transition_ids[np.array([state])].values.tolist()
        ends.append((state, (float(fst.final[state]), float(found.final_acoustic_cost[state])), tuple(ids)))
    wanted_arcs, wanted_ends = _KALDIS[text]
    _close(arcs, wanted_arcs)
    _close(ends, wanted_ends)


@pytest.mark.parametrize(("difference", "states"), [(0.0009, 3), (0.0011, 4)])
def test_sums_of_costs_are_compared_to_a_thousandth(difference: float, states: int, tmp_path: Path) -> None:
    ways = f"0 1 1 1 0,0\n0 2 1 2 0,0\n1 3 2 3 0,0\n1 3 3 4 1,0\n2 3 2 3 0,0\n2 3 3 4 0.5,{0.5 + difference}\n3\n"
    (tmp_path / "lat").write_text(f"u\n{ways}\n")
    ((_, lattice),) = open_lattice_table(f"ark:{tmp_path}/lat")
    found, _ = determinized_whole(lattice, WholeDeterminizingOptions(minimize=True))
    assert found.fst.num_states == states
