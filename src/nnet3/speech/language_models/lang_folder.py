"""Folders `lang`: a dictionary in the form for decoding and training (Kaldi: prepare_lang.sh)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nnet3.base.kaldi_io.files import map_file, write_atomically
from nnet3.base.kaldi_io.fst_file import save_fst
from nnet3.base.kaldi_io.whole_folder import whole_folder
from nnet3.base.kaldi_io.writer import Writer
from nnet3.base.options.alignment import LangOptions
from nnet3.base.text import decode_config, words_of
from nnet3.errors import ModelFormatError
from nnet3.model.hmm.topology import HmmTopology, TopologyEntry, TopologyState, write_topology
from nnet3.speech.language_models.graph_words import digest_of_grammar, write_digest
from nnet3.training.chain.graphs.fst_changes import sorted_by_label
from nnet3.training.chain.graphs.lexicon import (
    OptionalSilence,
    Pronunciation,
    lexicon_fst,
    parse_lexicon,
    with_disambiguation,
    with_positions,
)

EPSILON, BACK_OFF = "<eps>", "#0"
_RESERVED = (EPSILON, BACK_OFF, "<s>", "</s>")
_WORD_BOUNDARIES = "phones/word_boundary.int"  # where phones know their positions
#: Those of prepare_lang.sh, of which some are made here: all go with the phones that they are of.
LISTS_OF_PHONES = [
    f"phones/{name}.{kind}"
    for name in (
        *("silence", "nonsilence", "optional_silence", "disambig", "context_indep", "word_boundary", "align_lexicon"),
        *("sets", "roots", "extra_questions", "wdisambig", "wdisambig_phones", "wdisambig_words"),
    )
    for kind in ("txt", "int", "csl")
]
_POSITIONS = ("_B", "_E", "_I", "_S")
_BOUNDARY = {"_B": "begin", "_E": "end", "_I": "internal", "_S": "singleton"}
#: A frame of one pdf where a phone begins, then any number of another one.
CHAIN_ENTRY = TopologyEntry((TopologyState(0, 1, ((0, 0.5), (1, 0.5))), TopologyState()))


@dataclass(frozen=True)
class Dictionary:
    """A folder such as `data/local/dict`: `lexicon.txt` or `lexiconp.txt`, `silence_phones.txt`,
    `nonsilence_phones.txt` and `optional_silence.txt`. ModelFormatError for files that do not fit together."""

    lexicon: list[Pronunciation]
    silence: list[str]
    nonsilence: list[str]
    optional_silence: str

    def __post_init__(self) -> None:
        listed = [*self.silence, *self.nonsilence]
        known = set(listed)
        if len(known) < len(listed):
            twice = next(phone for phone in listed if listed.count(phone) > 1)
            raise ModelFormatError(
                f"the phone '{twice}' is there twice in silence_phones.txt and nonsilence_phones.txt"
            )
        if self.optional_silence not in self.silence:
            raise ModelFormatError(f"the optional silence '{self.optional_silence}' is not in silence_phones.txt")
        odd = next((phone for phone in known if phone == EPSILON or phone.startswith("#")), None)
        if odd is not None:
            raise ModelFormatError(f"no phone can be called '{odd}'")
        for each in self.lexicon:
            if each.word in _RESERVED:
                raise ModelFormatError(f"no word of a lexicon can be called '{each.word}'")
            unknown = next((phone for phone in each.phones if phone not in known), None)
            if unknown is not None:
                raise ModelFormatError(
                    f"the word '{each.word}' has the phone '{unknown}', which is in neither silence_phones.txt nor "
                    "nonsilence_phones.txt"
                )

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Dictionary:
        """Reads a folder. ModelFormatError for a missing or wrong file."""
        path = Path(folder)
        has_probabilities = (path / "lexiconp.txt").exists()
        lexicon = path / ("lexiconp.txt" if has_probabilities else "lexicon.txt")
        optional = _words(path / "optional_silence.txt")
        if len(optional) != 1:
            raise ModelFormatError("expected one phone", str(path / "optional_silence.txt"))
        parts = (_words(path / "silence_phones.txt"), _words(path / "nonsilence_phones.txt"))
        return cls(parse_lexicon(_text(lexicon), str(lexicon), has_probabilities), *parts, optional[0])


def write_lang(dictionary: Dictionary, oov: str, folder: str | os.PathLike[str], options: LangOptions) -> None:
    """Writes a folder with `L.fst`, `L_disambig.fst`, `words.txt`, `phones.txt`, `topo` and lists of phones.

    `oov` is the word for unknown words. The topology is the chain topology. ModelFormatError if the lexicon lacks
    `oov`. An old grammar in the folder stays, with the digest of its words.
    """
    lexicon, depends = dictionary.lexicon, options.position_dependent_phones
    if oov not in {each.word for each in lexicon}:
        raise ModelFormatError(f"the word for unknown ones, '{oov}', is not in the lexicon")
    silence, nonsilence = ([*_in_positions(p, depends)] for p in (dictionary.silence, dictionary.nonsilence))
    if depends:
        silence = [*dictionary.silence, *silence]
        lexicon = with_positions(lexicon)
    marked, largest = with_disambiguation(lexicon)
    symbols = [f"#{number}" for number in range(largest + 2)]
    phones = _numbered([EPSILON, *silence, *nonsilence, *symbols])
    words = _numbered([EPSILON, *sorted({each.word for each in lexicon}), BACK_OFF, "<s>", "</s>"])
    optional = OptionalSilence(dictionary.optional_silence, options.sil_prob)
    told_apart = OptionalSilence(dictionary.optional_silence, options.sil_prob, symbols[-1])
    loop = (phones[BACK_OFF], words[BACK_OFF])
    fsts = {
        "L.fst": lexicon_fst(lexicon, phones, words, optional),
        "L_disambig.fst": lexicon_fst(marked, phones, words, told_apart, loop),
    }
    files = {"phones.txt": _table(phones), "words.txt": _table(words), "oov.txt": f"{oov}\n"}
    files["oov.int"] = f"{words[oov]}\n"
    lists = {"silence": silence, "nonsilence": nonsilence, "disambig": symbols}
    for name, members in {**lists, "optional_silence": [dictionary.optional_silence]}.items():
        files[f"phones/{name}.txt"] = _lines(members)
        files[f"phones/{name}.int"] = _lines(phones[phone] for phone in members)
    if depends:
        files[_WORD_BOUNDARIES] = _boundaries(phones, dictionary.silence, [*silence, *nonsilence])
    with whole_folder(folder, [*fsts, *files, *LISTS_OF_PHONES, "topo"], keeps_others=True) as target:
        (target / "phones").mkdir()
        grammar, old_words = (Path(folder) / name for name in ("G.fst", "words.txt"))
        if grammar.exists() and old_words.exists() and not digest_of_grammar(grammar).exists():
            write_digest(target / digest_of_grammar(grammar).name, old_words)
        for name, fst in fsts.items():
            save_fst(sorted_by_label(fst), str(target / name))
        for name, text in files.items():
            write_atomically(target / name, text.encode())
        _write_topology([phones[phone] for phone in [*silence, *nonsilence]], target / "topo")


def _write_topology(phones: Sequence[int], path: Path) -> None:
    entry_of_phone = np.full(max(phones) + 1, -1, np.int32)
    entry_of_phone[phones] = 0
    writer = Writer(binary=False)
    write_topology(HmmTopology((CHAIN_ENTRY,), entry_of_phone), writer)
    writer.write_to(path)


def _boundaries(phones: Mapping[str, int], silence: Sequence[str], members: Iterable[str]) -> str:
    kinds = ((phones[phone], "nonword" if phone in silence else _BOUNDARY[phone[-2:]]) for phone in members)
    return _lines(f"{number} {kind}" for number, kind in kinds)


def _in_positions(phones: Iterable[str], depends: bool) -> Iterable[str]:
    return (phone + position for phone in phones for position in (_POSITIONS if depends else ("",)))


def _numbered(names: Iterable[str]) -> dict[str, int]:
    return {name: number for number, name in enumerate(names)}


def _table(numbers: Mapping[str, int]) -> str:
    return _lines(f"{name} {number}" for name, number in numbers.items())


def _lines(items: Iterable[object]) -> str:
    return "".join(f"{item}\n" for item in items)


def _text(path: Path) -> str:
    return decode_config(bytes(map_file(path)), str(path))


def _words(path: Path) -> list[str]:
    return words_of(_text(path))
