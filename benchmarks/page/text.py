"""The tables and the plot of docs/benchmarks.md, from what the cases have measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib import pyplot

from benchmarks.page.timing import spread

matplotlib.use("Agg")

Result = dict[str, Any]
FIGURE = "figures/benchmarks.png"
_MOST_SHOWN = 2.0  # of the plot: longer bars are cut off
_RUNTIMES = ("onnxruntime", "onnxruntime, PyTorch's file")
_TITLES = {"tdnnf": "TDNN-F", "tdnn_lstm": "TDNN-LSTM", "blstm": "BLSTM", "tdnn_opgru": "TDNN-OPGRU"}

INTRODUCTION = """\
# Benchmarks

This page is written by `make bench`. The networks are those of published recipes at full width (`golden/bench` of the
shared folder): a TDNN-F of 15 layers, 1536 wide with bottlenecks of 160; a TDNN-LSTM of 10 and 3 layers; a BLSTM of 3
layers each way; a TDNN-OPGRU of 7 and 3 layers. "16 x 50" is 16 sequences of 50 output frames, one for every third
input frame. Beside them stand the same networks hand-written in PyTorch (`benchmarks/page/twins.py`), with the same
weights. They leave out the frames that the outputs do not need and multiply by one product before a loop what the loop
knows beforehand. Before anything is timed, outputs must agree to 1e-3, and gradients of a small minibatch, in float64,
to 1e-6.

All is float32. Each case runs in a process of its own, bound to as many cores as it has threads. What is compared takes
turns, round by round; times are medians with the quarters around them, ratios medians of the ratios of each round. A
ratio below 1 means that this project is faster.
"""


def title(result: Result) -> str:
    return f"{_TITLES.get(result['name'], result['name'])} {result['sequences']} x {result['frames']}"


def ratio(result: Result, other: str, ours: str = "ours") -> tuple[float, float, float] | None:
    """Ours as a multiple of another's, of each round: the median and the quarters; None if that was not measured."""
    times = result.get("times", {})
    if ours not in times or other not in times:
        return None
    return spread([one / two for one, two in zip(times[ours], times[other], strict=True)])


def best_runtime(result: Result) -> str:
    """The faster one of the files in onnxruntime."""
    times = result.get("times", {})
    known = [name for name in _RUNTIMES if name in times]
    return min(known, key=lambda name: np.median(times[name]), default="")


def page(results: Sequence[Result]) -> str:
    kinds = {kind: [r for r in results if r["what"] == kind] for kind in ("forward", "training", "memory", "graph")}
    machine = {r["threads"]: r for r in results if r["what"] == "machine"}
    lines = [INTRODUCTION, *_machine(results[0], machine), "", f"![Ratios of times]({FIGURE})", "", "## Forward", ""]
    lines += [*_forward(kinds["forward"], machine), "", "## Training step", ""]
    lines += [
        *_training(kinds["training"], kinds["memory"]),
        "",
        "## Computational networks",
        "",
        *_graphs(kinds["graph"]),
    ]
    notes = list(_notes(results))
    lines += ["", "## What was not measured", "", *notes] if notes else []
    return "\n".join(lines) + "\n"


def _machine(about: Result, machine: dict[int, Result]) -> Iterator[str]:
    versions = f"Python {about['python']}, PyTorch {about['torch']}"
    yield f"Measured on {about['processor']}, {about['cores']} cores, {versions},"
    busy = about["load"] > about["cores"] / 4
    load = f" The machine was busy (load {about['load']:.1f}): only ratios tell something." if busy else ""
    yield f"onnxruntime {about['onnxruntime']}, {about['date']}.{load}"
    yield "What the machine can do at most, in the same run:"
    yield from ("", "| threads | large product, GFLOP/s | copy, read and written, GB/s |", "|---|---|---|")
    for threads, found in sorted(machine.items()):
        if "gflops" in found:
            yield f"| {threads} | {found['gflops']:.1f} | {found['gigabytes']:.1f} |"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(header)} |"
    yield f"|{'---|' * len(header)}"
    yield from (f"| {' | '.join(row)} |" for row in rows)


def _milliseconds(result: Result, name: str) -> str:
    times = result.get("times", {}).get(name)
    if not times:
        return "-"
    median, low, high = (1e3 * each for each in spread(times))
    digits = 0 if median >= 100 else 1 if median >= 10 else 2
    return f"{median:.{digits}f} ({low:.{digits}f} - {high:.{digits}f})"


def _ratio(found: tuple[float, float, float] | None, wanted: float | None = None) -> str:
    if found is None:
        return "-"
    text = f"**{found[0]:.2f}** ({found[1]:.2f} - {found[2]:.2f})"
    return text if wanted is None else f"{text}, wanted {wanted:g}"


def _forward(results: Sequence[Result], machine: dict[int, Result]) -> Iterator[str]:
    yield "Milliseconds, in test mode. `torch.compile` compiles whole feed-forward networks, and of recurrent ones what"
    yield "each step does to the elements of its gates. onnxruntime runs the file that this project writes and, of the"
    yield "TDNN-F, the one that `torch.onnx.export` writes of the hand-written network; the faster one counts."
    yield '"Packed" is the network that `nnet.pack()` gives, for 16 sequences with `many_rows=True`, which verbs and'
    yield "recognizers run: its weights lie as they are multiplied fastest, as those of onnxruntime do, and native code"
    yield "runs the steps of its recurrences. What is wanted is wanted of it."
    yield ""
    header = ("network", "threads", "nnet3", "packed", "PyTorch", "torch.compile", "onnxruntime", "nnet3 / PyTorch",
              "packed / PyTorch", "packed / onnxruntime", "GFLOP/s of packed, of the most")  # fmt: skip
    rows = []
    for result in results:
        runtime, peak = best_runtime(result), machine.get(result["threads"], {}).get("gflops")
        rate = "-"
        if result.get("times"):
            gflops = result["flops"] / spread(result["times"]["packed"])[0] / 1e9
            rate = f"{gflops:.1f}" + (f", {gflops / peak:.0%}" if peak else "")
        wanted = result["wanted"]
        rows.append((
            title(result), str(result["threads"]), _milliseconds(result, "ours"), _milliseconds(result, "packed"),
            _milliseconds(result, "PyTorch"), _milliseconds(result, "torch.compile"), _milliseconds(result, runtime),
            _ratio(ratio(result, "PyTorch")), _ratio(ratio(result, "PyTorch", "packed"), wanted.get("PyTorch")),
            _ratio(ratio(result, runtime, "packed"), wanted.get("onnxruntime")), rate,
        ))  # fmt: skip
    yield from _table(header, rows)


def _training(results: Sequence[Result], memory: Sequence[Result]) -> Iterator[str]:
    yield "Forward, backward and gradients of all parameters, milliseconds, one thread; batch-norm in training mode."
    yield "What natural gradient costs is beside the step with plain gradients, on the average of periods of four"
    yield "steps, in one of which its estimates are updated. Memory is the most that the process takes beyond the"
    yield "parameters, in two steps: values, derivatives, gradients."
    yield ""
    header = ("network", "nnet3", "PyTorch autograd", "nnet3 / PyTorch", "natural gradient", "its extra cost",
              "memory, MB", "PyTorch, MB", "nnet3 / PyTorch")  # fmt: skip
    rows = []
    for result in results:
        peaks = {r["who"]: r["peak"] / 1e6 for r in memory if title(r) == title(result) and "peak" in r}
        extra, wanted, times = "", result["wanted"], result.get("times", {})
        if "natural gradient" in times:
            extra = f"**{np.mean(times['natural gradient']) / np.mean(times['ours']) - 1:.0%}**"
        limit = f", wanted {wanted['natural']:.0%}" if "natural" in wanted else ""
        mb = {who: f"{peak:.0f}" for who, peak in peaks.items()}
        smaller = {who: f"**{peaks[who] / peaks['PyTorch']:.2f}**" for who in peaks if "PyTorch" in peaks}
        limit_of_memory = f", wanted {wanted['memory']:g}" if "memory" in wanted else ""
        rows.append((
            title(result), _milliseconds(result, "ours"), _milliseconds(result, "PyTorch"),
            _ratio(ratio(result, "PyTorch"), wanted.get("PyTorch")), _milliseconds(result, "natural gradient"),
            extra + limit if extra else "-",
            mb.get("ours", "-"), mb.get("PyTorch", "-"), smaller.get("ours", "-") + limit_of_memory,
        ))  # fmt: skip
    yield from _table(header, rows)


def _graphs(results: Sequence[Result]) -> Iterator[str]:
    yield "Forward and gradient unless it says otherwise, milliseconds, one thread, beside modules of PyTorch and"
    yield "autograd (`nn.LSTM` for the LSTM, which has no peepholes; ours of nodes has)."
    yield ""
    rows = [
        (r["name"], _milliseconds(r, "ours"), _milliseconds(r, "PyTorch"),
         _ratio(ratio(r, "PyTorch"), r["wanted"].get("PyTorch")))
        for r in results
    ]  # fmt: skip
    yield from _table(("network", "nnet3", "PyTorch", "nnet3 / PyTorch"), rows)


def _notes(results: Sequence[Result]) -> Iterator[str]:
    for result in results:
        if "failed" in result:
            yield f"* {result['what']}, {title(result)}: {result['failed']}"
        for name, why in result.get("notes", {}).items():
            yield f"* {title(result)}, {result['threads']} threads, {name}: {why}"


def plot(results: Sequence[Result], path: Path) -> None:
    """Bars: nnet3's time as a part of PyTorch's and of onnxruntime's, with the quarters as lines."""
    bars: list[tuple[str, str, tuple[float, float, float]]] = []
    for result in results:
        threads = f", {result['threads']} threads" if result["threads"] > 1 else ""
        kind = {"forward": "forward", "training": "training"}.get(result["what"], "")
        name = result["name"] if result["what"] == "graph" else f"{title(result)}, {kind}{threads}"
        for other, label in (("PyTorch", "PyTorch"), (best_runtime(result), "onnxruntime")):
            found = ratio(result, other, "packed" if kind == "forward" else "ours")
            if found is not None:
                bars.append((name, label, found))
    names = list(dict.fromkeys(name for name, *_ in bars))
    figure, axes = pyplot.subplots(figsize=(8, 0.42 * len(names) + 1.2), layout="constrained")
    for label, color, shift in (("PyTorch", "#3d6fb4", -0.19), ("onnxruntime", "#d98e32", 0.19)):
        chosen = [(names.index(name) + shift, found) for name, kind, found in bars if kind == label]
        if chosen:
            places, found = zip(*chosen, strict=True)
            medians, lows, highs = (np.array(each) for each in zip(*found, strict=True))
            quarters, line = [medians - lows, highs - medians], {"elinewidth": 1, "ecolor": "#404040"}
            for place, median in zip(places, medians, strict=True):
                axes.text(_MOST_SHOWN + 0.02, place, f"{median:.2f}", va="center", fontsize=8, color=color)
            axes.barh(places, medians, 0.36, color=color, label=f"beside {label}", xerr=quarters, error_kw=line)
    axes.axvline(1.0, color="#404040", linewidth=1)
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set_xlim(0.0, _MOST_SHOWN)
    axes.set_xlabel("time of nnet3, as a multiple (less is better)")
    if bars:
        axes.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=2, frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
