"""Writes when words and phones were said in tables of features: ctm files, TextGrids, alignments."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

from torch import Tensor

from nnet3.asr.aligning import (
    AlignedUtterance,
    FrameTimes,
    Transcript,
    Transcripts,
    aligned_utterance,
    best_alignment,
    resolved,
)
from nnet3.asr.alignment import Aligner, Alignment
from nnet3.asr.pronouncing import Lexicon
from nnet3.cli.aligning import AlignmentTally, WaitingToAlign, report, scores_of, utterances_to_align
from nnet3.cli.compute_tables import ComputedTables, ComputeSettings, batch_runner
from nnet3.cli.files import load_acoustic_model, load_tree
from nnet3.decode import Scoring, log_priors
from nnet3.errors import Nnet3Error
from nnet3.kaldi_io import NO_TABLE, Writer, int_vector_writer, open_words_table, write_atomically, write_wxfilename
from nnet3.options import WordTimesOptions


@dataclass(frozen=True)
class WordTimesFiles:
    """The files that times are written to; empty names are none. `textgrid` is a folder."""

    ctm: str
    phone_ctm: str
    textgrid: str
    alignments: str

    def check_different(self) -> None:
        """Raises Nnet3Error if words and phones would go to one file."""
        if self.ctm and self.phone_ctm and os.path.realpath(self.ctm) == os.path.realpath(self.phone_ctm):
            raise Nnet3Error(f"--ctm and --phone-ctm are one file, {self.ctm}: give each a name of its own")


@dataclass(frozen=True)
class LexiconFiles:
    """A lexicon, the phones of the model (by default phones.txt beside it), and its tree, "" for none."""

    lexicon: str
    phones: str
    tree: str
    silence: str
    silence_probability: float
    unknown: str

    def load(self, model: str) -> Lexicon:
        """Raises Nnet3Error for a phones.txt that is not there."""
        phones = self.phones or str(Path(model).parent / "phones.txt")
        if not Path(phones).is_file():
            raise Nnet3Error(f"{phones}: no such file: say with --phones where the names of the model's phones are")
        return Lexicon.load(
            *(self.lexicon, phones),
            silence=self.silence,
            silence_probability=self.silence_probability,
            unknown=self.unknown or None,
        )


def write_word_times(
    model: str,
    texts: str,
    inputs: ComputedTables,
    files: WordTimesFiles,
    lexicon: LexiconFiles,
    options: WordTimesOptions,
    settings: ComputeSettings,
) -> int:
    """Aligns all utterances of a table of words. Returns 1, an exit status, if none could be aligned, else 0."""
    files.check_different()
    acoustic = load_acoustic_model(model)
    search, factor = resolved(options, acoustic.transition_model, _factor_beside(model))
    chunks = replace(settings.chunks, frame_subsampling_factor=factor)
    compute = batch_runner(
        acoustic.nnet.to(device=settings.device),
        Scoring(log_priors(acoustic), search.acoustic_scale),
        replace(settings, chunks=chunks),
    )
    tree = load_tree(lexicon.tree) if lexicon.tree else None
    transcripts = Transcripts(acoustic.transition_model, lexicon.load(model), tree)
    aligner, times = Aligner(acoustic.transition_model, search), FrameTimes(options.frame_shift, factor)
    tally, waiting, output = AlignmentTally(), WaitingToAlign[Transcript](), _Output(files)

    def timed(_: str, rows: Tensor | Nnet3Error) -> tuple[Alignment, AlignedUtterance]:
        transcript, frames = waiting.popleft()
        found = best_alignment(aligner, transcript, scores_of(rows))
        return found, aligned_utterance(found, transcript, transcripts, times, frames, search.acoustic_scale)

    with open_words_table(texts) as table, int_vector_writer(files.alignments or NO_TABLE) as alignments:
        said = tally.each(table, lambda _, words: transcripts.make(words))
        for key, (found, result) in tally.each(compute(utterances_to_align(said, inputs, waiting, tally)), timed):
            tally.add(found)
            output.add(key, result)
            alignments.write(key, found.transition_ids)
    if tally.done:
        output.close()
    report(tally, search)
    return int(tally.done == 0)


def _factor_beside(model: str) -> int:
    """Returns what the file `frame_subsampling_factor` beside a model says, 0 if there is none."""
    path = Path(model).parent / "frame_subsampling_factor"
    text = path.read_text().strip() if path.is_file() else "0"
    if not text.isdecimal():
        raise Nnet3Error(f"{path}: expected a whole number, got '{text}'")
    return int(text)


class _Output:
    """Collects lines of ctm files, and writes a TextGrid for each utterance as it comes."""

    def __init__(self, files: WordTimesFiles):
        self._files, self._lines = files, {"words": list[str](), "phones": list[str]()}
        if files.textgrid:
            try:
                Path(files.textgrid).mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise Nnet3Error(f"{files.textgrid}: no folder for TextGrids can be made: {error.strerror}") from None

    def add(self, key: str, result: AlignedUtterance) -> None:
        if self._files.ctm:
            self._lines["words"].append(result.ctm(key))
        if self._files.phone_ctm:
            self._lines["phones"].append(result.ctm(key, phones=True))
        if self._files.textgrid:
            path = Path(self._files.textgrid) / f"{key.replace('/', '_')}.TextGrid"
            write_atomically(path, result.textgrid().encode())

    def close(self) -> None:
        for name, what in ((self._files.ctm, "words"), (self._files.phone_ctm, "phones")):
            if name:
                writer = Writer(binary=False)
                writer.text("".join(self._lines[what]))
                write_wxfilename(name, writer)
