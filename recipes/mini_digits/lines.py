"""Runs verbs of nnet3 as a shell would, some at a time, and keeps what they say."""

from __future__ import annotations

import contextlib
import multiprocessing
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from nnet3.cli.run import run
from nnet3.errors import Nnet3Error

_SAID = 1500  # characters of a failed line's messages that are shown

# Processes of verbs begin as copies of one that has imported what takes long.
_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["__main__", "torch", "nnet3.cli.run"])


def _run_verb(words: list[str], said: Path, printed: Path | None) -> int:
    """Runs a verb; returns its status. Messages go to one file, what it prints to another one or to the same."""
    with (
        said.open("a") as errors,
        (printed or said).open("a" if printed is None else "w") as output,
        contextlib.redirect_stdout(output),
        contextlib.redirect_stderr(errors),
    ):
        return run(words, "nnet3")


def _run_and_exit(words: list[str], said: Path, printed: Path | None) -> None:
    sys.exit(_run_verb(words, said, printed))


@dataclass(frozen=True)
class Lines:
    """`jobs`: how many parts of the data are worked on at once. `processes`: of a training, by torchrun.

    `in_process`: one line after the other in this process, which saves the time that processes take to begin.
    """

    jobs: int = 2
    processes: int = 1
    in_process: bool = False

    def run(self, folder: Path, *lines: str) -> None:
        """Runs verbs one after the other; a line with JOB stands for one for each part of the data, which go at once.

        A line ends with `> FILE` if what it prints goes there. Messages go to `log.txt` in the folder. Raises
        Nnet3Error, with the line and its last messages, for one that fails.
        """
        for line in lines:
            parts = [line.replace("JOB", str(job + 1)) for job in range(self.jobs)] if "JOB" in line else [line]
            with ThreadPoolExecutor(1 if self.in_process else len(parts)) as pool:
                list(pool.map(lambda part: self._one(folder, part), parts))

    def train(self, folder: Path, settings: Path) -> None:
        """Runs `train-model`, which goes on with what is there, in one process or by torchrun."""
        if self.processes == 1:
            self._one(folder, f"train-model --resume {shlex.quote(str(settings))}")
            return
        launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={self.processes}"]
        self._start(folder, [*launcher, "-m", "nnet3", "train-model", "--resume", str(settings)])

    def _one(self, folder: Path, line: str) -> None:
        words = shlex.split(line)
        target = folder / words.pop() if ">" in words else None
        if target is not None:
            words.remove(">")
        with tempfile.TemporaryDirectory() as place:
            said = Path(place) / "said"
            if self.in_process:
                status = _run_verb(words, said, target)
            else:
                process = _FORKS.Process(target=_run_and_exit, args=(words, said, target))
                process.start()
                process.join()
                status = process.exitcode or 0
            messages = said.read_text() if said.exists() else ""
        with (folder / "log.txt").open("a") as log:
            log.write(f"# nnet3 {line}\n{messages}")
        self._check(status, f"nnet3 {line}", messages)

    def _start(self, folder: Path, words: Sequence[str]) -> None:
        command = [sys.executable, *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        with (folder / "log.txt").open("a") as log:
            log.write(f"# {shlex.join(words[1:])}\n{done.stderr}{done.stdout}")
        self._check(done.returncode, shlex.join(words[1:]), done.stderr)

    @staticmethod
    def _check(status: int, line: str, said: str) -> None:
        if status:
            raise Nnet3Error(f"this line has failed with status {status}:\n  {line}\n{said[-_SAID:]}")
