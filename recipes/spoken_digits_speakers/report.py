"""The report: `report.md` and its picture."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nnet3.errors import Nnet3Error
from recipes.spoken_digits_speakers.verification import Trials, Vectors

try:
    from matplotlib.figure import Figure
except ImportError:
    Figure = None  # type: ignore[assignment,misc]


@dataclass(frozen=True, eq=False)
class Condition:
    """Trials of words with words, and of words with speakers of whom some words are enrolled: by cosines, by PLDA."""

    name: str
    words: Trials
    speakers: Trials
    words_by_plda: Trials
    speakers_by_plda: Trials


def write_report(num_recordings: int, vectors: Vectors, conditions: list[Condition], out: Path) -> Path:
    """`report.md` and `speakers.png` in `out`; returns the path of the first."""
    if Figure is None:
        raise Nnet3Error("the report needs matplotlib: pip install 'nnet3[demo]'")
    _draw(vectors, conditions, out / "speakers.png")
    lines = [
        "# Speakers of spoken digits",
        "",
        f"{num_recordings} recordings of {len(np.unique(vectors.speakers))} speakers, one word each; equal-error rates "
        "on held-out recordings, by the cosine of x-vectors and by PLDA.",
        "",
        "| held-out recordings of | trials | pairs | cosine | PLDA |",
        "|---|---|---|---|---|",
        *(
            f"| {each.name} | {kind} | {_count(cosine)} | {cosine.equal_error_rate:.1%} | {plda.equal_error_rate:.1%} |"
            for each in conditions
            for kind, cosine, plda in (
                ("word against word", each.words, each.words_by_plda),
                ("word against speaker", each.speakers, each.speakers_by_plda),
            )
        ),
        "",
        "![x-vectors, scores and errors](speakers.png)",
        "",
    ]
    (out / "report.md").write_text("\n".join(lines))
    return out / "report.md"


def _count(trials: Trials) -> str:
    return f"{len(trials.same):,} of one, {len(trials.different):,} of two"


def _draw(vectors: Vectors, conditions: list[Condition], path: Path) -> None:
    figure = Figure(figsize=(13, 4.2), layout="constrained")
    plane, scores, errors = figure.subplots(1, 3)
    directions = vectors.vectors / np.linalg.norm(vectors.vectors, axis=1, keepdims=True)
    _, _, axes = np.linalg.svd(directions - directions.mean(axis=0), full_matrices=False)
    points = directions @ axes[:2].T
    for name in np.unique(vectors.speakers):
        plane.plot(*points[vectors.speakers == name].T, "o", markersize=3, label=name)
    plane.set(xlabel="first principal axis", ylabel="second", title="x-vectors of words, speakers to train on")
    plane.legend(fontsize=7)
    trials = conditions[-1].words
    bins = np.linspace(-1, 1, 61)
    for values, name in ((trials.same, "one speaker"), (trials.different, "two speakers")):
        scores.hist(values, bins, density=True, alpha=0.6, label=name)
    scores.set(xlabel="cosine", ylabel="density", title=f"pairs of words, {conditions[-1].name}")
    scores.legend(fontsize=7)
    for each in conditions:
        for kind, one, style in (
            ("word", each.words, "-"), ("speaker", each.speakers, "--"), ("word, PLDA", each.words_by_plda, ":")
        ):  # fmt: skip
            misses, alarms = one.errors()
            label = f"{each.name}, word against {kind}: {one.equal_error_rate:.1%}"
            errors.plot(100 * alarms, 100 * misses, style, label=label)
    errors.plot([0, 100], [0, 100], color="black", linewidth=0.5)
    errors.set(xlabel="two speakers accepted, %", ylabel="one speaker missed, %", xlim=(0, 60), ylim=(0, 60))
    errors.set_title("errors by threshold")
    errors.legend(fontsize=7)
    figure.savefig(path, dpi=110)
