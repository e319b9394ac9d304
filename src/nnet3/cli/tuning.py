"""Tunes the model of a recognizer on a user's recordings, and says what came of it."""

from __future__ import annotations

import contextlib
import random
import tempfile
from collections.abc import Iterator
from functools import partial
from itertools import chain
from pathlib import Path

import click

from nnet3.base.options.tuning import TuningOptions
from nnet3.cli.device import choose_device
from nnet3.cli.messages import say
from nnet3.cli.speech_data import SpeechData
from nnet3.cli.verb import take_use_gpu
from nnet3.errors import Nnet3Error
from nnet3.speech.asr.pronouncing import shown_words
from nnet3.speech.asr.recognizer import Model
from nnet3.speech.tuning.spoken_graphs import SpokenGraphs
from nnet3.speech.tuning.tune import StoppedError, Tuned, Tuner
from nnet3.speech.tuning.tuned_folder import new_folder, write_model_folder
from nnet3.training.runs.packing import check_can_save


def tune(
    model: str,
    data: str,
    output: str,
    options: TuningOptions,
    held_out: str,
    work: str,
    graph: str | None,
    device_name: str | None,
) -> int:
    """Writes the folder of a tuned model; returns the exit status, which is not 0 if a signal has stopped training.

    `held_out`: data to compare both models on, "" for a share of `data`. `work`: a new folder for intermediate
    files, "" for a temporary folder.
    """
    check_can_save()
    device = choose_device(device_name, take_use_gpu())
    training = SpeechData.of(data)
    compared = SpeechData.of(held_out) if held_out else training
    texts = [each.transcripts for each in dict.fromkeys((training, compared))]
    try:
        with new_folder(output, model) as folder, _work_folder(work, folder, (output, model)) as working:
            loaded = Model(model, graph=graph)
            words = chain.from_iterable(said for text in texts for said in text.values())
            graphs = SpokenGraphs(loaded.graph, words)
            if graphs.unknown:
                say(f"warning: the model lacks {shown_words(graphs.unknown)}: utterances with them are left out")
            keys = _known(training, graphs)
            if held_out:
                others = _known(compared, graphs)
            else:
                keys, others = _drawn(keys, options)
            tuned = Tuner(loaded, graphs, options, working, say, device).tune(
                partial(training.utterances, keys), partial(compared.utterances, others)
            )
            write_model_folder(loaded.folder, tuned.model, folder)
    except StoppedError as error:
        say(str(error))
        return error.status
    for line in _told(tuned):
        click.echo(line)
    return 0


@contextlib.contextmanager
def _work_folder(name: str, beside: Path, others: tuple[str, str]) -> Iterator[Path]:
    """Yields a folder that stays, if named, or a temporary folder beside another folder; `others`: it is in neither."""
    if not name:
        with tempfile.TemporaryDirectory(prefix=f"{beside.stem}.", suffix=".tmp", dir=beside.parent) as folder:
            yield Path(folder)
        return
    working = Path(name).absolute()
    for other in others:
        if working.resolve().is_relative_to(Path(other).resolve()):
            raise Nnet3Error(f"{name}: this is the folder {other}, or inside it: name another one for --work")
    try:
        working.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Nnet3Error(f"{name}: cannot make this folder: {error.strerror}") from None
    if any(working.iterdir()):
        raise Nnet3Error(f"{name}: this folder is not empty: name a new one for what is made on the way")
    yield working


def _known(data: SpeechData, graphs: SpokenGraphs) -> list[str]:
    """Returns the utterances with a recording and no unknown word. Raises Nnet3Error if there are none."""
    known = [key for key in data.recorded if graphs.unknown.keys().isdisjoint(data.transcripts[key])]
    if not known:
        raise Nnet3Error(f"{data.text}: each transcript has a word that the model does not know")
    return known


def _drawn(keys: list[str], options: TuningOptions) -> tuple[list[str], list[str]]:
    """Returns the utterances to train on, and those to hold out: of two or more at least one, if a share is wanted."""
    count = max(round(options.held_out_share * len(keys)), 1) if options.held_out_share and len(keys) > 1 else 0
    drawn = set(random.Random(options.seed).sample(keys, count))
    return [key for key in keys if key not in drawn], [key for key in keys if key in drawn]


def _told(tuned: Tuned) -> Iterator[str]:
    """Yields lines about both models on the held out data."""
    if tuned.before is None or tuned.after is None:
        yield "nothing was held out: whether the model is better is not known"
        return
    objectives = tuned.before.objective, tuned.after.objective
    yield "held-out objective per frame: {:.4f} before, {:.4f} after".format(*objectives)
    before, after = tuned.before.errors, tuned.after.errors
    yield (
        f"held-out word error rate: {100 * before.rate:.2f} % before, {100 * after.rate:.2f} % after "
        f"({before.errors} and {after.errors} errors in {before.words} words)"
    )
