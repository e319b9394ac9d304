"""One class name has one meaning."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "src" / "nnet3"


def test_no_two_classes_have_the_same_name() -> None:
    places = defaultdict(list)
    for path in sorted(SOURCE.rglob("*.py")):
        for name in re.findall(r"^class ([A-Za-z]\w*)", path.read_text(), re.MULTILINE):
            places[name].append(str(path.relative_to(SOURCE)))
    assert len(places) > 500
    assert {name: found for name, found in places.items() if len(found) > 1} == {}
