"""How many random things tests draw: TEST_EFFORT times what is enough for every day (`TEST_EFFORT=10 make test`)."""

from __future__ import annotations

import os

EFFORT = int(os.environ.get("TEST_EFFORT", "1"))
