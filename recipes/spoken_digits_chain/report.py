"""The report: `report.md` and its picture."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

import nnet3
from nnet3.chain import load_fst
from nnet3.errors import Nnet3Error
from nnet3.training.runs.events import read_events
from recipes.spoken_digits.ctc import digit_error_rate
from recipes.spoken_digits.strings import digits_of

try:
    from matplotlib.figure import Figure
except ImportError:
    Figure = None  # type: ignore[assignment,misc]

if TYPE_CHECKING:
    from recipes.spoken_digits_chain.recipe import Settings

Heard = dict[str, list[int]]


def write_report(settings: Settings, chain: Path, ctc: Path, ctc_start: str, graphs: Path, out: Path) -> Path:
    """`report.md` and `digits.png` in `out`; returns the path of the first. `ctc_start`: what CTC began with."""
    if Figure is None:
        raise Nnet3Error("the report needs matplotlib: pip install 'nnet3[demo]'")
    heard = {
        name: json.loads((folder / "heard.json").read_text()) for name, folder in (("LF-MMI", chain), ("CTC", ctc))
    }
    curves = {
        kind: [(event["step"], event["objective"]) for event in read_events(chain) if event["event"] == kind]
        for kind in ("train", "valid")
    }
    _draw(heard, curves, out / "digits.png")
    model = nnet3.load(chain / "final.mdl")
    assert isinstance(model, nnet3.AcousticModel), "an .mdl is one"
    losses = json.loads((ctc / "losses.json").read_text())
    (out / "report.md").write_text("\n".join(_lines(settings, heard, curves, model, losses, ctc_start, graphs)))
    return out / "report.md"


def _lines(
    settings: Settings,
    heard: dict[str, Heard],
    curves: dict[str, list[tuple[int, float]]],
    model: nnet3.AcousticModel,
    losses: list[float],
    ctc_start: str,
    graphs: Path,
) -> list[str]:
    said = sum(len(digits_of(key)) for key in heard["CTC"])
    sizes = {name: load_fst(str(graphs / f"{name}.fst")) for name in ("phone_lm", "den", "HCLG")}
    return [
        "# Strings of spoken digits, by sequence training",
        "",
        f"{settings.ctc.train_strings} strings of 3 to 7 digits, joined from recordings to train on; "
        f"{len(heard['CTC'])} of test recordings, with {said} digits. LF-MMI begins with "
        f"random parameters, CTC with {ctc_start}.",
        "",
        "| | digit error rate | strings without any error |",
        "|---|---|---|",
        *(f"| {name} | {digit_error_rate(each):.2%} | {_exact(each):.2%} |" for name, each in heard.items()),
        "",
        "![digit error rates, and the objective while training](digits.png)",
        "",
        f"LF-MMI: {settings.chain.epochs} epochs, {curves['train'][-1][0]} minibatches of {settings.chain.minibatch} "
        f"chunks; {model.nnet.num_parameters} parameters, {model.transition_model.num_pdfs} pdfs; objective on "
        f"held-out chunks {curves['valid'][-1][1]:.4f} per frame. Graphs: "
        + ", ".join(f"{name} {fst.num_states} states, {fst.num_arcs} arcs" for name, fst in sizes.items())
        + ". Decoded with kaldi-decoder.",
        "",
        f"CTC: network and training of the recipe `spoken_digits` on the same strings, {len(losses)} epochs; "
        f"loss by epoch: {', '.join(f'{loss:.3f}' for loss in losses)}. Greedily decoded.",
        "",
        *(f"Errors of {name}: {_errors(each)}.\n" for name, each in heard.items()),
    ]


def _exact(heard: Heard) -> float:
    return sum(digits_of(key) == digits for key, digits in heard.items()) / len(heard)


def _errors(heard: Heard, most: int = 12) -> str:
    wrong = [
        f"{key} heard as {''.join(map(str, digits))}"
        for key, digits in sorted(heard.items())
        if digits_of(key) != digits
    ]
    return ", ".join(wrong[:most]) + (f" and {len(wrong) - most} more" if len(wrong) > most else "") or "none"


def _draw(heard: dict[str, Heard], curves: dict[str, list[tuple[int, float]]], path: Path) -> None:
    figure = Figure(figsize=(10, 3.8), layout="constrained")
    bars, objective = figure.subplots(1, 2)
    for place, (name, each) in enumerate(heard.items()):
        groups = defaultdict[str, Heard](dict)
        for key, digits in each.items():
            groups[str(len(digits_of(key)))][key] = digits
            groups["all"][key] = digits
        names = sorted(groups)
        rates = [100 * digit_error_rate(groups[group]) for group in names]
        shown = bars.bar([number + 0.4 * place for number in range(len(names))], rates, 0.38, label=name)
        bars.bar_label(shown, fmt="%.2f", fontsize=7)
        bars.set_xticks([number + 0.2 for number in range(len(names))], names)
    bars.set(xlabel="digits in the string", ylabel="digit error rate, %")
    bars.margins(y=0.3)
    bars.legend(loc="upper left", fontsize=8)
    for kind, points in curves.items():
        steps, values = zip(*points, strict=True)
        objective.plot(steps, values, label="held-out chunks" if kind == "valid" else "chunks to train on")
    objective.set(xlabel="minibatches", ylabel="LF-MMI objective per frame")
    objective.legend()
    figure.savefig(path, dpi=110)
