"""How long tests wait for what must come: no machine is so slow, only what hangs takes longer."""

from __future__ import annotations

PATIENCE = 600.0  # seconds
