"""Finds when words and phones were said, by an acoustic model, features, a transcript and a lexicon (`nnet3.align`)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from nnet3.base.kaldi_io.fst import Fst
from nnet3.base.kaldi_io.reader import Reader
from nnet3.base.options.alignment import AlignmentOptions, WordTimesOptions
from nnet3.base.options.declaring import declared
from nnet3.base.options.utterances import UtteranceOptions
from nnet3.base.text import words_of
from nnet3.engine.ir.matrices import Matrix
from nnet3.errors import ArgumentError, ExecutionError, check_kind
from nnet3.model.hmm.segments import phone_segments
from nnet3.model.hmm.topology import TopologyEntry
from nnet3.model.hmm.transition_model import TransitionModel
from nnet3.model.hmm.tree import ContextDependency
from nnet3.model.nnet import AcousticModel
from nnet3.speech.asr.pronouncing import Lexicon
from nnet3.speech.asr.textgrid import TierInterval, textgrid
from nnet3.speech.search.alignment import Aligner, Alignment
from nnet3.training.chain.graphs.openfst import need_openfst
from nnet3.training.chain.graphs.phone_hmms import AnyContextHmms, PhoneHmms
from nnet3.training.chain.graphs.training_graph import TrainingGraphs

Tree = ContextDependency | str | os.PathLike[str] | None

_CHAIN_FACTOR = 3


@dataclass(frozen=True)
class AlignedPhone:
    """A phone: start and end in seconds, first row of scores, number of rows."""

    phone: str
    start: float
    end: float
    first_row: int
    num_rows: int


@dataclass(frozen=True)
class AlignedWord:
    """A word: start and end in seconds, and phones."""

    word: str
    start: float
    end: float
    phones: tuple[AlignedPhone, ...]


@dataclass(frozen=True, eq=False)
class AlignedUtterance:
    """Words and phones with times: all phones, silences among them; no words if phones were given.

    transition_ids: (rows,) int32. log_likelihood: of the scores, not scaled, a row on average. seconds: the length.
    """

    words: tuple[AlignedWord, ...]
    phones: tuple[AlignedPhone, ...]
    transition_ids: npt.NDArray[np.int32]
    log_likelihood: float
    seconds: float

    def textgrid(self) -> str:
        """Returns a TextGrid file for Praat, with a tier of phones and, if words are known, a tier of words."""
        tiers = {"words": [TierInterval(each.word, each.start, each.end) for each in self.words]} if self.words else {}
        return textgrid({**tiers, "phones": [TierInterval(p.phone, p.start, p.end) for p in self.phones]}, self.seconds)

    def ctm(self, name: str, phones: bool = False) -> str:
        """Returns lines `NAME 1 BEGIN DURATION WORD`, as in Kaldi's ctm files, or such lines of phones."""
        said: Any = [(p.phone, p.start, p.end) for p in self.phones] if phones else None
        said = said or [(word.word, word.start, word.end) for word in self.words]
        return "".join(f"{name} 1 {start:.2f} {end - start:.2f} {text}\n" for text, start, end in said)


@dataclass(frozen=True, eq=False)
class Transcript:
    """The graph of a transcript, and the words as given and as the lexicon has them."""

    graph: Fst
    given: tuple[str, ...] = ()
    spoken: tuple[str, ...] = ()
    least_rows: int = 0


@dataclass(frozen=True, eq=False)
class Transcripts:
    """Makes graphs of transcripts: of words by a lexicon, of phones without one.

    Without a tree a phone may have any of its pdfs, in any context.
    """

    model: TransitionModel
    lexicon: Lexicon | None = None
    tree: Tree = None

    def __post_init__(self) -> None:
        need_openfst("alignment")

    @cached_property
    def _hmms(self) -> PhoneHmms:
        tree = self.tree
        if tree is None:
            return AnyContextHmms(self.model)
        if not isinstance(tree, ContextDependency):
            tree = ContextDependency.read(Reader.open(tree))
        return PhoneHmms(tree, self.model)

    @cached_property
    def _least_rows(self) -> dict[int, int]:
        """The fewest rows of each phone."""
        topology = self.model.topology
        fewest = [_fewest_rows(entry) for entry in topology.entries]
        return {int(phone): fewest[topology.entry_of_phone[phone]] for phone in topology.phones}

    def make(self, said: str | Sequence[str] | Sequence[int]) -> Transcript:
        """Returns the graph of words, or of phones: numbers, or names if the lexicon has them.

        Raises ArgumentError for nothing, and for what lexicon or model do not have.
        """
        check_kind(said, (str, Sequence, np.ndarray), "what was said", "a text, or a list of words or phones")
        items: list[Any] = words_of(said) if isinstance(said, str) else list(said)
        if not items:
            raise ArgumentError("there is nothing to align: expected words or phones, got none")
        if self.lexicon is None:
            return self._of_phones(items)
        check_kind(items[0], str, "words", "strings, since there is a lexicon")
        spoken = self.lexicon.spoken(items)
        fst, labels = self.lexicon.fst(spoken)
        ways = {word: self.lexicon.pronunciations[word] for word in set(spoken)}
        self._check_known({self.lexicon.phones[name] for each in ways.values() for way in each for name in way.phones})
        graph = TrainingGraphs(self._hmms, fst).make([labels[word] for word in spoken])
        least = {
            word: min(sum(self._least_rows[self.lexicon.phones[name]] for name in way.phones) for way in each)
            for word, each in ways.items()
        }
        return Transcript(graph, tuple(items), tuple(spoken), sum(least[word] for word in spoken))

    def _of_phones(self, phones: list[Any]) -> Transcript:
        if not all(isinstance(phone, int | np.integer) and not isinstance(phone, bool) for phone in phones):
            raise ArgumentError(
                f"without a lexicon, expected phones as whole numbers, got {phones[0]!r}: give a lexicon for words"
            )
        self._check_known({int(phone) for phone in phones})
        distinct = sorted(set(phones))
        loops = [0] * len(distinct)
        graph = TrainingGraphs(self._hmms, Fst.from_arcs(0, [0.0], loops, loops, distinct)).make(phones)
        return Transcript(graph, least_rows=sum(self._least_rows[int(phone)] for phone in phones))

    def _check_known(self, phones: set[int]) -> None:
        unknown = sorted(phone for phone in phones if phone not in self._least_rows)
        if unknown:
            name = "" if self.lexicon is None else f" ('{self.lexicon.name_of_phone[unknown[0]]}')"
            raise ArgumentError(f"the model has no phone {unknown[0]}{name}: is phones.txt that of this model?")


def _fewest_rows(entry: TopologyEntry) -> int:
    """Returns the fewest rows that a way through an HMM takes."""
    fewest = [0.0] + [np.inf] * (len(entry.states) - 1)
    for _ in entry.states:
        for number, state in enumerate(entry.states):
            for destination, _ in state.transitions:
                fewest[destination] = min(fewest[destination], fewest[number] + state.is_emitting)
    return int(fewest[-1]) if fewest[-1] < np.inf else 0


@dataclass(frozen=True)
class FrameTimes:
    """The seconds of a frame of features, and how many of them a row of scores stands for."""

    frame_shift: float = 0.01
    frame_subsampling_factor: int = 1

    def seconds(self, row: int, num_frames: int) -> float:
        """Returns when a row of scores begins; no later than the end of all frames."""
        return self.frame_shift * min(row * self.frame_subsampling_factor, num_frames)


def aligned_utterance(
    alignment: Alignment,
    transcript: Transcript,
    transcripts: Transcripts,
    times: FrameTimes,
    num_frames: int,
    acoustic_scale: float,
) -> AlignedUtterance:
    """Returns an alignment as words and phones with times."""
    ids, lexicon = alignment.transition_ids, transcripts.lexicon
    first, numbers = phone_segments(ids, transcripts.model, "transition-ids")
    names = {} if lexicon is None else lexicon.name_of_phone
    ends = np.append(first[1:], len(ids)).tolist()
    phones = tuple(
        AlignedPhone(
            names.get(number, str(number)),
            times.seconds(begin, num_frames),
            times.seconds(end, num_frames),
            begin,
            end - begin,
        )
        for number, begin, end in zip(numbers.tolist(), first.tolist(), ends, strict=True)
    )
    words = []
    if lexicon is not None:
        spans = lexicon.split(numbers.tolist(), transcript.spoken)
        for word, (begin, end) in zip(transcript.given, spans, strict=True):
            words.append(AlignedWord(word, phones[begin].start, phones[end - 1].end, phones[begin:end]))
    likelihood = float(alignment.acoustic.mean(dtype=np.float64)) / acoustic_scale
    return AlignedUtterance(tuple(words), phones, ids, likelihood, times.seconds(num_frames, num_frames))


def best_alignment(aligner: Aligner, transcript: Transcript, scores: npt.NDArray[np.float32]) -> Alignment:
    """Returns the best path for scores (rows, pdfs), scaled. Raises ExecutionError if there is none."""
    if len(scores) < transcript.least_rows:
        raise ExecutionError(
            f"what was said takes at least {transcript.least_rows} rows of scores, but there are {len(scores)}: is it "
            "the right transcript, and are all of its frames there?"
        )
    beams = [aligner.options.beam, aligner.options.retry_beam]
    for beam in beams:
        found = aligner.align(transcript.graph, scores, beam) if beam > 0 else None
        if found is not None:
            return found
    raise ExecutionError(
        f"no path through what was said comes to its end within a beam of {max(beams):g}: is it the right transcript? "
        "If so, give a larger retry_beam"
    )


def resolved(options: WordTimesOptions, model: TransitionModel, factor: int = 0) -> tuple[AlignmentOptions, int]:
    """Returns the options of the search and the frame subsampling factor, from `options` and the model's kind.

    `factor`: the factor known from elsewhere, 0 if unknown.
    """
    is_chain = not model.topology.is_hmm
    usual = 1.0 if is_chain else 0.1
    search = AlignmentOptions(
        beam=options.beam,
        retry_beam=options.retry_beam,
        acoustic_scale=options.acoustic_scale or usual,
        self_loop_scale=usual if options.self_loop_scale < 0 else options.self_loop_scale,
    )
    return search, options.frame_subsampling_factor or factor or (_CHAIN_FACTOR if is_chain else 1)


def align(
    model: AcousticModel,
    features: Matrix,
    said: str | Sequence[str] | Sequence[int],
    lexicon: Lexicon | None = None,
    *,
    tree: Tree = None,
    ivector: Matrix | None = None,
    online_ivectors: Matrix | None = None,
    **options: Any,
) -> AlignedUtterance:
    """Returns when words and phones were said in features (frames, dim).

    `said`: words, as a text or a list; without a lexicon phones, as numbers. `tree`: the model's decision tree or its
    file; without one a phone may have the pdfs of any context, which is looser, but needs no file. Priors are
    subtracted if the model has some.

    `options` are those of WordTimesOptions (`beam`, `frame_shift` ...) and UtteranceOptions (`extra_left_context` ...).
    By default they are those of Kaldi's recipes: for a model with a chain topology acoustic_scale and self_loop_scale
    are 1 and frame_subsampling_factor is 3, else 0.1 and 1.

    Raises ArgumentError for words or phones that lexicon or model lack, ExecutionError for features that do not fit
    the model, are not finite, or have too few frames, and if nothing is found within the beams.
    """
    check_kind(model, AcousticModel, "the model", "an acoustic model (.mdl), as nnet3.load returns it")
    if lexicon is not None:
        check_kind(lexicon, Lexicon, "the lexicon", "an nnet3.Lexicon")
    names, others = ([item.name for item in declared(each)] for each in (WordTimesOptions, UtteranceOptions))
    unknown = next((name for name in options if name not in names + others), None)
    if unknown is not None:
        raise ArgumentError(
            f"there is no option '{unknown}'; the options are {', '.join(dict.fromkeys(names + others))}"
        )
    own = WordTimesOptions(**{name: value for name, value in options.items() if name in names})
    search, factor = resolved(own, model.transition_model)
    chunks = {name: value for name, value in options.items() if name not in names}
    transcripts = Transcripts(model.transition_model, lexicon, tree)
    transcript = transcripts.make(said)
    rows = model.compute(
        *(features, ivector, online_ivectors), len(model.priors) > 0, frame_subsampling_factor=factor, **chunks
    )
    scores = (rows.float() * search.acoustic_scale).cpu().numpy()
    alignment = best_alignment(Aligner(model.transition_model, search), transcript, scores)
    times = FrameTimes(own.frame_shift, factor)
    return aligned_utterance(alignment, transcript, transcripts, times, len(features), search.acoustic_scale)
