"""Damaged model files, as `make fuzz` makes and judges them by the thousand."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import PATIENCE
from tests.shared_data import SHARED, needs_shared

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src"


def _fuzz(*options: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(SOURCE)}
    command = [sys.executable, "-m", "tools.fuzz_model_files", "--shared", str(SHARED), "--no-limits", *options]
    command += ["--seconds", "inf"]
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False
    )


@needs_shared
def test_damaged_files_load_or_are_refused(tmp_path: Path) -> None:
    result = _fuzz("--seed", "7", "--mutants", "120", "--out", str(tmp_path / "out"))
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.startswith("120 damaged files in ")
    assert not (tmp_path / "out").exists()


@needs_shared
def test_findings_are_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a reader that has a bug: it does not expect files to end."""
    (tmp_path / "sitecustomize.py").write_text(
        "from nnet3.kaldi_io import Reader\n"
        "def need(self, count, what):\n"
        "    assert count <= self.left\n"
        "Reader.need = need\n"
    )
    monkeypatch.setattr(sys.modules[__name__], "SOURCE", f"{SOURCE}{os.pathsep}{tmp_path}")
    result = _fuzz("--seed", "7", "--mutants", "60", "--out", str(tmp_path / "out"))
    assert result.returncode == 1, result.stdout + result.stderr
    assert "load: AssertionError in sitecustomize.py:3 need" in result.stdout
    saved = sorted((tmp_path / "out").glob("7-*.txt"))
    assert saved
    assert all(path.with_suffix(".model").exists() for path in saved)
    assert "--seed 7 --only " in saved[0].read_text()


def test_mutations_can_be_repeated() -> None:
    from tools.model_mutations import MUTATIONS, mutate

    contents = b"\0B<FixedScaleComponent> <Scales> FV \x04\x02\0\0\0\0\0\x80\x3f\0\0\0\x40</FixedScaleComponent> "
    text = (
        b"<Nnet3> \ninput-node name=input dim=2\noutput-node name=output input=input\n\n<NumComponents> 0 \n</Nnet3> "
    )
    results = {mutate(contents, random.Random(seed), [text]) for seed in range(300)}
    assert len(results) > 200
    assert mutate(contents, random.Random(5), [text]) == mutate(contents, random.Random(5), [text])
    for mutation in MUTATIONS:
        for seed in range(50):
            mutation(rng=random.Random(seed), contents=b"", others=[text])
        changed = [
            mutation(each, random.Random(seed), [text]) != each for each in (contents, text) for seed in range(50)
        ]
        assert any(changed), mutation.__name__
