"""How much of the processor's time rescoring adds to a result, in Vosk and in nnet3.

`compare_rescoring` lets both listen in turns. This file is also the script that lets one listen: `rescoring.py MODULE
WITH WITHOUT recording.wav ...`, with a model directory that has `rescore/` and one that has not.
"""

from __future__ import annotations

import importlib
import json
import statistics
import sys
import time
import wave
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

PIECE_SECONDS, UTTERANCE_SECONDS, ROUNDS, TURNS = 0.2, 4, 4, 3
Seconds = list[tuple[float, float]]  # of each result, with rescoring and without


def compare_rescoring(
    folder: Path, big: Path, python: Path, recordings: Sequence[Path], run: Callable[[list[str]], list[str]]
) -> str:
    """Returns a table: milliseconds for all results, without rescoring and what it adds, as sums of the medians of each
    result over all rounds.

    Utterances end after four seconds. `AcceptWaveform` has searched all of an utterance then, and `Result` begins with
    its lattice.
    """
    models = [
        _short_utterances(big, folder / "rescored"),
        _short_utterances(big, folder / "searched", "rescore", "rnnlm"),
    ]
    pythons = {"vosk": str(python), "nnet3.asr": sys.executable}
    rounds: dict[str, list[Seconds]] = {module: [] for module in pythons}
    for _ in range(TURNS):
        for module, interpreter in pythons.items():
            rounds[module] += map(json.loads, run([interpreter, __file__, module, *map(str, [*models, *recordings])]))
    lines = [
        "| recognizer | results | without rescoring, ms | rescoring adds, ms | the same in each turn |",
        "|---|---|---|---|---|",
    ]
    for module, found in rounds.items():
        added, without = _sums(found)
        turns = " ".join(
            f"{_sums(found[first:last])[0]:.1f}" for first, last in pairwise(range(0, len(found) + 1, ROUNDS))
        )
        lines.append(f"| {module} | {len(found[0])} | {without:.0f} | {added:.1f} | {turns} |")
    return "\n".join(lines) + "\n"


def _short_utterances(model: Path, made: Path, *left_out: str) -> Path:
    """Makes a model directory of links to another, without some entries, whose utterances end after four seconds."""
    (made / "conf").mkdir(parents=True, exist_ok=True)
    for entry in model.iterdir():
        place = made / entry.name
        if entry.name not in (*left_out, "conf") and not place.exists():
            place.symlink_to(entry)
    for conf in (model / "conf").iterdir():
        end = f"--endpoint.rule5.min-utterance-length={UTTERANCE_SECONDS}\n" if conf.name == "model.conf" else ""
        (made / "conf" / conf.name).write_text(f"{conf.read_text().rstrip()}\n{end}")
    return made


def _sums(rounds: Sequence[Seconds]) -> tuple[float, float]:
    """Returns the milliseconds that rescoring adds to all results, and those without it."""
    of_results = list(zip(*rounds, strict=True))
    added = sum(statistics.median(more - less for more, less in each) for each in of_results)
    return 1e3 * added, 1e3 * sum(statistics.median(less for _, less in each) for each in of_results)


def _listen(vosk: Any, models: Sequence[Any], recordings: Sequence[str], order: Sequence[int]) -> Seconds:
    """Lets two recognizers listen to the same pieces; returns the seconds of their results."""
    seconds = []
    for path in recordings:
        with wave.open(path) as file:
            rate, samples = file.getframerate(), file.readframes(file.getnframes())
        recognizers = [vosk.KaldiRecognizer(model, rate) for model in models]
        for recognizer in recognizers:
            recognizer.SetWords(True)
        piece = 2 * int(PIECE_SECONDS * rate)
        for first in range(0, len(samples), piece):
            ended = [recognizers[at].AcceptWaveform(samples[first : first + piece]) for at in order]
            if all(ended):
                seconds.append(_results(recognizers, order))
    return seconds


def _results(recognizers: Sequence[Any], order: Sequence[int]) -> tuple[float, float]:
    taken = {}
    for at in order:
        begin = time.process_time()
        recognizers[at].Result()
        taken[at] = time.process_time() - begin
    return taken[0], taken[1]


def main() -> None:
    vosk = importlib.import_module(sys.argv[1])
    vosk.SetLogLevel(-1)
    models = [vosk.Model(path) for path in sys.argv[2:4]]
    for turn in range(ROUNDS + 1):
        seconds = _listen(vosk, models, sys.argv[4:], (0, 1) if turn % 2 else (1, 0))
        if turn:  # the first round compiles the network
            print(json.dumps(seconds), flush=True)


if __name__ == "__main__":
    main()
