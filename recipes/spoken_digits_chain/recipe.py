"""The stages in their order, from recordings to a report."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

import nnet3
from recipes.spoken_digits import ctc, words
from recipes.spoken_digits.ctc import CtcTraining
from recipes.spoken_digits.recordings import read_recordings
from recipes.spoken_digits.stages import Stage, key_of_file, run_stage
from recipes.spoken_digits.strings import digits_of
from recipes.spoken_digits_chain import decoding, report
from recipes.spoken_digits_chain.examples import write_examples
from recipes.spoken_digits_chain.phones import make_hmms, write_graphs
from recipes.spoken_digits_chain.speech import read_speech, write_speech
from recipes.spoken_digits_chain.training import NETWORK, ChainTraining, network, train_chain

_PARTS = {"train": 0, "valid": 2, "test": 1}  # and what is added to the seed


@dataclass(frozen=True)
class Settings:
    """All that may be turned; `ctc`, which begins with random parameters, also says how many strings there are."""

    chain: ChainTraining = field(default_factory=ChainTraining)
    ctc: CtcTraining = field(default_factory=lambda: CtcTraining(epochs=20))
    valid_strings: int = 60


QUICK = Settings(ChainTraining(epochs=3), CtcTraining(train_strings=600, epochs=2))


def run_recipe(archive: Path, out: Path, settings: Settings, digits: Path | None = None) -> Path:
    """All stages that are not done yet; returns the path of the report.

    `digits`: results of the recipe spoken_digits. Its CTC network, which began with one of words, is what LF-MMI is
    compared with if it has heard the same strings; otherwise one is trained here, from random parameters.
    """
    hmms = make_hmms()
    all_recordings = read_recordings(archive)
    recordings = {part: [each for each in all_recordings if each.part == part] for part in _PARTS}
    counts = (settings.ctc.train_strings, settings.valid_strings, settings.ctc.test_strings)

    def stage(name: str, depends_on: dict[str, object], make: Callable[[Path], None]) -> Stage:
        return run_stage(out, name, depends_on, make)

    def make_speech(folder: Path) -> None:
        for (part, seed), count in zip(_PARTS.items(), counts, strict=True):
            write_speech(recordings[part], count, part == "train", settings.ctc.seed + seed, folder, part)

    speech = stage(
        "speech", {"recordings": key_of_file(archive), "strings": list(counts), "seed": settings.ctc.seed}, make_speech
    )

    def make_graphs(folder: Path) -> None:
        write_graphs([digits_of(key) for key, *_ in read_speech(speech.folder, "train")], hmms, folder)
        decoding.write_decoding_graph(folder / "HCLG.fst")

    graphs = stage("graphs", {"speech": speech.key}, make_graphs)

    def make_examples(folder: Path) -> None:
        for part in ("train", "valid"):
            strings = read_speech(speech.folder, part)
            write_examples(strings, hmms, graphs.folder, network(0), folder / f"{part}.cegs")

    examples = stage("examples", {"graphs": graphs.key, "network": key_of_file(NETWORK)}, make_examples)

    def make_chain(folder: Path) -> None:
        train_chain(hmms.model, examples.folder, graphs.folder, settings.chain, folder)
        model = nnet3.load(folder / "final.mdl")
        assert isinstance(model, nnet3.AcousticModel), "an .mdl is one"
        _write(folder / "heard.json", decoding.decode(model, speech.folder / "test.ark", graphs.folder / "HCLG.fst"))

    chain = stage("chain", {"examples": examples.key, **asdict(settings.chain)}, make_chain)

    def make_ctc(folder: Path) -> None:
        nnet = nnet3.Nnet.from_xconfig(words.NETWORK.read_text(), source=str(words.NETWORK), seed=settings.ctc.seed)
        nnet.save(folder / "0.raw")
        module = ctc.ctc_module(folder / "0.raw", settings.ctc.seed)
        _write(folder / "losses.json", ctc.train_ctc(module, speech.folder / "train.ark", settings.ctc))
        module.nnet.save(folder / "final.raw")
        _write(folder / "heard.json", ctc.decode_strings(module, speech.folder / "test.ark"))

    theirs = None if digits is None else digits / "ctc"
    if theirs is not None and _heard(theirs).keys() == _heard(chain.folder).keys():
        return report.write_report(settings, chain.folder, theirs, "its network of single words", graphs.folder, out)
    depends_on = {"speech": speech.key, "network": key_of_file(words.NETWORK), **asdict(settings.ctc)}
    ours = stage("ctc", depends_on, make_ctc)
    return report.write_report(settings, chain.folder, ours.folder, "random parameters", graphs.folder, out)


def _heard(folder: Path) -> dict[str, list[int]]:
    """What a network has heard, by string; nothing if it is not there."""
    path = folder / "heard.json"
    return json.loads(path.read_text()) if path.exists() else {}


def _write(path: Path, value: object) -> None:
    path.write_text(json.dumps(value))
