"""Measure everything and write docs/benchmarks.md: `make bench`, or for a look `python -m benchmarks.page --quick`.

What is measured is kept in bench-out/results.json; `--only-page` writes the page of what is there.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click

from benchmarks.cn_training import CASES as GRAPHS
from benchmarks.page.text import FIGURE, page, plot

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT = 1200.0  # seconds for one case
_GRAPHS_WANTED = {
    "MLP 20-32-5, 32 samples": 1.2,
    "CNN 32 and 64, 64 images": 1.2,
    "LSTM 512, 16 x 100": 1.0,
    "LSTM 512, 16 x 100, as one node": 1.0,
}


def cases(*, quick: bool) -> Iterator[dict[str, Any]]:
    """What is measured, in the order of the page, with the ratios that are wanted."""
    seconds = 3.0 if quick else 12.0
    for threads in (1, 2):
        yield {"what": "machine", "name": "", "threads": threads, "seconds": seconds / 2}
    for name, sequences, threads, wanted in (
        ("tdnnf", 1, 1, {"PyTorch": 0.9, "onnxruntime": 0.95}),
        ("tdnnf", 16, 1, {"PyTorch": 0.8, "onnxruntime": 0.95}),
        ("tdnnf", 1, 2, {"PyTorch": 0.9}),
        ("tdnnf", 16, 2, {"PyTorch": 0.9}),
        ("tdnn_lstm", 1, 1, {"PyTorch": 0.8}),
        ("blstm", 1, 1, {"PyTorch": 0.8}),
        ("tdnn_opgru", 1, 1, {"PyTorch": 0.8}),
    ):
        yield {"what": "forward", "name": name, "sequences": sequences, "threads": threads, "seconds": seconds,
               "wanted": wanted}  # fmt: skip
    for name, sequences, frames in (
        ("tdnnf", 16 if quick else 64, 50), ("tdnn_lstm", 16, 20), ("blstm", 16, 20), ("tdnn_opgru", 16, 20),
    ):  # fmt: skip
        case = {"name": name, "sequences": sequences, "frames": frames}
        wanted = {"PyTorch": 0.95, "memory": 0.6, "natural": 0.1} if name == "tdnnf" else {}
        yield {"what": "training", **case, "seconds": 3 * seconds, "wanted": wanted}
        for who in () if quick and name != "tdnnf" else ("ours", "PyTorch"):
            yield {"what": "memory", **case, "who": who}
    for name in GRAPHS:
        wanted = {"PyTorch": _GRAPHS_WANTED[name]} if name in _GRAPHS_WANTED else {}
        yield {"what": "graph", "name": name, "seconds": seconds / 2, "wanted": wanted}


def measure(case: dict[str, Any], folder: Path, *, quick: bool) -> dict[str, Any]:
    """The case with what it has measured, or with why it has not."""
    filled = {"sequences": 1, "frames": 50, "threads": 1, "seconds": 1.0, "who": "ours", "wanted": {}, **case}
    words = [str(filled[key]) for key in ("what", "name", "sequences", "frames")]
    options = [f"--{key}={filled[key]}" for key in ("threads", "seconds", "who")]
    command = [sys.executable, "-m", "benchmarks.page.cases", *words, *options, f"--folder={folder}"]
    threads = str(filled["threads"])
    environment = {**os.environ, "OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads}
    try:
        done = subprocess.run(
            [*command, *(["--quick"] if quick else [])],
            cwd=ROOT, env=environment, capture_output=True, text=True, timeout=TIMEOUT, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return {**filled, "failed": f"took more than {TIMEOUT:.0f} s"}
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        return {**filled, "failed": (done.stderr.strip().splitlines() or ["no output"])[-1][:200]}
    return {**filled, **json.loads(lines[-1])}


def about() -> dict[str, Any]:
    processor = platform.processor() or platform.machine()
    if Path("/proc/cpuinfo").exists():
        names = [line.partition(":")[2].strip() for line in Path("/proc/cpuinfo").read_text().splitlines()
                 if line.startswith("model name")]  # fmt: skip
        processor = names[0] if names else processor
    return {
        "what": "about",
        "processor": processor,
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0,
        "python": platform.python_version(),
        **{name: version(name) for name in ("torch", "onnxruntime")},
        "date": time.strftime("%Y-%m-%d"),
        **{"name": "", "sequences": 0, "frames": 0, "threads": 0},
    }


@click.command(help=__doc__)
@click.option("--quick", is_flag=True, help="Fewer rounds, a smaller minibatch, no torch.compile: a few minutes.")
@click.option("--only-page", is_flag=True, help="Write the page of what was measured before.")
@click.option("--only", default="", help="Measure only cases whose kind or network has this in it; keep the others.")
@click.option("--folder", type=click.Path(path_type=Path), default=ROOT / "../shared/golden/bench")
@click.option("--out", type=click.Path(path_type=Path), default=ROOT / "bench-out", help="Folder of the results.")
@click.option("--docs", type=click.Path(path_type=Path), default=ROOT / "docs", help="Folder of the page.")
def main(quick: bool, only_page: bool, only: str, folder: Path, out: Path, docs: Path) -> None:
    results_file = out / "results.json"
    known: list[dict[str, Any]] = json.loads(results_file.read_text()) if results_file.exists() else []
    results = known if only_page else [about()]
    out.mkdir(exist_ok=True)
    try:
        for case in () if only_page else cases(quick=quick):
            text = f"{case['what']} {case['name']} {case.get('sequences', '')} {case.get('who', '')}".strip()
            if only not in text:
                same = ("what", "name", "sequences", "frames", "threads", "who")
                results += [r for r in known if all(r.get(key) == case[key] for key in same if key in case)]
                continue
            start, found = time.perf_counter(), measure(case, folder.resolve(), quick=quick)
            results.append(found)
            results_file.write_text(json.dumps(results))
            click.echo(f"{time.perf_counter() - start:6.0f} s  {text}: {found.get('failed', 'measured')}")
    finally:  # also when it is interrupted: the page of what there is
        if len(results) > 1:
            results_file.write_text(json.dumps(results))
            (docs / FIGURE).parent.mkdir(parents=True, exist_ok=True)
            plot(results, docs / FIGURE)
            (docs / "benchmarks.md").write_text(page(results))
            click.echo(f"{docs / 'benchmarks.md'}")


if __name__ == "__main__":
    main()
