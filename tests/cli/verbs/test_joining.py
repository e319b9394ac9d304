"""Options of the verbs that join lattices: what is refused before a table is read."""

from __future__ import annotations

import pytest

from tests.cli.run_command import Cli

TABLES = "ark:lat", "ark:other", "ark:out"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("lattice-compose", "--compose-with-fst=false", "ark:lat", "G.fst", "ark:out"), "not with a single one"),
        (("lattice-compose", "--compose-with-fst=maybe", *TABLES), "'maybe' is not one of"),
        (("lattice-compose", "--rho-label=4", *TABLES), "arcs that stand for other labels are not composed"),
        (("lattice-oracle", "--wildcard-symbols=5:x", *TABLES), "give numbers of words, such as 5:7"),
        (("lattice-oracle", "--wildcard-symbols-list=list", *TABLES), "give --wildcard-symbols, a list of numbers"),
        (("lattice-union", "ark:lat", "ark:out"), "Missing argument 'LATTICE-WSPECIFIER'"),
        (("linear-to-nbest", *TABLES), "Missing argument"),
    ],
)
def test_wrong_usage(cli: Cli, arguments: tuple[str, ...], message: str) -> None:
    outcome = cli(*arguments)
    assert outcome.status == 2
    assert message in outcome.err
