"""The report: `report.md` and its pictures."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nnet3.errors import Nnet3Error
from recipes.spoken_digits.ctc import digit_error_rate
from recipes.spoken_digits.optimizers import Curve
from recipes.spoken_digits.settings import Settings
from recipes.spoken_digits.words import Decisions

try:
    from matplotlib.figure import Figure
    from matplotlib.ticker import ScalarFormatter
except ImportError:
    Figure = ScalarFormatter = None  # type: ignore[assignment,misc]


@dataclass(frozen=True, eq=False)
class Results:
    """All that was measured. `strings` has what the CTC network heard, by key."""

    recordings: int
    settings: Settings
    words: Decisions
    left_out: dict[str, Decisions]
    curves: list[Curve]
    strings: dict[str, list[int]]
    losses: list[float]

    @property
    def left_out_accuracy(self) -> float:
        """The mean over speakers."""
        return float(np.mean([each.accuracy for each in self.left_out.values()]))

    @property
    def left_out_confusions(self) -> np.ndarray:
        return sum((each.confusions for each in self.left_out.values()), np.zeros((10, 10), int))


def write_report(results: Results, out: Path) -> Path:
    """`report.md`, `speakers.png` and `optimizers.png` in `out`; returns the path of the first."""
    if Figure is None:
        raise Nnet3Error("the report needs matplotlib: pip install 'nnet3[demo]'")
    _draw_speakers(results, out / "speakers.png")
    _draw_optimizers(results.curves, out / "optimizers.png")
    (out / "report.md").write_text("\n".join(_lines(results)))
    return out / "report.md"


def _lines(results: Results) -> list[str]:
    settings, wrong = results.settings, results.words.errors()
    exact = sum(key.split("-")[1] == "".join(map(str, digits)) for key, digits in results.strings.items())
    said = sum(len(key.split("-")[1]) for key in results.strings)
    return [
        "# Spoken digits",
        "",
        f"{results.recordings} recordings of {len(results.left_out)} speakers; each one to train on is there in "
        f"{settings.variants + 1} variants.",
        "",
        "| what | measured |",
        "|---|---|",
        f"| words, test set of {len(results.words.keys)} utterances: accuracy | {results.words.accuracy:.2%} |",
        f"| words, one speaker left out: accuracy, mean | {results.left_out_accuracy:.2%} |",
        f"| strings, {len(results.strings)} of test recordings with {said} digits: digit error rate | "
        f"{digit_error_rate(results.strings):.2%} |",
        f"| strings without any error | {exact / len(results.strings):.2%} |",
        "",
        f"Errors on the test set (speaker-digit-recording): {', '.join(wrong) or 'none'}.",
        "",
        "## One speaker left out",
        "",
        "Trained on the others' recordings to train on, tested on all recordings of the one.",
        "",
        "| speaker | accuracy | digits that were missed most |",
        "|---|---|---|",
        *(
            f"| {speaker} | {each.accuracy:.2%} | {_worst(each.confusions)} |"
            for speaker, each in results.left_out.items()
        ),
        "",
        f"Over all speakers: {_worst(results.left_out_confusions, 6)}.",
        "",
        "![accuracy by speaker, and what was heard](speakers.png)",
        "",
        "## Optimizers",
        "",
        f"The same network, minibatches and epochs ({settings.comparison.epochs}, each over all variants). Rates fall "
        f"exponentially to {settings.comparison.last_part:g} of the first one, which is the best of some by the loss "
        f"after {settings.comparison.trial} minibatches. That of natural gradient is for objectives that are summed up "
        "over frames, the others for means.",
        "",
        "| optimizer | first rate | log-probability per frame, test set | accuracy, test set |",
        "|---|---|---|---|",
        *(
            f"| {curve.name} | {curve.rate:g} | {curve.log_probabilities[-1]:.4f} | {curve.accuracies[-1]:.2%} |"
            for curve in results.curves
        ),
        "",
        "![test set while training](optimizers.png)",
        "",
        "## Strings of digits",
        "",
        f"CTC through `nnet3.TorchModule` on {settings.ctc.train_strings} strings, beginning with the layers of the "
        f"network of words; loss by epoch: {', '.join(f'{loss:.3f}' for loss in results.losses)}. Greedily decoded.",
        "",
    ]


def _worst(confusions: np.ndarray, count: int = 3) -> str:
    """The commonest confusions, in words."""
    wrong = confusions - np.diag(np.diag(confusions))
    order = np.argsort(-wrong, axis=None, kind="stable")[:count]
    pairs = [(number // 10, number % 10, wrong.flat[number]) for number in order.tolist() if wrong.flat[number] > 0]
    return ", ".join(f"{said} heard as {heard}: {times}" for said, heard, times in pairs) or "none"


def _draw_speakers(results: Results, path: Path) -> None:
    figure = Figure(figsize=(10, 4.2), layout="constrained")
    bars, cells = figure.subplots(1, 2, width_ratios=[1.2, 1])
    names = list(results.left_out)
    values = [100 * each.accuracy for each in results.left_out.values()]
    bars.barh(names, values, color="tab:blue")
    bars.axvline(100 * results.left_out_accuracy, color="black", linestyle="--", linewidth=1)
    for row, value in enumerate(values):
        bars.text(1, row, f"{value:.1f}", ha="left", va="center", color="white")
    bars.set_xlim(0, 100)
    bars.invert_yaxis()
    bars.set_xlabel("accuracy on a speaker who was left out of training, % (dashed: mean)")
    confusions = results.left_out_confusions
    cells.imshow(confusions / np.maximum(confusions.sum(axis=1, keepdims=True), 1), cmap="Blues", vmin=0, vmax=1)
    for said, heard in zip(*np.nonzero(confusions), strict=True):
        color = "white" if said == heard else "black"
        cells.text(heard, said, str(confusions[said, heard]), ha="center", va="center", fontsize=7, color=color)
    cells.set(xticks=range(10), yticks=range(10), xlabel="digit heard", ylabel="digit said")
    cells.set_title("all speakers, each left out", fontsize=10)
    figure.savefig(path, dpi=110)


def _draw_optimizers(curves: list[Curve], path: Path) -> None:
    figure = Figure(figsize=(10, 3.8), layout="constrained")
    objective, errors = figure.subplots(1, 2)
    for curve in curves:
        objective.plot(curve.epochs, -np.array(curve.log_probabilities), "o-", markersize=3, label=curve.name)
        errors.plot(curve.epochs, 100 * (1 - np.array(curve.accuracies)), "o-", markersize=3, label=curve.name)
    objective.set(xlabel="epochs", ylabel="cross-entropy per frame, test set", yscale="log")
    for axis in (objective.yaxis.set_major_formatter, objective.yaxis.set_minor_formatter):
        axis(ScalarFormatter())
    errors.set(xlabel="epochs", ylabel="wrong utterances, test set, %")
    errors.set_ylim(bottom=0)
    objective.legend()
    figure.savefig(path, dpi=110)
