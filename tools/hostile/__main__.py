"""Tries every verb on a full disk, killed, with its output over its input, and in a read-only folder.

Each verb is tried by command lines of the list of `tools.command_lines`: the first one that writes files. A verb that
fails must say why in one message; inputs stay as they are, outputs are whole or not there, and only a killed process
may leave a temporary file. The exit status is 1 if anything was wrong.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import click

from nnet3.cli.verb_table import VERBS
from tests.cli.prepared_programs import installed_scripts, prepared_programs
from tools.command_lines.__main__ import LIST, read_groups
from tools.command_lines.running import ENVIRONMENT, PASSED_ON, ROOT
from tools.hostile.samples import Programs, find_samples
from tools.hostile.trials import CASES, Disk, Trials, Verdict

_SIZE = "256m"
_VERB, _WIDTH = 28, 20


@contextlib.contextmanager
def own_disk(folder: Path) -> Iterator[Disk]:
    """Yields a small disk in memory if we may mount one, else the folder."""
    folder.mkdir()
    os.chmod(folder, 0o755)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={_SIZE}", "tmpfs", str(folder)]
    is_own = os.geteuid() == 0 and subprocess.run(mount, capture_output=True).returncode == 0
    try:
        yield Disk(folder, is_own)
    finally:
        if is_own:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)


def try_verbs(
    verbs: set[str], groups: dict[str, list[str]], shared: Path, place: Path
) -> Iterator[tuple[str, dict[str, Verdict] | None]]:
    """Yields what each verb did in each case; None for verbs of which no command line succeeds."""
    os.chmod(place, 0o755)
    passed_on = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    os.environ.clear()
    os.environ.update({**passed_on, **ENVIRONMENT})
    seen = set()
    with prepared_programs(installed_scripts(), "nnet3") as folder, own_disk(place / "disk") as disk:
        programs = Programs(folder)
        os.environ["PATH"] = f"{folder}:{Path(sys.executable).parent}:{os.environ['PATH']}"
        os.environ["HOME"] = str(place)
        trials = Trials(programs, disk)
        for sample in find_samples(groups, verbs, shared, programs, place):
            seen.add(sample.verb)
            yield sample.verb, trials.verdicts(sample)
    yield from ((verb, None) for verb in sorted(verbs - seen))


@click.command()
@click.option(
    "--shared", type=click.Path(exists=True, path_type=Path), default=ROOT.parent / "shared", show_default=True
)
@click.option("--list", "file", type=click.Path(exists=True, path_type=Path), default=LIST, help="The command lines.")
@click.argument("verbs", nargs=-1, metavar="[VERB]...")
def main(shared: Path, file: Path, verbs: tuple[str, ...]) -> None:
    """Try every verb, or those that are named, and print a table."""
    start, wrong, left = time.monotonic(), list[str](), set[str]()
    print(f"{'':{_VERB}}" + "".join(f"{case:{_WIDTH}}" for case in CASES))
    with tempfile.TemporaryDirectory() as folder:
        for verb, verdicts in try_verbs(set(verbs or VERBS), read_groups(file.read_text()), shared, Path(folder)):
            cells = [str(verdict) for verdict in verdicts.values()] if verdicts else ["no command line succeeds"]
            print(f"{verb:{_VERB}}" + "".join(f"{cell:{_WIDTH}}" for cell in cells), flush=True)
            for case, verdict in (verdicts or {}).items():
                wrong += verdict.wrong
                left |= {verb} if verdict.left else set()
                print(*(f"    {case}: {each}" for each in verdict.wrong), sep="\n", end="\n" if verdict.wrong else "")
    print(f"killed processes have left temporary files of: {', '.join(sorted(left)) or 'none'}")
    print(f"{len(wrong)} wrong; {time.monotonic() - start:.0f} s")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
