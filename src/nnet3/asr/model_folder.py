"""ModelFolder: the directory of a recognizer's model, as Vosk publishes them or as Kaldi's scripts leave them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, cast

import torch

from nnet3.asr.arrays import Doubles
from nnet3.asr.conf_file import read_conf
from nnet3.asr.endpoints import RULES
from nnet3.asr.features import FEATURE_KINDS, read_feature_options
from nnet3.asr.ivector_files import load_cmvn_stats
from nnet3.asr.ivectors import IvectorFiles, IvectorModel
from nnet3.decode import StreamComputer
from nnet3.errors import ModelFormatError
from nnet3.kaldi_io.files import check_is_path
from nnet3.nnet import AcousticModel, load
from nnet3.options import (
    DecodingOptions,
    EndpointRule,
    FbankOptions,
    IvectorOptions,
    MfccOptions,
    OnlineCmvnOptions,
    Options,
    SilenceOptions,
)
from nnet3.text import whole_number


class _Layout(NamedTuple):
    """The places of files. `marks`: files of which one tells the layout; `settings`: model.conf, or "" without."""

    name: str
    marks: Sequence[str]
    model: str
    settings: str
    conf: str
    cmvn_stats: str
    ivector: str
    ivector_conf: str
    graph: str
    is_vosk: bool = True


_LAYOUTS = (
    _Layout(
        "of Vosk", ("am/final.mdl", "conf/model.conf"), "am/final.mdl", "conf/model.conf", "conf/",
        "am/global_cmvn.stats", "ivector/", "ivector/", "graph/",
    ),
    _Layout(
        "of Kaldi's prepare_online_decoding.sh", ("conf/online.conf",), "final.mdl", "conf/online.conf", "conf/",
        "global_cmvn.stats", "ivector_extractor/", "conf/", "graph/", False,
    ),
    _Layout(
        "of Vosk, in one folder", ("final.mdl", "mfcc.conf", "fbank.conf"), "final.mdl", "", "",
        "global_cmvn.stats", "ivector/", "ivector/", "",
    ),
)  # fmt: skip

_CHAIN = DecodingOptions(
    beam=13, max_active=7000, lattice_beam=6, acoustic_scale=1.0, frame_subsampling_factor=3
)  # where no file says what Vosk says for it
_TEN_PHONES = SilenceOptions(tuple(range(1, 11)))
_VOSK_IVECTORS = IvectorOptions(max_count=100.0)
_VOSK_MIN_ENERGY = 50.0

_EXTRACTOR = ("final.ie", "final.dubm", "final.mat", "global_cmvn.stats")  # as IvectorFiles has them
_PITCH = ("pitch.conf", "online_pitch.conf")
_FACTOR_FILE = "frame_subsampling_factor"
_WORD_BOUNDARIES = ("phones/word_boundary.int", "word_boundary.int")
_GRAPHS = (("HCLG.fst",), ("HCLr.fst", "Gr.fst", "disambig_tid.int"))

# Options of Kaldi's that change nothing here: its own program's memory, determinization, warnings, paths elsewhere.
_IGNORED = {
    "settings": r"debug-computation|(optimization|computation|compiler|ivector-silence-weighting)\..*|hash-ratio|"
    r"determinize-.*|(phone|word)-determinize|minimize|delta|memory-pool-.*|feature-type|add-pitch|.*-config",
    "ivectors": r"(splice|cmvn)-config|lda-matrix|global-cmvn-stats|diag-ubm|ivector-extractor",
}


@dataclass(frozen=True)
class GraphFiles:
    """The search graph of a model: one file, or the parts of a look-ahead graph. `words`: words.txt, or None."""

    files: Mapping[str, Path]
    words: Path | None
    word_boundary: Path | None

    @property
    def is_lookahead(self) -> bool:
        """True if the graph is HCLr.fst and Gr.fst, which are put together in the search."""
        return "HCLG.fst" not in self.files


@dataclass(frozen=True, eq=False)
class FrontModel:
    """Everything between audio and scores: the acoustic model and how its inputs are made."""

    acoustic_model: AcousticModel
    features: MfccOptions | FbankOptions
    decoding: DecodingOptions
    silence_phones: tuple[int, ...] = ()
    ivectors: IvectorModel | None = None
    cmvn: tuple[OnlineCmvnOptions, Doubles] | None = None  # of the network's input, if that is normalised online

    def computer(self, num_streams: int = 1, device: str | torch.device | None = None) -> StreamComputer:
        """Returns a computer of scores for `AcousticStream`, as many at a time; chunks are those of the settings."""
        return StreamComputer(
            self.acoustic_model,
            frames_per_chunk=self.decoding.frames_per_chunk,
            num_streams=num_streams,
            frame_subsampling_factor=self.decoding.frame_subsampling_factor,
            extra_left_context_initial=self.decoding.extra_left_context_initial,
            device=device,
            use_priors=len(self.acoustic_model.priors) > 0,
            acoustic_scale=self.decoding.acoustic_scale,
        )


class ModelFolder:
    """A directory with a model: its files and its settings. The large files are loaded when they are asked for.

    `graph` is another folder with the graph. Raises ModelFormatError, with all files that are missing, or ConfigError
    for a setting.
    """

    def __init__(self, path: str | os.PathLike[str], graph: str | os.PathLike[str] | None = None):
        check_is_path(path, "a model directory")
        self.path = Path(path)
        self._layout = _find_layout(self.path)
        conf = self.path / self._layout.conf
        self._graph = self.path / self._layout.graph if graph is None else Path(graph)
        self._check_files()
        kind = next(kind for kind in FEATURE_KINDS if (conf / f"{kind}.conf").is_file())
        self.features = read_feature_options(conf / f"{kind}.conf", kind)
        self.decoding, self.silence_phones, self.endpoint_rules = self._read_settings()

    @property
    def layout(self) -> str:
        """The kind of directory, in words."""
        return self._layout.name

    @property
    def has_ivectors(self) -> bool:
        return (self.path / self._layout.ivector / _EXTRACTOR[0]).exists()

    def graph_files(self) -> GraphFiles:
        """Returns the files of the search graph. Raises ModelFormatError if there are none."""
        for names in _GRAPHS:
            files = {name: self._graph / name for name in names}
            if all(file.is_file() for file in files.values()):
                return GraphFiles(files, self._first_of("words.txt"), self._first_of(*_WORD_BOUNDARIES))
        either = " or ".join(", ".join(names) for names in _GRAPHS)
        raise _missing(self._graph, [either], "this is where the search graph should be")

    def _first_of(self, *names: str) -> Path | None:
        """Returns the first of these files that there is beside the graph."""
        return next((self._graph / name for name in names if (self._graph / name).is_file()), None)

    def load(self) -> FrontModel:
        """Loads what is between audio and scores. Raises ModelFormatError for parts that do not fit each other."""
        path = self.path / self._layout.model
        model = load(path)
        if not isinstance(model, AcousticModel):
            raise ModelFormatError("this is a raw network: a recognizer needs one with its transition model", str(path))
        if model.warnings:
            raise ModelFormatError(model.warnings[0], str(path))
        ivectors = self._load_ivectors() if "ivector" in model.nnet.input_names else None
        stats = self.path / self._layout.cmvn_stats
        front = FrontModel(
            model.pack(),
            self.features,
            self.decoding,
            self.silence_phones,
            ivectors,
            (self._cmvn, load_cmvn_stats(stats)) if stats.is_file() else None,
        )
        self._check_dims(front, path)
        return front

    # ---- settings ----

    def _check_files(self) -> None:
        conf, ivector = self._layout.conf, self._layout.ivector
        missing = [] if (self.path / self._layout.model).is_file() else [self._layout.model]
        if self._layout.settings and not (self.path / self._layout.settings).is_file():
            missing.append(self._layout.settings)
        if not any((self.path / conf / name).is_file() for name in ("mfcc.conf", "fbank.conf")):
            missing.append(f"{conf}mfcc.conf (or {conf}fbank.conf)")
        there = [name for name in _EXTRACTOR if (self.path / ivector / name).is_file()]
        if there:
            missing += [ivector + name for name in _EXTRACTOR if name not in there]
        if missing:
            raise _missing(self.path, missing, f"it looks like a model directory {self._layout.name}")
        for name in _PITCH:
            if (self.path / conf / name).exists():
                raise ModelFormatError(
                    "this model wants the pitch of the voice among its features, which no package computes as Kaldi "
                    "does: take a model without pitch",
                    str(self.path / conf / name),
                )

    def _read_settings(self) -> tuple[DecodingOptions, tuple[int, ...], dict[str, EndpointRule]]:
        is_vosk = self._layout.settings == "conf/model.conf"
        decoding = DecodingOptions() if is_vosk else _CHAIN
        factor = self.path / _FACTOR_FILE
        if not is_vosk and factor.is_file():
            decoding = _with_factor(decoding, factor)
        sections: dict[str, Options] = {
            "": decoding,
            "endpoint": SilenceOptions() if self._layout.settings else _TEN_PHONES,
        }
        sections |= {f"endpoint.{name}": rule for name, rule in RULES.items()}
        if self._layout.settings:
            sections = read_conf(self.path / self._layout.settings, sections, _IGNORED["settings"])
        silence = cast(SilenceOptions, sections["endpoint"])
        rules = {name: cast(EndpointRule, sections[f"endpoint.{name}"]) for name in RULES}
        return cast(DecodingOptions, sections[""]), silence.silence_phones, rules

    # ---- ivectors, and whether all fits ----

    @property
    def _cmvn(self) -> OnlineCmvnOptions:
        """The options of online CMVN where no file says any."""
        return OnlineCmvnOptions(min_energy=_VOSK_MIN_ENERGY) if self._layout.is_vosk else OnlineCmvnOptions()

    def _load_ivectors(self) -> IvectorModel:
        folder = self.path / self._layout.ivector
        if not self.has_ivectors:
            missing = [self._layout.ivector + name for name in _EXTRACTOR]
            raise _missing(self.path, missing, "the network has an input 'ivector'")
        conf = self.path / self._layout.ivector_conf
        options: Options = _VOSK_IVECTORS
        if (conf / "ivector_extractor.conf").is_file():
            options = read_conf(conf / "ivector_extractor.conf", {"": options}, _IGNORED["ivectors"])[""]
        confs = [conf / name for name in ("splice.conf", "online_cmvn.conf")]
        files = IvectorFiles(
            *(folder / name for name in _EXTRACTOR), *(each if each.is_file() else "" for each in confs)
        )
        try:
            return files.load(cast(IvectorOptions, options), self._cmvn)
        except ModelFormatError as error:
            raise error if error.source else ModelFormatError(error.message, str(folder)) from None

    def _check_dims(self, front: FrontModel, path: Path) -> None:
        nnet, dim = front.acoustic_model.nnet, front.features.dim
        pairs = [("the network's input 'input'", nnet.node_dim("input"))]
        if front.ivectors is not None:
            pairs.append(("the ivector extractor", front.ivectors.feature_dim))
        if front.cmvn is not None:
            pairs.append(("the statistics for CMVN", front.cmvn[1].shape[1] - 1))
        for what, wanted in pairs:
            if wanted != dim:
                raise ModelFormatError(f"{what} has dimension {wanted}, but the features have {dim}", str(path))
        if front.ivectors is not None and nnet.node_dim("ivector") != front.ivectors.dim:
            raise ModelFormatError(
                f"the network wants ivectors of {nnet.node_dim('ivector')}, the extractor makes such of "
                f"{front.ivectors.dim}",
                str(path),
            )


def _with_factor(decoding: DecodingOptions, file: Path) -> DecodingOptions:
    """Returns the options with the factor that a file of Kaldi's says, which is one integer."""
    words = file.read_bytes()[:100].split()
    factor = whole_number(words[0]) if len(words) == 1 else None
    if factor is None:
        raise ModelFormatError("expected one integer, the frames of input per row of output", str(file))
    values = decoding.values() | {"frame_subsampling_factor": factor}
    return DecodingOptions(**values)


def _find_layout(path: Path) -> _Layout:
    if not path.is_dir():
        what = "this is a file, not a model directory" if path.exists() else "there is no such model directory"
        hint = ": unpack it first" if path.suffix in (".zip", ".gz", ".tar", ".tgz") and path.exists() else ""
        raise ModelFormatError(what + hint, str(path))
    for layout in _LAYOUTS:
        if any((path / mark).is_file() for mark in layout.marks):
            return layout
    inner = [each.name for each in sorted(path.iterdir()) if each.is_dir() and _has_marks(each)]
    if inner:
        raise ModelFormatError(f"this is no model directory, but {inner[0]} in it is one: give that", str(path))
    needed = [" and ".join(layout.marks[:2]) for layout in _LAYOUTS]
    raise _missing(path, [" or ".join(needed)], "this is no model directory")


def _has_marks(path: Path) -> bool:
    return any((path / mark).is_file() for layout in _LAYOUTS for mark in layout.marks)


def _missing(path: Path, missing: Sequence[str], why: str) -> ModelFormatError:
    found = sorted(each.name + "/" * each.is_dir() for each in path.iterdir()) if path.is_dir() else []
    shown = ", ".join(found[:12]) + (", ..." if len(found) > 12 else "")
    return ModelFormatError(
        f"{why}: {', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing; it has {shown or 'nothing'}. "
        "Give a directory as Vosk publishes them, or as prepare_online_decoding.sh of Kaldi leaves them",
        str(path),
    )
