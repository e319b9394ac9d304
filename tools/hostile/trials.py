"""What is done to a command line, and what must hold then: inputs unchanged, outputs whole or absent, one message."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise, product
from pathlib import Path

from tools.hostile.harm import Harm
from tools.hostile.samples import Contents, Outcome, Programs, Sample, contents

CASES = ("full disk", "killed", "output over input", "read-only folder")
_FULL = "/dev/full"
_TEMPORARY = re.compile(r"\.[^/]*\.tmp(/|$)")
_KEPT = re.compile(r"finished utterances are kept in (.*)")
_NUMBERS = re.compile(r"\d+(\.\d+)?")
_MOST_KILLS = 16


@dataclass
class Verdict:
    """Of a command line in a case: how often it was tried, what was wrong, and what killed processes have left."""

    tried: int = 0
    wrong: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        if not self.tried:
            return "-"
        return f"{len(self.wrong)} of {self.tried} wrong" if self.wrong else f"ok ({self.tried})"


class Disk:
    """A place for trials: a small disk of our own, which can be full, if the system lets us have one."""

    def __init__(self, place: Path, is_own: bool):
        self.place, self.is_own = place, is_own

    @contextlib.contextmanager
    def full(self, free: int) -> Iterator[None]:
        """Leaves so many bytes free."""
        status = os.statvfs(self.place)
        with open(self.place / "filler", "wb") as file:
            if taken := status.f_bavail * status.f_frsize - free:
                os.posix_fallocate(file.fileno(), 0, taken)
        try:
            yield
        finally:
            (self.place / "filler").unlink()


class Trials:
    """Tries a command line in all cases."""

    def __init__(self, programs: Programs, disk: Disk):
        self._programs, self._disk = programs, disk

    def verdicts(self, sample: Sample) -> dict[str, Verdict]:
        cases: dict[str, Callable[[Sample, Verdict], None]] = {
            "full disk": self._full_disk,
            "killed": self._killed,
            "output over input": self._over_input,
            "read-only folder": self._read_only,
        }
        assert tuple(cases) == CASES
        found = {case: Verdict() for case in CASES}
        for case, function in cases.items():
            function(sample, found[case])
        return found

    def _full_disk(self, sample: Sample, verdict: Verdict) -> None:
        if sample.outcome.out:
            self._fails(sample, verdict, "standard output is full", Harm(), out=_FULL)
        if not sample.made:
            return
        for bytes_free in _below(max(sample.sizes)):
            self._fails(sample, verdict, f"files of {bytes_free} bytes", Harm(largest=bytes_free))
        pages = sum(-(-size // 4096) for size in sample.sizes)
        for free in _below(pages) if self._disk.is_own else ():
            self._fails(sample, verdict, f"{4 * free} KB free", Harm(), free=4096 * free)

    def _read_only(self, sample: Sample, verdict: Verdict) -> None:
        if sample.made:
            harm = Harm(has_no_privileges=True)
            self._fails(sample, verdict, "no folder can be written", harm, prepare=_read_only)

    def _killed(self, sample: Sample, verdict: Verdict) -> None:
        if not sample.made:
            return
        with tempfile.NamedTemporaryFile() as moments:
            with self._folder(sample) as folder:
                self._programs.run(sample.words, folder, Harm(moments=moments.name))
            count = os.stat(moments.name).st_size
        every = max(1, -(-count // _MOST_KILLS))
        largest = max(sample.sizes)
        harms = [Harm(kill_at=count - k) for k in range(0, count, every)]
        harms += [Harm(largest=size, is_killed_at_largest=True) for size in {0, largest // 2}]
        for harm in harms:
            at = f"change {harm.kill_at} of {count}" if harm.kill_at else f"byte {harm.largest}"
            with self._folder(sample) as folder:
                before = contents(folder)
                self._programs.run(sample.words, folder, harm)
                after = contents(folder)
            verdict.tried += 1
            left = [path for path in _new(before, after, sample) if _TEMPORARY.search(path)]
            verdict.left += left
            wrong = [each for each in _damage(before, after, sample) if not any(path in each for path in left)]
            verdict.wrong += [f"killed at {at}: {each}" for each in wrong]

    def _over_input(self, sample: Sample, verdict: Verdict) -> None:
        paths = sample.paths()
        inputs = [path for path in paths if sample.has(path) and path not in sample.made]
        outputs = [path for path in paths if path in sample.made or not sample.has(path)]
        for old, new in product(inputs, outputs):
            is_folder = (sample.folder / old).is_dir()
            for way in ("itself", "symbolic link", *(() if is_folder else ("hard link",))):
                self._replaces(sample, verdict, old, new, way)
        for one, other in pairwise(outputs):
            words = tuple(word.replace(other, one) for word in sample.words)
            self._fails(replace(sample, words=words), verdict, f"{other} is {one}", Harm())

    def _replaces(self, sample: Sample, verdict: Verdict, old: str, new: str, way: str) -> None:
        """Lets an output have the place of an input: it fails, or all of it is there."""
        words = sample.words
        if way == "itself":
            words = tuple(re.sub(rf"(?<![^\s=:,|]){re.escape(new)}(?![^\s=:,|])", old, word) for word in words)
        with self._folder(sample) as folder:
            if way != "itself":
                (folder / new).parent.mkdir(parents=True, exist_ok=True)
                (folder / new).unlink(missing_ok=True)
            if way == "hard link":
                os.link((folder / old).resolve(), folder / new)
            elif way == "symbolic link":
                (folder / new).symlink_to(folder / old)
            before = contents(folder)
            outcome = self._programs.run(words, folder, Harm())
            after = contents(folder)
            target = str((folder / old).resolve().relative_to(folder.resolve()))
        verdict.tried += 1
        where = f"{new} is {old} ({way})"
        if outcome.status == 0:
            target = new if way == "hard link" else target
            if new in sample.made and sample.made[new] not in (None, after.get(target)):
                verdict.wrong.append(f"{where}: status 0, but {target} is not what was to be written")
            before = {path: data for path, data in before.items() if not f"{path}/".startswith(f"{target}/")}
        else:
            verdict.wrong += [f"{where}: {each}" for each in _told_wrong(outcome, sample)]
        verdict.wrong += [f"{where}: {each}" for each in _changed(before, after)]

    def _fails(
        self,
        sample: Sample,
        verdict: Verdict,
        where: str,
        harm: Harm,
        *,
        out: str = "",
        free: int | None = None,
        prepare: Callable[[Path], object] = lambda _: None,
    ) -> None:
        """Tries what has to fail with one message, unless all is done nevertheless."""
        with self._folder(sample) as folder, tempfile.TemporaryDirectory() as temporary:
            os.chmod(temporary, 0o777)
            before = contents(folder)
            prepare(folder)
            with contextlib.nullcontext() if free is None else self._disk.full(free):
                outcome = self._programs.run(sample.words, folder, harm, out)
            after = contents(folder)
        verdict.tried += 1
        kept = {path for names in _KEPT.findall(outcome.err) for path in names.split(", ")}
        wrong = [each for each in _damage(before, after, sample) if not any(f"left {path} " in each for path in kept)]
        if outcome.status != 0 or out:
            wrong += _told_wrong(outcome, sample)
        else:
            wrong += [f"status 0 without {path}" for path in sample.made if path not in after]
        verdict.wrong += [f"{where}: {each}" for each in wrong]

    @contextlib.contextmanager
    def _folder(self, sample: Sample) -> Iterator[Path]:
        """Yields a copy of a command line's folder."""
        folder = self._disk.place / "trial"
        shutil.copytree(sample.folder, folder, symlinks=True)
        try:
            yield folder
        finally:
            shutil.rmtree(folder)


def _below(size: int) -> list[int]:
    """Returns sizes of which each is too small for what has this one."""
    return sorted({0, size // 2, max(size - 1, 0)})


def _read_only(folder: Path) -> None:
    for place, _, _ in os.walk(folder):
        os.chmod(place, 0o555)


def _told_wrong(outcome: Outcome, sample: Sample) -> list[str]:
    """Returns what is wrong with how a program that has to fail told of it."""
    if outcome.status not in (1, 2):
        return [f"status {outcome.status}"]
    if "Traceback" in outcome.err:
        return ["traceback: " + outcome.err.strip().splitlines()[-1]]
    usual = {_NUMBERS.sub("#", line) for line in sample.outcome.err.splitlines()}
    lines = [line for line in outcome.err.splitlines() if _NUMBERS.sub("#", line) not in usual]
    told = [line for line in lines if line.startswith(("nnet3: ", "Error: ")) and ": warning: " not in line]
    told = [line for line in told if not _KEPT.search(line)]
    return [] if len(told) == 1 else [f"{len(told)} messages: {' | '.join(lines)[:300]}"]


def _damage(before: Contents, after: Contents, sample: Sample) -> list[str]:
    """Returns what a program that failed should not have done to files."""
    new = _new(before, after, sample)
    half = [path for path in new if sample.made.get(path, b"") is not None and after[path] not in sample.made.values()]
    return _changed(before, after) + [f"left {path} ({len(after[path])} bytes)" for path in half]


def _new(before: Contents, after: Contents, sample: Sample) -> list[str]:
    """Returns the paths of new files that are not whole outputs."""
    new = after.keys() - before.keys()
    return sorted(path for path in new if path not in sample.made or sample.made[path] not in (None, after[path]))


def _changed(before: Contents, after: Contents) -> list[str]:
    return [f"changed {path}" for path, data in before.items() if after.get(path) != data]
