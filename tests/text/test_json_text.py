"""JSON that may be damaged or hostile."""

from __future__ import annotations

import pytest

from nnet3.base.text import read_json


def test_values_are_read() -> None:
    assert read_json(b'{"a": [1, 2.5, null]}') == {"a": [1, 2.5, None]}


@pytest.mark.parametrize("text", ["", "[", "[" * 100_000, '{"a":' * 100_000, "9" * 5000, b"\xff", b"\xff\xfe1"])
def test_every_other_text_is_a_value_error(text: str | bytes) -> None:
    with pytest.raises(ValueError):
        read_json(text)
