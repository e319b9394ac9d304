"""The report: `report.md` and its pictures."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nnet3.base.kaldi_io.symbols import load_symbols
from nnet3.errors import Nnet3Error
from nnet3.kaldi_io import Reader, load_fst, open_matrix_table, open_pair_table
from nnet3.model.hmm.tree import ContextDependency
from nnet3.model.nnet import load_nnet
from nnet3.training.runs.events import read_events
from recipes.mini_digits import scoring
from recipes.mini_digits.settings import MiniDigits
from recipes.mini_digits.speech import FACTOR, FRAMES_PER_SECOND

try:
    from matplotlib.figure import Figure
except ImportError:
    Figure = None  # type: ignore[assignment,misc]

_MOST_ERRORS = 12
_ERRORS = (
    "| word error rate | put in, left out, replaced | strings with errors | weight of the language model, "
    "penalty of words |"
)


@dataclass(frozen=True)
class Results:
    """Folders of stages; alignments by a model, models and what they heard by its name; seconds by the stage's name.

    `dialled`: what was heard of the telephone numbers, by the language model.
    """

    settings: MiniDigits
    data: Path
    lang: Path
    ali: dict[str, Path]
    tree: Path
    models: dict[str, Path]
    decoded: dict[str, Path]
    numbers: Path
    dialled: dict[str, Path]
    seconds: dict[str, float]


def write_report(results: Results, out: Path) -> Path:
    """Writes `report.md`, `training.png`, `alignment.png` and `rates.png`; returns the path of the first."""
    if Figure is None:
        raise Nnet3Error("the report needs matplotlib: pip install 'nnet3[demo]'")
    _draw_training(results, out / "training.png")
    _draw_alignment(results, out / "alignment.png")
    _draw_rates(results, out / "rates.png")
    (out / "report.md").write_text("\n".join(_lines(results)))
    return out / "report.md"


def _lines(results: Results) -> list[str]:
    said = scoring.read_texts(results.data / "test" / "text")
    train, valid, test = results.settings.strings
    rows, wrong = [], []
    for name, folder in results.decoded.items():
        heard = scoring.read_texts(folder / "test" / "heard.txt")
        pdfs = ContextDependency.read(Reader.open(results.models[name] / "tree")).num_pdfs
        graph = load_fst(str(folder / "graph" / "HCLG.fst"))
        rows.append(
            f"{_errors(name, said, heard, folder)} {pdfs} | {_parameters(results.models[name]):,} | "
            f"{graph.num_states}, {graph.num_arcs} |"
        )
        wrong.append(f"Heard wrongly by {name}: {_wrong(said, heard)}.\n")
    dialled = scoring.read_texts(results.numbers / "test" / "text")
    return [
        "# Mini digits",
        "",
        f"{train} strings of digits to train on, {valid} to choose by, {test} of other recordings to test with "
        f"({sum(map(len, said.values()))} words). Flat start by end-to-end LF-MMI with a pdf pair for each phone; its "
        "alignment; a tree of pairs of phones; a TDNN-F by LF-MMI; another one on the alignment of the first; "
        f"the latter trained further by {results.settings.lattices.criterion} on lattices; a bigram; lattices.",
        "",
        f"| model {_ERRORS} pdfs | parameters | states and arcs of HCLG |",
        "|---|---|---|---|---|---|---|---|",
        *rows,
        "",
        f"{len(dialled)} made-up telephone numbers of seven digits ({sum(map(len, dialled.values()))} words), heard by "
        f"the last model with language models of the text of {results.settings.numbers.numbers[0]} others:",
        "",
        f"| language model {_ERRORS}",
        "|---|---|---|---|---|",
        *(
            _errors(name, dialled, scoring.read_texts(folder / "test" / "heard.txt"), folder)
            for name, folder in results.dialled.items()
        ),
        "",
        *wrong,
        "![objectives while training](training.png)",
        "",
        "![a string, and where two models say that its phones are](alignment.png)",
        "",
        "![word error rate on the strings to choose by](rates.png)",
        "",
        "| stage | seconds |",
        "|---|---|",
        *(f"| {name} | {seconds:.1f} |" for name, seconds in results.seconds.items()),
        f"| all | {sum(results.seconds.values()):.1f} |",
        "",
    ]


def _errors(name: str, said: scoring.Texts, heard: scoring.Texts, folder: Path) -> str:
    """The beginning of a row, with the columns `_ERRORS`."""
    errors = scoring.errors(said, heard)
    weight, penalty = _best(folder / "valid")
    return (
        f"| {name} | {errors.rate:.2%} | {errors.insertions}, {errors.deletions}, {errors.substitutions} | "
        f"{errors.sentence_rate:.2%} | {weight}, {penalty:g} |"
    )


def _best(folder: Path) -> tuple[int, float]:
    rates = json.loads((folder / "rates.json").read_text())
    weight, penalty, _ = min(rates, key=lambda row: (row[2], row[0], row[1]))
    return weight, penalty


def _parameters(folder: Path) -> int:
    return load_nnet(folder / "final.mdl").num_parameters


def _wrong(said: scoring.Texts, heard: scoring.Texts) -> str:
    found = [f"{key} as “{' '.join(heard.get(key, []))}”" for key, words in said.items() if heard.get(key, []) != words]
    more = f" and {len(found) - _MOST_ERRORS} more" if len(found) > _MOST_ERRORS else ""
    return ", ".join(found[:_MOST_ERRORS]) + more or "none"


def _draw_training(results: Results, path: Path) -> None:
    figure = Figure(figsize=(13, 3.6), layout="constrained")
    for axis, (name, folder) in zip(figure.subplots(1, len(results.models)), results.models.items(), strict=True):
        for kind, label in (("train", "strings to train on"), ("valid", "strings to choose by")):
            points = [(event["step"], event["objective"]) for event in read_events(folder) if event["event"] == kind]
            if points:
                steps, values = zip(*points, strict=True)
                axis.plot(steps, values, "o-" if kind == "valid" else "-", markersize=3, label=label)
        axis.set(title=name, xlabel="minibatches", ylabel="objective per frame")
        axis.legend(loc="lower right")
    figure.savefig(path, dpi=110)


def _draw_alignment(results: Results, path: Path) -> None:
    names = load_symbols(results.lang / "lang" / "phones.txt")
    figure = Figure(figsize=(10, 7), layout="constrained")
    for axis, (model, folder) in zip(figure.subplots(len(results.ali)), results.ali.items(), strict=True):
        with open_pair_table(f"ark:{folder}/lengths.valid.1.ark") as table:
            key, phones = next(iter(table))
        with open_matrix_table(f"scp:{results.data}/valid/feats.1.scp") as features:
            rows = next(matrix for name, matrix in features if name == key)
        seconds = len(rows) / FRAMES_PER_SECOND
        axis.imshow(rows.T, origin="lower", aspect="auto", cmap="magma", extent=(0, seconds, 0, rows.shape[1]))
        ends = np.cumsum(phones[:, 1]) * FACTOR / FRAMES_PER_SECOND
        for place, (phone, end) in enumerate(zip(phones[:, 0].tolist(), ends, strict=True)):
            middle = end - phones[place, 1] * FACTOR / FRAMES_PER_SECOND / 2
            axis.axvline(end, color="white", linewidth=0.7)
            axis.text(middle, rows.shape[1] + 0.5 + 2.5 * (place % 3), names[phone], ha="center", fontsize=7)
        axis.set(xlabel=f"seconds of {key}, aligned by {model}", ylabel="log mel energies")
        axis.set_xlim(0, seconds)
    figure.savefig(path, dpi=110)


def _draw_rates(results: Results, path: Path) -> None:
    figure = Figure(figsize=(13, 3.2), layout="constrained")
    for axis, (name, folder) in zip(figure.subplots(1, len(results.decoded)), results.decoded.items(), strict=True):
        rows = json.loads((folder / "valid" / "rates.json").read_text())
        for penalty in sorted({row[1] for row in rows}):
            points = [(weight, 100 * rate) for weight, other, rate in rows if other == penalty]
            axis.plot(*zip(*points, strict=True), "o-", markersize=3, label=f"penalty {penalty:g}")
        axis.set(title=name, xlabel="weight of the language model", ylabel="word error rate, %")
        axis.set_ylim(bottom=0)
        axis.legend()
    figure.savefig(path, dpi=110)
