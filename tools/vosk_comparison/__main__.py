"""Compare words, times, confidences and speed with Vosk's, with a small model and a big one: `make words`.

Writes the tables of docs/recognizer.md.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tools.real_model import install, plain_folder
from tools.vosk_comparison.agreement import Agreement, compare
from tools.vosk_comparison.big_model import make_big_model, make_speaker_model
from tools.vosk_comparison.corpus import SENTENCES, Recording, make_corpus
from tools.vosk_comparison.programs import compare_programs
from tools.vosk_comparison.rescoring import compare_rescoring

_SPEAKER, _READER = ["--no-deps", "espeakng-loader==0.2.4"], ["soundfile==0.14.0"]
_PAGE = Path(__file__).parents[2] / "docs" / "recognizer.md"
_LISTEN = Path(__file__).with_name("listen.py")
Heard = list[dict[str, Any]]


def listen(
    python: str | Path, module: str, model: Path, recordings: Sequence[Recording], speakers: str = ""
) -> tuple[float, Heard, float]:
    """Returns the processor's seconds of the start, what is heard in each recording, and the largest memory in MiB; one
    thread."""
    paths = [str(each.path) for each in recordings]
    first, *heard, last = map(json.loads, run([str(python), str(_LISTEN), module, str(model), speakers, *paths]))
    return first["start"], heard, last["memory"]


def run(command: list[str]) -> list[str]:
    """Runs a program with one thread; returns the lines that it writes."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # what pip installs has its bytecode; so must a source tree
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment).stdout.splitlines()


def table(agreements: dict[str, Agreement]) -> str:
    lines = [
        "| recordings | | same words | as many segments | words of Vosk | heard too | within 30 ms | as sure (0.05) |",
        "|---|---|---|---|---|---|---|---|",
    ]
    total = Agreement()
    for kind, found in [*agreements.items(), ("all", total)]:
        cells = (found.recordings, found.same_text, found.same_segments, found.words, found.same_words)
        lines.append(f"| {kind} | " + " | ".join(map(str, (*cells, found.in_time, found.as_sure))) + " |")
        total.add(found)
    lines += [f"\nOf {total.voices} vectors of speakers {total.same_voices} are Vosk's."] if total.voices else []
    return "\n".join(lines) + "\n"


def compare_model(
    name: str, model: Path, python: Path, recordings: Sequence[Recording], rounds: int, speakers: str = ""
) -> None:
    """Lets both listen with a model, in turns; prints the table, writes it into the page, and prints times."""
    theirs, ours = [], []
    for _ in range(rounds):
        theirs.append(listen(python, "vosk", model, recordings, speakers))
        ours.append(listen(sys.executable, "nnet3.asr", model, recordings, speakers))
    agreements: dict[str, Agreement] = {}
    for recording, vosk, own in zip(recordings, theirs[0][1], ours[0][1], strict=True):
        agreement = compare(vosk["segments"], own["segments"], recording.name)
        agreements.setdefault(recording.kind, Agreement()).add(agreement)
    write_table(name, table(agreements))
    for recognizer, runs in (("vosk", theirs), ("nnet3", ours)):
        start, memory = (min(run[at] for run in runs) for at in (0, 2))
        seconds = min(sum(each["seconds"] for each in run[1]) for run in runs)
        audio = sum(each["audio"] for each in runs[0][1])
        print(f"{recognizer}: start {start:.1f} s, real-time factor {seconds / audio:.2f}, {memory:.0f} MiB")


def write_table(name: str, found: str) -> None:
    """Prints a table, and puts it into its place on the page."""
    place = re.compile(rf"(<!-- {name}: begin -->\n).*?(<!-- {name}: end -->)", re.DOTALL)
    _PAGE.write_text(place.sub(lambda match: match[1] + found + match[2], _PAGE.read_text()))
    print(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("real-out"), help="where everything is put")
    parser.add_argument("--recordings", type=Path, default=Path("recordings.zip"), help="the spoken digits")
    parser.add_argument("--rounds", type=int, default=1, help="how often both listen, in turns; the fastest one counts")
    arguments = parser.parse_args()
    folder = arguments.folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    source, python = install(folder), folder / "env" / "bin" / "python"
    for name, packages in (("speaker", _SPEAKER), ("reader", _READER)):
        if not (folder / name).exists():
            subprocess.run([str(python), "-m", "pip", "install", "--quiet", *packages], check=True)
            (folder / name).touch()
    model = plain_folder(source, source / "am" / "final.mdl", folder / "original")
    recordings = make_corpus(folder / "corpus", python, arguments.recordings)
    compare_model("words", model, python, recordings, arguments.rounds)
    big = make_big_model(model, folder / "big", (word for sentence in SENTENCES for word in sentence.split()))
    speakers = make_speaker_model(folder / "speakers")
    compare_model("big", big, python, recordings, arguments.rounds, str(speakers))
    paused = [each.path for each in recordings if each.kind == "with pauses"]
    write_table("rescoring", compare_rescoring(folder, big, python, paused, run))
    spoken = [each.path for each in recordings if each.kind == "synthetic speech"]
    write_table("programs", compare_programs(folder, python, model, spoken[:12]))


if __name__ == "__main__":
    main()
