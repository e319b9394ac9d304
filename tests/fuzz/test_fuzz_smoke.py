"""Damaged model files, as `make fuzz` makes and judges them by the thousand."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

from tests.effort import nightly
from tests.patience import PATIENCE
from tests.shared_data import SHARED, needs_shared

ROOT = Path(__file__).resolve().parents[2]

# A reader that has a bug: it does not expect files to end.
FRAGILE = """
from nnet3.kaldi_io import Reader
from tools.fuzz_model_files import main
def need(self, count, what):
    assert count <= self.left
Reader.need = need
main()
"""


def _fuzz(python: Path, program: tuple[str, str], *options: str) -> subprocess.CompletedProcess[str]:
    command = [python, *program, "--shared", str(SHARED), "--no-limits", "--seconds", "inf", *options]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE, check=False)


@needs_shared
def test_damaged_files_load_or_are_refused(tmp_path: Path, programs: Path) -> None:
    program = ("-m", "tools.fuzz_model_files")
    options = ("--seed", "7", "--mutants", "120", "--out", str(tmp_path / "out"))
    result = _fuzz(programs / "python", program, *options)
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.startswith("120 damaged files in ")
    assert not (tmp_path / "out").exists()


@needs_shared
@nightly
def test_findings_are_saved(tmp_path: Path, programs: Path) -> None:
    options = ("--seed", "7", "--mutants", "60", "--out", str(tmp_path / "out"))
    result = _fuzz(programs / "python", ("-c", FRAGILE), *options)
    assert result.returncode == 1, result.stdout + result.stderr
    assert "load: AssertionError in <string>:5 need" in result.stdout
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
