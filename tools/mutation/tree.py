"""A copy of the repository in which files are changed; the checkout itself is never touched."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tools.mutation.mutant import Mutant


class Tree:
    """`root` is the copy, beside which the shared folder is linked."""

    def __init__(self, checkout: Path, folder: Path, shared: Path):
        self.checkout, self.folder, self.root = checkout, folder, folder / "tree"
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=checkout, capture_output=True, check=True,
        ).stdout.decode()  # fmt: skip
        self.files = sorted(name for name in listed.split("\0") if name and (checkout / name).is_file())
        self._update()
        self.environment = {
            "PYTHONPATH": str(self.root / "src"),
            "NNET3_SHARED": str(shared.resolve()),
            "OMP_NUM_THREADS": "1",
        }
        self._times = itertools.count(10**9)  # of changed files: no compiled file is taken for that of another

    def _update(self) -> None:
        """Copy what differs, remove what is gone."""
        self.root.mkdir(parents=True, exist_ok=True)
        wanted = set(self.files)
        for path in [p for p in self.root.rglob("*") if p.is_file()]:
            if str(path.relative_to(self.root)) not in wanted and "__pycache__" not in path.parts:
                path.unlink()
        for name in self.files:
            source, target = self.checkout / name, self.root / name
            if not target.is_file() or source.read_bytes() != target.read_bytes():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, target)

    def read(self, name: str) -> str:
        return (self.root / name).read_text(encoding="utf-8")

    @contextmanager
    def changed(self, mutant: Mutant) -> Iterator[None]:
        """With the bug put in."""
        path = self.root / mutant.path
        before = path.stat()
        try:
            path.write_text(mutant.mutated, encoding="utf-8")
            moment = next(self._times)
            os.utime(path, (moment, moment))
            yield
        finally:
            path.write_text(mutant.text, encoding="utf-8")
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
