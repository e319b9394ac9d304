"""The whole demo: loads the data, trains each network, writes the results and says how it went."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import torch
from rich.console import Console

from nnet3.cli.demo.digits import digit_tasks
from nnet3.cli.demo.report import write_report
from nnet3.cli.demo.run_task import run_task
from nnet3.cli.demo.speech import speech_tasks
from nnet3.errors import Nnet3Error


def run_demo(speech: str | None, folder: str, seed: int) -> None:
    """Trains on scanned digits, or on the spoken ones of the ZIP `speech`, and writes the results to `folder`.

    Raises Nnet3Error if a network does not reach the accuracy it should.
    """
    torch.set_num_threads(1)  # these matrices are small: more threads only wait for each other
    console = Console() if sys.stdout.isatty() else Console(width=120)
    start = time.perf_counter()
    title = "Spoken digits" if speech else "Scanned handwritten digits"
    console.print(f"{title}: loading", highlight=False)
    tasks = speech_tasks(speech, seed) if speech else digit_tasks(seed)
    root = Path(folder)
    results = [run_task(task, root / task.name if len(tasks) > 1 else root, console, seed) for task in tasks]
    write_report(results, root / "report.png", title)
    console.print()
    for result in results:
        verdict = (
            "learnt" if result.accuracy >= result.task.goal else f"below the {result.task.goal:.0%} it should reach"
        )
        console.print(f"{result.task.name.upper():<5} {result.accuracy:.1%} accuracy: {verdict}", style="bold")
    console.print(f"Results are in {root}/ (look at {root}/report.png); {time.perf_counter() - start:.0f} s in all.")
    failed = [result for result in results if result.accuracy < result.task.goal]
    if failed:
        raise Nnet3Error(f"{len(failed)} of {len(results)} networks did not reach the accuracy they should")
