"""Small files for command lines: what lies in inputs/, and tables of a task that a network can learn, as text."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

_FRAMES = {"utt1": 30, "utt2": 12, "utt3": 3, "utt4": 25, "utt5": 41, "utt6": 20, "utt7": 33, "utt8": 27}
_DIM, _PDFS = 5, 3


def make_inputs(folder: Path) -> None:
    """Writes the same files every time: Python's generator, with a seed, and digits that are few."""
    shutil.copytree(Path(__file__).with_name("inputs"), folder, dirs_exist_ok=True)
    rng = random.Random(0)
    tables: dict[str, dict[str, str]] = {}
    for key, frames in _FRAMES.items():
        pdfs = [rng.randrange(_PDFS) for _ in range(frames)]
        features = [[rng.gauss(2.0 * (pdf == k), 1.0) for k in range(_DIM)] for pdf in pdfs]
        entries = {
            "feats": _matrix(features),
            "pdf": " ".join(map(str, pdfs)),
            "post": " ".join(f"[ {pdf} 0.75 {(pdf + 1) % _PDFS} 0.25 ]" for pdf in pdfs),
            "targets": _matrix([[sum(row), row[0] - row[1]] for row in features]),
            "ivectors": _matrix([[rng.gauss(0.0, 1.0) for _ in range(2)] for _ in range(0, frames, 10)]),
            "vectors": f"[ {rng.gauss(0.0, 1.0):.3f} {rng.gauss(0.0, 1.0):.3f} ]",
            "utt2spk": "anna" if int(key[-1]) % 2 else "bert",
        }
        for name, entry in entries.items():
            tables.setdefault(name, {})[key] = entry
    for name, entries in tables.items():
        (folder / name).write_text("".join(f"{key} {entry}\n" for key, entry in entries.items()))
    (folder / "speakers").write_text("anna [ 0.5 -1 ]\nbert [ -0.25 2 ]\n")


def _matrix(rows: list[list[float]]) -> str:
    return "[\n" + "\n".join(" ".join(f"{value:.3f}" for value in row) for row in rows) + " ]"
