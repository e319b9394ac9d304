"""Damage Kaldi's own model files and training examples, and small files of all other readers (`fuzz_readers`), in
thousands of ways and load them.

    python -m tools.fuzz_model_files --shared ../shared --seconds 600 --workers 2

Every damaged file must either load or be refused by a ModelFormatError, within a second and without memory out of
proportion to its size; what loads must be written and read back to the same bytes. Anything else is a finding: the
damaged file and the traceback are put into `fuzz-out/`, and the exit status is 1. Mutant N of seed S is always the
same: `--seed S --only N` runs it alone.
"""

from __future__ import annotations

import math
import multiprocessing
import random
import resource
import signal
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import click

from nnet3.errors import ModelFormatError
from tools.fuzz_chain import CHAIN_KINDS
from tools.fuzz_graphs import GRAPH_KINDS
from tools.fuzz_kinds import KINDS, FuzzKind
from tools.fuzz_readers import READER_KINDS
from tools.model_mutations import mutate

ALL_KINDS = KINDS + CHAIN_KINDS + GRAPH_KINDS + READER_KINDS
SPARE_MEMORY_TO_LOAD = 64 << 20
SPARE_MEMORY_TO_USE = 512 << 20
MOST_SAVED_PER_PLACE = 3


@dataclass(frozen=True)
class Limits:
    """Seconds: of the processor to load a file and to use it, and until it is said to hang (0: never)."""

    load: float = 1.0
    use: float = 10.0
    hanging: float = 60.0


NO_LIMITS = Limits(math.inf, math.inf, 0.0)


@dataclass
class Finding:
    """A mutant that did what it should not."""

    number: int
    where: str  # equal for findings that are probably the same
    details: str
    contents: bytes


@dataclass
class Counts:
    loaded: int = 0
    refused: int = 0
    findings: Counter[str] = field(default_factory=Counter)

    @property
    def mutants(self) -> int:
        return self.loaded + self.refused + self.findings.total()


class TooSlow(BaseException):
    """Raised by the alarm clock."""


class Corpus:
    """Kaldi's files, the small ones more often. Each kind is damaged equally often."""

    def __init__(self, shared: Path, largest: int = 1 << 20, kinds: Sequence[FuzzKind] = ALL_KINDS):
        self.kinds = []
        for kind in kinds:
            files = [data for data in kind.contents(shared / "golden") if len(data) <= largest]
            if not files:
                raise click.UsageError(f"there is no {kind.name} in {shared}: say with --shared where the files are")
            small = [data for data in files if len(data) < 20000]
            self.kinds.append((kind, files, [1 / (len(data) + 2000) for data in files], small))

    def mutant(self, seed: int, number: int) -> tuple[FuzzKind, bytes]:
        """Its kind, and the damaged contents."""
        rng = random.Random(f"{seed} {number}")
        kind, files, weights, small = rng.choice(self.kinds)
        return kind, mutate(rng.choices(files, weights)[0], rng, small)


def limit_memory(growth: int) -> None:
    """Let the process grow by so many bytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + growth
    resource.setrlimit(resource.RLIMIT_AS, (most, resource.RLIM_INFINITY))


def run_mutant(number: int, kind: FuzzKind, contents: bytes, counts: Counts, limits: Limits) -> Finding | None:
    start = time.process_time()
    stage, most_seconds = "load", limits.load
    try:
        limit_memory(SPARE_MEMORY_TO_LOAD + 3 * len(contents))
        signal.setitimer(signal.ITIMER_REAL, limits.hanging)
        loaded = kind.load(contents)
        check_time(start, most_seconds)
        stage, most_seconds, start = "use", limits.use, time.process_time()
        limit_memory(SPARE_MEMORY_TO_USE + 6 * len(contents))
        kind.use(loaded)
        check_time(start, most_seconds)
        counts.loaded += 1
    except ModelFormatError as error:
        if stage == "load" and time.process_time() - start <= most_seconds:
            counts.refused += 1
            return None
        return _finding(number, stage, error, contents)
    except (Exception, TooSlow) as error:
        return _finding(number, stage, error, contents)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    return None


def check_time(start: float, most_seconds: float) -> None:
    seconds = time.process_time() - start
    if seconds > most_seconds:
        raise TooSlow(f"it took {seconds:.2f} seconds")


def _finding(number: int, stage: str, error: BaseException, contents: bytes) -> Finding:
    last = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{stage}: {type(error).__name__} in {Path(last.filename).name}:{last.lineno} {last.name}"
    return Finding(number, where, "".join(traceback.format_exception(error)), contents)


def work(
    shared: str, seed: int, numbers: range, deadline: float, limits: Limits, current: Any, results: Connection
) -> None:
    """Run the mutants `numbers` until the deadline; send findings as they come, then the counts."""
    warnings.simplefilter("error")
    signal.signal(signal.SIGALRM, _alarm)
    corpus, counts = Corpus(Path(shared)), Counts()
    for number in numbers:
        if time.time() > deadline:
            break
        current.value = number
        kind, contents = corpus.mutant(seed, number)
        finding = run_mutant(number, kind, contents, counts, limits)
        if finding:
            counts.findings[finding.where] += 1
            if counts.findings[finding.where] <= MOST_SAVED_PER_PLACE:
                results.send(finding)
    results.send(counts)


def _alarm(signal_number: int, frame: object) -> None:
    raise TooSlow("it hangs")


@dataclass
class Worker:
    """A process, restarted behind the mutant that killed it."""

    arguments: tuple[str, int, range, float, Limits]
    number: int
    counts: Counts = field(default_factory=Counts)

    def __post_init__(self) -> None:
        self.start(self.arguments[2])

    def start(self, numbers: range) -> None:
        context = multiprocessing.get_context("fork")  # at once, with all that is loaded
        self.numbers, self.current, self.done = numbers, context.Value("q", numbers.start), False
        self.results, sending = context.Pipe(duplex=False)
        shared, seed, _, deadline, limits = self.arguments
        arguments = (shared, seed, numbers, deadline, limits, self.current, sending)
        self.process = context.Process(target=work, args=arguments)
        self.process.start()
        sending.close()

    def collect(self) -> list[Finding]:
        """What has come in; a process that died is a finding too."""
        findings: list[Finding] = []
        try:
            while self.results.poll():
                message = self.results.recv()
                if isinstance(message, Finding):
                    findings.append(message)
                else:
                    self.done = True
                    self.counts.loaded += message.loaded
                    self.counts.refused += message.refused
                    self.counts.findings += message.findings
        except EOFError:
            pass
        if not self.done and not self.process.is_alive():
            number = self.current.value
            where = f"the process ended with status {self.process.exitcode}"
            findings.append(Finding(number, where, where, b""))
            self.counts.findings[where] += 1
            self.start(range(number + self.numbers.step, self.numbers.stop, self.numbers.step))
        return findings


def save(finding: Finding, seed: int, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    stem = folder / f"{seed}-{finding.number}"
    stem.with_suffix(".model").write_bytes(finding.contents)
    repeat = f"again: python -m tools.fuzz_model_files --seed {seed} --only {finding.number}\n\n"
    stem.with_suffix(".txt").write_text(f"{finding.where}\n{repeat}{finding.details}")
    click.echo(f"mutant {finding.number}: {finding.where}")


def fuzz(shared: str, seed: int, mutants: int, seconds: float, workers: int, out: Path, limits: Limits) -> Counts:
    deadline = time.time() + seconds
    crew = [Worker((shared, seed, range(k, mutants, workers), deadline, limits), k) for k in range(workers)]
    while True:
        for worker in crew:
            for finding in worker.collect():
                save(finding, seed, out)
        if all(worker.done for worker in crew):
            break
        time.sleep(0.2)
    total = Counts()
    for worker in crew:
        worker.process.join()
        total.loaded += worker.counts.loaded
        total.refused += worker.counts.refused
        total.findings += worker.counts.findings
    return total


@click.command()
@click.option("--shared", default="../shared", show_default=True, help="Folder that has golden/.")
@click.option("--mutants", default=10**9, help="Stop after so many damaged files.")
@click.option("--seconds", default=600.0, show_default=True, help="Stop after so much time.")
@click.option("--workers", default=1, show_default=True, help="Processes.")
@click.option("--seed", default=0, show_default=True)
@click.option("--out", default="fuzz-out", show_default=True, type=click.Path(path_type=Path), help="For findings.")
@click.option("--no-limits", is_flag=True, help="A file may take as long as it likes: tests are no race.")
@click.option("--only", type=int, help="Run this mutant alone, without limits, and show what happens.")
def main(
    shared: str, mutants: int, seconds: float, workers: int, seed: int, out: Path, no_limits: bool, only: int | None
) -> None:
    if only is not None:
        kind, contents = Corpus(Path(shared)).mutant(seed, only)
        kind.use(kind.load(contents))
        return
    start = time.time()
    counts = fuzz(shared, seed, mutants, seconds, workers, out, NO_LIMITS if no_limits else Limits())
    took = time.time() - start
    click.echo(
        f"{counts.mutants} damaged files in {took:.0f} s ({counts.mutants / took:.0f}/s): {counts.loaded} loaded, "
        f"{counts.refused} refused, {counts.findings.total()} findings"
    )
    for where, count in counts.findings.most_common():
        click.echo(f"{count:8} {where}")
    if counts.findings:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
