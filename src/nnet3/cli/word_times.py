"""Writes when words and phones were said in tables of features: ctm files, TextGrids, alignments."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor

from nnet3.base.kaldi_io.files import write_atomically
from nnet3.base.kaldi_io.load import write_wxfilename
from nnet3.base.kaldi_io.specifiers import NO_TABLE
from nnet3.base.kaldi_io.table_values import int_vector_writer, open_words_table
from nnet3.base.kaldi_io.writer import Writer
from nnet3.base.options.alignment import WordTimesOptions
from nnet3.base.text import whole_number
from nnet3.cli.aligning import AlignmentTally, WaitingToAlign, report, scores_of, utterances_to_align
from nnet3.cli.compute_tables import ComputedTables, ComputeSettings, batch_runner
from nnet3.cli.files import load_acoustic_model, load_tree
from nnet3.errors import Nnet3Error, shown
from nnet3.inference.scores import Scoring, log_priors
from nnet3.speech.asr.aligning import (
    AlignedUtterance,
    FrameTimes,
    Transcript,
    Transcripts,
    aligned_utterance,
    best_alignment,
    resolved,
)
from nnet3.speech.asr.pronouncing import Lexicon
from nnet3.speech.search.alignment import Aligner, Alignment


def write_word_times(
    model: str, texts: str, inputs: ComputedTables, options: WordTimesOptions, settings: ComputeSettings,
    *, alignments: str, ctm: str, phone_ctm: str, textgrid: str, tree: str, **lexicon: Any,
) -> int:  # fmt: skip
    """Aligns all utterances of a table of words. Returns 1, an exit status, if none could be aligned, else 0.

    Times go to the files `ctm` and `phone_ctm` and the folder `textgrid`, alignments to a table; "" for none.
    """
    if ctm and phone_ctm and os.path.realpath(ctm) == os.path.realpath(phone_ctm):
        raise Nnet3Error(f"--ctm and --phone-ctm are one file, {ctm}: give each a name of its own")
    acoustic = load_acoustic_model(model)
    search, factor = resolved(options, acoustic.transition_model, _factor_beside(model))
    chunks = replace(settings.chunks, frame_subsampling_factor=factor)
    compute = batch_runner(
        acoustic.nnet.to(device=settings.device),
        Scoring(log_priors(acoustic), search.acoustic_scale),
        replace(settings, chunks=chunks),
    )
    transcripts = Transcripts(acoustic.transition_model, _lexicon(model, **lexicon), load_tree(tree) if tree else None)
    aligner, times = Aligner(acoustic.transition_model, search), FrameTimes(options.frame_shift, factor)
    tally, waiting, output = AlignmentTally(), WaitingToAlign[Transcript](), _Output(ctm, phone_ctm, textgrid)

    def timed(_: str, rows: Tensor | Nnet3Error) -> tuple[Alignment, AlignedUtterance]:
        transcript, frames = waiting.popleft()
        found = best_alignment(aligner, transcript, scores_of(rows))
        return found, aligned_utterance(found, transcript, transcripts, times, frames, search.acoustic_scale)

    with open_words_table(texts) as table, int_vector_writer(alignments or NO_TABLE) as aligned:
        said = tally.each(table, lambda _, words: transcripts.make(words))
        for key, (found, result) in tally.each(compute(utterances_to_align(said, inputs, waiting, tally)), timed):
            tally.add(found)
            output.add(key, result)
            aligned.write(key, found.transition_ids)
    if tally.done:
        output.close()
    report(tally, search)
    return int(tally.done == 0)


def _lexicon(model: str, lexicon: str, phones: str, silence: str, silence_probability: float, unknown: str) -> Lexicon:
    """Returns a lexicon with the model's phones, by default phones.txt beside it. Nnet3Error for a missing file."""
    phones = phones or str(Path(model).parent / "phones.txt")
    if not Path(phones).is_file():
        raise Nnet3Error(f"{phones}: no such file: say with --phones where the names of the model's phones are")
    return Lexicon.load(
        *(lexicon, phones), silence=silence, silence_probability=silence_probability, unknown=unknown or None
    )


def _factor_beside(model: str) -> int:
    """Returns the number in the file `frame_subsampling_factor` beside a model, 0 without the file."""
    path = Path(model).parent / "frame_subsampling_factor"
    text = path.read_bytes().strip() if path.is_file() else b"0"
    factor = whole_number(text)
    if factor is None:
        raise Nnet3Error(f"{path}: expected a whole number, got {shown(text)}")
    return factor


class _Output:
    """Collects lines of ctm files, and writes a TextGrid for each utterance as it comes."""

    def __init__(self, ctm: str, phone_ctm: str, textgrid: str):
        self._files, self._textgrid = {"words": ctm, "phones": phone_ctm}, textgrid
        self._lines = {"words": list[str](), "phones": list[str]()}
        if textgrid:
            try:
                Path(textgrid).mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise Nnet3Error(f"{textgrid}: no folder for TextGrids can be made: {error.strerror}") from None

    def add(self, key: str, result: AlignedUtterance) -> None:
        for what in self._files:
            if self._files[what]:
                self._lines[what].append(result.ctm(key, phones=what == "phones"))
        if self._textgrid:
            path = Path(self._textgrid) / f"{key.replace('/', '_')}.TextGrid"
            write_atomically(path, result.textgrid().encode())

    def close(self) -> None:
        for what, name in self._files.items():
            if name:
                writer = Writer(binary=False)
                writer.text("".join(self._lines[what]))
                write_wxfilename(name, writer)
