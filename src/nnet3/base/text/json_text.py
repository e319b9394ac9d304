"""JSON of files and messages, which may be damaged or hostile."""

from __future__ import annotations

import json
from typing import Any


def read_json(text: str | bytes) -> Any:
    """Returns the value of a JSON text. Raises ValueError for what is none, or is nested too deep to be read."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("brackets are nested too deep") from None
