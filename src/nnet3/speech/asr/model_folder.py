"""ModelFolder: the directory of a recognizer's model, laid out as by Vosk or as by Kaldi's scripts."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast

import torch

from nnet3.base.kaldi_io.files import check_is_path
from nnet3.base.kaldi_io.symbols import SymbolTable
from nnet3.base.options.recognizer import (
    DecodingOptions,
    FeatureOptions,
    OnlineCmvnOptions,
    SilenceWeightingOptions,
)
from nnet3.errors import ModelFormatError
from nnet3.inference.stream import StreamComputer
from nnet3.model.nnet import AcousticModel, load
from nnet3.speech.arrays.aliases import Doubles
from nnet3.speech.asr import at_first_use
from nnet3.speech.asr.model_settings import (
    IvectorSettings,
    Settings,
    read_extractor_settings,
    read_kaldi_settings,
    read_vosk_settings,
)
from nnet3.speech.asr.rescoring_files import RescoringFiles
from nnet3.speech.features.conf_file import read_conf
from nnet3.speech.features.features import FEATURE_KINDS, read_feature_options
from nnet3.speech.features.ivector_files import load_cmvn_stats
from nnet3.speech.features.ivectors import IvectorFiles, IvectorModel

if TYPE_CHECKING:
    from nnet3.speech.asr.model_rescoring import Rescoring
    from nnet3.speech.asr.pitch_settings import PitchSettings


class _Layout(NamedTuple):
    """The places of files. `marks`: files of which any one tells the layout; `settings`: model.conf, or ""."""

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
        "of Kaldi's prepare_online_decoding.sh",
        ("conf/online.conf", "conf/ivector_extractor.conf"),
        "final.mdl", "conf/online.conf", "conf/", "global_cmvn.stats", "ivector_extractor/", "conf/", "graph/", False,
    ),
    _Layout(
        "of Vosk, in one folder", ("final.mdl", "mfcc.conf", "fbank.conf"), "final.mdl", "", "",
        "global_cmvn.stats", "ivector/", "ivector/", "",
    ),
)  # fmt: skip

_VOSK_MIN_ENERGY = 50.0
_PITCH = "pitch.conf"
_FACTOR_FILE = "frame_subsampling_factor"
_WORD_BOUNDARIES = ("phones/word_boundary.int", "word_boundary.int")
_GRAPHS = (("HCLG.fst",), ("HCLr.fst", "Gr.fst", "disambig_tid.int"))


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
    features: FeatureOptions
    decoding: DecodingOptions
    silence_weighting: SilenceWeightingOptions = field(default_factory=SilenceWeightingOptions)
    ivectors: IvectorModel | None = None
    cmvn: tuple[OnlineCmvnOptions, Doubles] | None = None  # of the network's input, if that is normalised online
    pitch: PitchSettings | None = None  # what lies behind the features in the network's input

    @property
    def input_dim(self) -> int:
        """The columns of the network's input."""
        return self.features.dim + (0 if self.pitch is None else self.pitch.features.dim)

    @property
    def seconds_per_row(self) -> float:
        """The time between rows of scores."""
        return self.decoding.frame_subsampling_factor * self.features.frame_shift / 1000

    def computer(self, num_streams: int = 1, device: str | torch.device | None = None) -> StreamComputer:
        """Returns a computer of scores on `device`, for up to `num_streams` streams, in chunks of the settings."""
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

    def check_dims(self, source: str) -> None:
        """Raises ModelFormatError, with the model's file `source`, if features, ivectors and network do not fit."""
        nnet = self.acoustic_model.nnet
        pairs = [("the network's input 'input'", nnet.node_dim("input"), self.input_dim)]
        if self.ivectors is not None:
            pairs.append(("the ivector extractor", self.ivectors.feature_dim, self.features.dim))
        if self.cmvn is not None:
            pairs.append(("the statistics for CMVN", self.cmvn[1].shape[1] - 1, self.input_dim))
        for what, wanted, dim in pairs:
            if wanted != dim:
                raise ModelFormatError(f"{what} has dimension {wanted}, but the features have {dim}", source)
        if self.ivectors is not None and nnet.node_dim("ivector") != self.ivectors.dim:
            raise ModelFormatError(
                f"the network wants ivectors of {nnet.node_dim('ivector')}, the extractor makes such of "
                f"{self.ivectors.dim}",
                source,
            )


class ModelFolder:
    """A directory with a model: its files and its settings. Large files are loaded on demand.

    `graph` is another folder with the graph. Raises ModelFormatError with all missing files, ConfigError for a setting.
    """

    def __init__(self, path: str | os.PathLike[str], graph: str | os.PathLike[str] | None = None):
        check_is_path(path, "a model directory")
        if graph is not None:
            check_is_path(graph, "a folder with a graph")
            if not Path(graph).is_dir():
                what = "this is a file, not a folder" if Path(graph).exists() else "there is no such folder"
                raise ModelFormatError(f"{what} with a graph", str(graph))
        self.path = Path(path)
        self._layout = _find_layout(self.path)
        self._graph = self.path / self._layout.graph if graph is None else Path(graph)
        settings = self._settings = self._read_settings()
        self.decoding, self.silence_weighting = settings.decoding, settings.silence_weighting
        self.silence_phones, self.endpoint_rules = settings.silence_phones, settings.endpoint_rules
        self._ivectors = self._read_ivector_settings()
        self._check_files()
        kind, conf = self._feature_conf()
        self.features = read_feature_options(self.path / conf, kind)
        if self._layout.is_vosk:
            self.features = replace(self.features, allow_downsample=True)
        self._rescoring = RescoringFiles.of(self.path)

    @property
    def layout(self) -> str:
        """The kind of directory, in words."""
        return self._layout.name

    @property
    def network(self) -> str:
        """The place of the acoustic model in the folder, such as am/final.mdl."""
        return self._layout.model

    @property
    def has_ivectors(self) -> bool:
        return (self.path / self._ivector_files().extractor).exists()

    @property
    def has_cmvn(self) -> bool:
        """True if the network's features are normalised."""
        return bool(self._input_cmvn_files())

    def graph_files(self) -> GraphFiles:
        """Returns the files of the search graph. Raises ModelFormatError if there are none."""
        for names in _GRAPHS:
            files = {name: self._graph / name for name in names}
            if all(file.is_file() for file in files.values()):
                return GraphFiles(files, self._first_of("words.txt"), self._first_of(*_WORD_BOUNDARIES))
        lookahead = _GRAPHS[1]
        missing = [name for name in lookahead if not (self._graph / name).is_file()]
        if len(missing) < len(lookahead):
            raise _missing(self._graph, missing, "this is where the search graph is, in parts")
        either = " or ".join(", ".join(names) for names in _GRAPHS)
        raise _missing(self._graph, [either], "this is where the search graph should be")

    def _first_of(self, *names: str) -> Path | None:
        """Returns the first of the files `names` found beside the graph."""
        return next((self._graph / name for name in names if (self._graph / name).is_file()), None)

    def load(self) -> FrontModel:
        """Loads everything between audio and scores. Raises ModelFormatError for parts that do not fit together."""
        path = self.path / self._layout.model
        model = load(path)
        if not isinstance(model, AcousticModel):
            raise ModelFormatError("this is a raw network: a recognizer needs one with its transition model", str(path))
        if model.warnings:
            raise ModelFormatError(model.warnings[0], str(path))
        ivectors = self._load_ivectors() if "ivector" in model.nnet.input_names else None
        front = FrontModel(
            *(model.pack(), self.features, self.decoding, self.silence_weighting, ivectors, self._load_cmvn()),
            pitch=self._read_pitch(),
        )
        front.check_dims(str(path))
        return front

    def load_rescoring(self, words: SymbolTable) -> Rescoring | None:
        """Loads the language models for rescoring, None without any. `words`: the graph's symbol table."""
        if self._rescoring is None:
            return None
        return at_first_use.Rescoring.load(self._rescoring, words, self._first_of("words.txt"))

    # ---- settings, and the files that they name ----

    def _read_settings(self) -> Settings:
        path = self.path / self._layout.settings
        if not path.is_file():
            return read_vosk_settings(None)
        return read_vosk_settings(path) if self._layout.is_vosk else read_kaldi_settings(path, self.path / _FACTOR_FILE)

    def _read_ivector_settings(self) -> IvectorSettings:
        path = self.path / self._extractor_conf
        return read_extractor_settings(path) if not self._layout.is_vosk and path.is_file() else IvectorSettings()

    @property
    def _extractor_conf(self) -> str:
        said = self._settings.features.ivector_extraction_config
        return self._layout.conf + _name(said, "ivector_extractor.conf")

    def _feature_conf(self) -> tuple[str, str]:
        """Returns the kind of features and the file with their options."""
        conf, said = self._layout.conf, self._settings.features
        if not self._layout.is_vosk:
            kind = said.feature_type
            return kind, conf + _name(getattr(said, f"{kind}_config"), f"{kind}.conf")
        there = (kind for kind in FEATURE_KINDS if (self.path / conf / f"{kind}.conf").is_file())
        kind = next(there, "mfcc")
        return kind, f"{conf}{kind}.conf"

    def _pitch_conf(self) -> str | None:
        """Returns the file with the options of pitch; None if the network's input has no pitch."""
        conf, said = self._layout.conf, self._settings.features
        if self._layout.is_vosk:
            return conf + _PITCH if (self.path / conf / _PITCH).is_file() else None
        return conf + _name(said.online_pitch_config, "online_pitch.conf") if said.add_pitch else None

    def _read_pitch(self) -> PitchSettings | None:
        name = self._pitch_conf()
        return None if name is None else at_first_use.read_pitch_settings(self.path / name)

    def _ivector_files(self) -> IvectorFiles:
        """Returns the files of the extractor, present or not."""
        folder, conf, said = self._layout.ivector, self._layout.ivector_conf, self._ivectors.files
        return IvectorFiles(
            folder + _name(said.ivector_extractor, "final.ie"),
            folder + _name(said.diag_ubm, "final.dubm"),
            folder + _name(said.lda_matrix, "final.mat"),
            folder + _name(said.global_cmvn_stats, "global_cmvn.stats"),
            conf + _name(said.splice_config, "splice.conf"),
            conf + _name(said.cmvn_config, "online_cmvn.conf"),
        )

    def _input_cmvn_files(self) -> list[str]:
        """Returns the files of the network's online input normalisation, statistics and options, if there are any."""
        said = self._settings.features
        if not self._layout.is_vosk:
            named = (said.global_cmvn_stats, self._layout.conf + _name(said.cmvn_config, ""))
            return [_name(named[0], ""), named[1]] if said.cmvn_config else []
        return [self._layout.cmvn_stats] if (self.path / self._layout.cmvn_stats).is_file() else []

    def _check_files(self) -> None:
        layout, said = self._layout, self._settings.features
        needed = {layout.model: "", layout.settings or layout.model: "", **dict.fromkeys(self._input_cmvn_files(), "")}
        other = f" (or {layout.conf}fbank.conf)" if layout.is_vosk else ""
        needed[self._feature_conf()[1]] = other
        needed |= {name: "" for name in (self._pitch_conf(),) if name is not None}
        if not layout.is_vosk and not said.frame_subsampling_factor:
            needed[_FACTOR_FILE] = f" (or --frame-subsampling-factor in {layout.settings})"
        files = self._ivector_files()
        if said.ivector_extraction_config or any((self.path / name).is_file() for name in files[:4]):
            needed |= dict.fromkeys(self._needed_for_ivectors(files), "")
        missing = [name + hint for name, hint in needed.items() if not (self.path / name).is_file()]
        if missing:
            raise _missing(self.path, missing, f"it looks like a model directory {layout.name}")

    def _needed_for_ivectors(self, files: IvectorFiles) -> list[str]:
        """Returns the files needed for ivectors, by the rules of Vosk's and Kaldi's programs."""
        if self._layout.is_vosk:
            return list(map(str, files))
        said = self._ivectors.files
        confs = [conf for conf, name in zip(files[4:], (said.splice_config, said.cmvn_config), strict=True) if name]
        return list(map(str, (self._extractor_conf, *files[:4], *confs)))

    # ---- ivectors, and whether all fits ----

    @property
    def _cmvn(self) -> OnlineCmvnOptions:
        """The options of online CMVN where no file says any."""
        return OnlineCmvnOptions(min_energy=_VOSK_MIN_ENERGY) if self._layout.is_vosk else OnlineCmvnOptions()

    def _load_cmvn(self) -> tuple[OnlineCmvnOptions, Doubles] | None:
        files = [self.path / name for name in self._input_cmvn_files()]
        if not files:
            return None
        stats, *conf = files
        options = read_conf(conf[0], {"": self._cmvn})[""] if conf else self._cmvn
        return cast(OnlineCmvnOptions, options), load_cmvn_stats(stats)

    def _load_ivectors(self) -> IvectorModel:
        files = self._ivector_files()
        if not self.has_ivectors:
            raise _missing(self.path, self._needed_for_ivectors(files), "the network has an input 'ivector'")
        paths = [self.path / name for name in files]
        try:
            return IvectorFiles(*paths[:4], *(path if path.is_file() else "" for path in paths[4:])).load(
                self._ivectors.options, self._cmvn
            )
        except ModelFormatError as error:
            raise error if error.source else ModelFormatError(error.message, str(paths[0].parent)) from None


def _name(said: str, default: str) -> str:
    """Returns a file's name without folders: the model may have moved."""
    return Path(said).name or default


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
