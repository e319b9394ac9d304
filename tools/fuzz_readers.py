"""Readers of recognizers, servers, training runs, caches and settings, with small files that the fuzzer damages."""

from __future__ import annotations

import io
import json
import logging
import struct
import tempfile
import warnings
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import MISSING, fields
from functools import cache
from pathlib import Path
from typing import Any, get_type_hints

import click
import numpy as np
import onnx
from websockets.datastructures import Headers
from websockets.exceptions import InvalidHeaderValue

from nnet3 import ComputationCache, ComputationRequest, IoSpecification, Nnet, cn
from nnet3.base.kaldi_io.script import read_script
from nnet3.base.kaldi_io.symbols import load_symbols
from nnet3.cli.files import read_integers
from nnet3.cli.kaldi_arguments import read_arguments
from nnet3.cli.verb import find_verb
from nnet3.engine.driver.cache_file import MAGIC
from nnet3.errors import ModelFormatError, Nnet3Error
from nnet3.export.metadata import OnnxMetadata, load_onnx_metadata
from nnet3.kaldi_io import Reader, Writer, load_matrix, open_matrix_table, open_vector_table, open_words_table
from nnet3.model.hmm.topology import read_topology
from nnet3.model.hmm.tree import ContextDependency
from nnet3.model.nnet.load import read_transition_model
from nnet3.options import HearingOptions, IvectorOptions, MfccOptions, OnlineCmvnOptions, ServeOptions, SpliceOptions
from nnet3.speech.asr.model_settings import read_extractor_settings, read_kaldi_settings, read_vosk_settings
from nnet3.speech.features.audio_file import open_audio
from nnet3.speech.features.conf_file import read_conf
from nnet3.speech.features.ivector_files import load_cmvn_stats, load_diagonal_gmm, load_ivector_extractor
from nnet3.speech.features.ivectors import IvectorModel, SpeakerState
from nnet3.speech.language_models.arpa import arpa_fst, parse_arpa
from nnet3.speech.language_models.lang_folder import Dictionary
from nnet3.speech.lattices.word_times import WordBoundaries
from nnet3.speech.serve.access import AccessRules
from nnet3.speech.serve.session import Session
from nnet3.speech.speaker.plda import Plda
from nnet3.training.chain.graphs.lexicon import parse_lexicon
from nnet3.training.examples.xvector_making import read_ranges
from nnet3.training.runs.checkpoints import Checkpoints
from nnet3.training.runs.data_kinds import KINDS
from nnet3.training.runs.events import read_events
from nnet3.training.runs.packing import load_parts, put_together, save_parts, take_apart
from nnet3.training.runs.settings_text import parse_toml, parse_yaml
from tools.fuzz_kinds import FuzzKind

_ROOT = Path(__file__).resolve().parents[1]
_NUMBERS = struct.Struct("<QQ")
_CONFIG = """input-node name=input dim=2
component name=affine type=NaturalGradientAffineComponent input-dim=4 output-dim=2 learning-rate=0.01
component-node name=affine component=affine input=Append(Offset(input, -1), IfDefined(input))
output-node name=output input=affine objective=quadratic
"""
_XCONFIG = """input dim=3 name=input
relu-batchnorm-layer name=tdnn1 dim=4 input=Append(-1,0,1)
output-layer name=output dim=2 input=tdnn1 max-change=1.5
"""
_ARPA = r"""\data\
ngram 1=4
ngram 2=2

\1-grams:
-99 <s> -0.3
-0.7 </s>
-0.5 a -0.2
-0.6 b -0.1

\2-grams:
-0.2 <s> a
-0.4 a b

\end\
"""
_TOML = """[model]
file = "start.mdl"
[data]
train = ["ark:1.egs", "ark:2.egs"]
minibatch-size = "64=128/32=1:8"
[training]
epochs = 3
initial-learning-rate = 1e-3
momentum = 0.5
[output]
folder = "exp"
"""
_YAML = """model: {file: start.mdl}
data:
  train: [ark:1.egs, "ark:2.egs"]
  minibatch_size: 128
training:
  epochs: 3
  initial_learning_rate: 1.0e-3
output: {folder: exp, curves: true}
"""
_MESSAGES = (
    '{"config": {"sample_rate": 8000, "words": 1, "max_alternatives": 2, "phrase_list": ["yes no", "[unk]"]}}',
    '{"eof" : 1}',
    '{"reset" : 1}',
)
_EVENTS = """{"event": "start", "time": 1.5, "step": 0}
{"event": "checkpoint", "step": 3, "path": "x"}
{"event": "resume", "step": 3}
"""
_MODEL_CONF = """--min-active=20
--acoustic-scale=1.0  # of chain models
--frame-subsampling-factor=3
--endpoint.silence-phones=1:2:3
--endpoint.rule2.min-trailing-silence=0.25
"""
_ONLINE_CONF = """--feature-type=mfcc
--mfcc-config=conf/mfcc.conf
--ivector-extraction-config=conf/ivector_extractor.conf
--endpoint.silence-phones=1:2
--ivector-silence-weighting.silence-weight=0.01
"""
_EXTRACTOR_CONF = "--ivector-extractor=final.ie\n--diag-ubm=final.dubm\n--ivector-period=10\n--max-count=100.5\n"
_PLDA = "<Plda>  [ 1 2 ]\n [\n  1 0 \n  0.5 2 ]\n [ 3 0.5 ]\n</Plda> "
_TABLE = "a  [\n  1 2.5\n  3 4 ]\nb  [ 5 6 ]\n"
_STATE = {"progress": {"step": 4, "done": 0.5, "best": None}, "w": np.arange(3.0), "x": [(1, b"\0"), "text", True]}
_HOSTILE = (b"9" * 5000, b"[" * 1000, b"{" * 1000, b"1e999", b"-1", b"nan", b"\xff\xfe", "\u00b2\u0663\u3000".encode())


def _of(*files: str | bytes) -> Callable[[Path], Iterator[bytes]]:
    """Returns what yields files, and each of them with something hostile in the place of its first number."""

    def contents(_: Path) -> Iterator[bytes]:
        for file in files:
            data = file if isinstance(file, bytes) else file.encode()
            place = next((at for at, byte in enumerate(data) if 0x30 <= byte < 0x3A), 0)
            yield data
            yield from (data[:place] + hostile + data[place + 1 :] for hostile in _HOSTILE)

    return contents


def _files(*patterns: str) -> Callable[[Path], Iterator[bytes]]:
    """Returns what yields files of the golden folder, and of the tests of recognizers."""

    def contents(golden: Path) -> Iterator[bytes]:
        roots = (golden, _ROOT / "tests/asr/golden")
        found = {path for pattern in patterns for root in roots for path in root.glob(pattern)}
        yield from (path.read_bytes() for path in sorted(found))

    return contents


def _refusing(load: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
    """Returns a loader whose errors of all kinds of the package are ModelFormatErrors, without messages of its own."""

    def refusing(contents: bytes) -> Any:
        logging.getLogger("nnet3").setLevel(logging.CRITICAL)
        try:
            return load(contents)
        except Nnet3Error as error:
            str(error)
            raise ModelFormatError("refused") from None

    return refusing


@contextmanager
def _file(contents: bytes, name: str = "file") -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(contents)
        yield path


def _by_path(load: Callable[[Path], Any], name: str = "file") -> Callable[[bytes], Any]:
    def load_contents(contents: bytes) -> Any:
        with _file(contents, name) as path:
            return load(path)

    return load_contents


def _by_text(load: Callable[[str], Any]) -> Callable[[bytes], Any]:
    return lambda contents: load(contents.decode("utf-8", "replace"))


def _by_reader(load: Callable[[Reader], Any]) -> Callable[[bytes], Any]:
    return lambda contents: load(Reader(contents, "mutant"))


class _SomePhones:
    """In the place of a transition model, of which word boundaries want the number of phones."""

    num_phones = 50


def _boundaries(path: Path) -> None:
    try:
        WordBoundaries.load(path, _SomePhones())  # type: ignore[arg-type]
    except AttributeError:  # the file is read, and the rest of a model is not there
        return


def _wav() -> bytes:
    data = np.arange(50, dtype="<i2").tobytes()
    form = b"fmt " + struct.pack("<IHHIIHH", 16, 1, 1, 8000, 16000, 2, 16)
    body = b"WAVE" + form + b"data" + struct.pack("<I", len(data)) + data
    return b"RIFF" + struct.pack("<I", len(body)) + body


def _compiled(folder: Path) -> None:
    frames = [(0, t, 0) for t in range(6)]
    request = ComputationRequest([IoSpecification("input", frames)], [IoSpecification("output", frames[1:])])
    str(ComputationCache(folder).compile(Nnet.from_config(_CONFIG), request))


def _cache_file(_: Path) -> Iterator[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        _compiled(Path(folder))
        yield from (path.read_bytes() for path in sorted(Path(folder).glob("*.nnet3")))


def _load_cached(contents: bytes) -> None:
    """Compiles with a cache whose file is damaged, but has the checksum of what it holds."""
    begin = len(MAGIC) + _NUMBERS.size
    if contents.startswith(MAGIC) and len(contents) >= begin:
        length = _NUMBERS.unpack_from(contents, len(MAGIC))[1]
        contents = MAGIC + _NUMBERS.pack(zlib.crc32(contents[begin:]), length) + contents[begin:]
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _compiled(Path(folder))
        for path in Path(folder).glob("*.nnet3"):
            path.write_bytes(contents)
        _compiled(Path(folder))


def _load_state(contents: bytes) -> None:
    try:
        put_together(contents.decode("utf-8", "replace"), take_apart(_STATE)[1])
    except ValueError as error:
        raise ModelFormatError(str(error)) from None


def _run_json(_: Path) -> Iterator[bytes]:
    facts = {"format": 1, "step": 5, "settings": {"a": 1}}
    yield from _of(json.dumps({**facts, "files": {}}), json.dumps({**facts, "files": {"x": [3, 4]}}))(Path())


def _kept_state(_: Path) -> Iterator[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rank-0.safetensors"
        save_parts(*take_apart(_STATE), path)
        yield path.read_bytes()


@cache
def _golden_model() -> IvectorModel:
    folder = _ROOT / "tests/asr/golden"
    splice = read_conf(folder / "splice.conf", {"": SpliceOptions()})[""]
    assert isinstance(splice, SpliceOptions)
    extractor, gmm = load_ivector_extractor(folder / "final.ie"), load_diagonal_gmm(folder / "final.dubm")
    stats = load_cmvn_stats(folder / "global_cmvn.stats")
    return IvectorModel(extractor, gmm, load_matrix(folder / "final.mat"), stats, splice)


def _metadata(_: Path) -> Iterator[bytes]:
    """Yields a small ONNX file with what an exported one says of itself."""
    facts = {each.name: each.default for each in fields(OnnxMetadata) if each.default is not MISSING}
    kinds = get_type_hints(OnnxMetadata)
    facts |= {each.name: kinds[each.name]() for each in fields(OnnxMetadata) if each.default is MISSING}
    model = onnx.helper.make_model(onnx.helper.make_graph([], "graph", [], []))
    model.metadata_props.extend(
        onnx.StringStringEntryProto(key=key, value=value)
        for key, value in OnnxMetadata(**facts).to_properties().items()
    )
    yield model.SerializeToString()


def _access(text: str) -> str | None:
    """Returns what is said to a request whose Host and Origin are two lines of a text."""
    host, _, origin = text.partition("\n")
    try:
        headers = Headers([("Host", host), ("Origin", origin)])
    except InvalidHeaderValue as error:
        raise ModelFormatError(str(error)) from None
    return AccessRules(ServeOptions(allow_origin="https://a.example")).refusal(headers, is_connection=True)


def _factor_file(path: Path) -> None:
    path.with_name("online.conf").write_text(_ONLINE_CONF)
    read_kaldi_settings(path.with_name("online.conf"), path)


def _dictionary(path: Path) -> None:
    folder = path.parent
    for name, text in (("lexicon.txt", "a p\nb s\n"), ("silence_phones.txt", "s\n"), ("optional_silence.txt", "s\n")):
        (folder / name).write_text(text)
    Dictionary.load(folder)


def _read_options(path: Path) -> None:
    try:
        read_arguments(find_verb("copy"), [f"--config={path}", "a", "b"])
    except click.ClickException as error:
        raise ModelFormatError(error.message) from None


def _binary_plda() -> Iterator[bytes]:
    writer = Writer.of_file(binary=True)
    Reader(_PLDA.encode(), "plda").whole(Plda.read).write_to(writer)
    yield writer.getvalue()


def _nothing(_: Any) -> None:
    return


#: The readers: what the file is, small ones of it, and what reads it.
_READERS: tuple[tuple[str, Callable[[Path], Iterator[bytes]], Callable[[bytes], Any]], ...] = (
    ("words.txt", _of("<eps> 0\na 1\nb 2\n"), _by_path(load_symbols)),
    ("word_boundary.int", _of("1 nonword\n2 begin\n3 end\n4 internal\n5 singleton\n"), _by_path(_boundaries)),
    ("ARPA", _of(_ARPA), _by_text(lambda text: arpa_fst(parse_arpa(text, "lm"), {"a": 1, "b": 2}, 3))),
    ("lexicon", _of("a p1 p2\nb p3\n"), _by_text(lambda text: parse_lexicon(text, "lexicon"))),
    ("lexiconp", _of("a 0.5 p1 p2\nb 1 p3\n"), _by_text(lambda text: parse_lexicon(text, "lexicon", True))),
    ("final.dubm", _files("final.dubm"), _by_path(lambda path: load_diagonal_gmm(path).constants)),
    ("final.ie", _files("final.ie"), _by_path(load_ivector_extractor)),
    ("final.mat", _files("final.mat"), _by_path(load_matrix)),
    ("CMVN statistics", _files("*.stats"), _by_path(load_cmvn_stats)),
    (
        "conf",
        _of("--num-ceps=13\n--use-energy=false # x\n--cmvn.norm-means=true\n--ivector.ivector-period=10\n"),
        _by_path(
            lambda path: read_conf(path, {"": MfccOptions(), "cmvn": OnlineCmvnOptions(), "ivector": IvectorOptions()})
        ),
    ),
    ("model.conf", _of(_MODEL_CONF), _by_path(read_vosk_settings)),
    ("online.conf", _of(_ONLINE_CONF), _by_path(lambda path: read_kaldi_settings(path, path.with_name("none")))),
    ("ivector_extractor.conf", _of(_EXTRACTOR_CONF), _by_path(read_extractor_settings)),
    ("frame_subsampling_factor", _of("3\n"), _by_path(_factor_file)),
    ("options of --config", _of("--scale=2\n--binary=false # x\n"), _by_path(_read_options)),
    (
        "speaker state",
        _files("speaker.state", "speaker.txt"),
        _by_path(lambda path: SpeakerState.load(path, _golden_model())),
    ),
    ("dictionary", _of("p\np1 p2\n"), _by_path(_dictionary, "nonsilence_phones.txt")),
    ("table in text", _of(_TABLE), _by_path(lambda path: dict(open_matrix_table(f"ark:{path}")))),
    ("table of vectors", _of("a [ 1 2 ]\nb [ ]\n"), _by_path(lambda path: dict(open_vector_table(f"ark:{path}")))),
    ("transcripts", _of("u one two\nv won\n"), _by_path(lambda path: dict(open_words_table(f"ark:{path}")))),
    ("ONNX metadata", _metadata, _by_path(load_onnx_metadata)),
    ("integers", _of("1\n2 3\n"), _by_path(lambda path: read_integers(str(path)))),
    ("script", _of("a x.ark:17\nb y.ark:3[0:4,1:2]\nc cat z |\n"), _by_path(lambda path: read_script(str(path)))),
    ("x-vector ranges", _of("a 0 0 5 30 1\nb 1 1 0 20 2\n"), _by_text(lambda text: read_ranges(text, "ranges", 2))),
    ("WAV", _of(_wav()), lambda contents: list(open_audio(io.BytesIO(contents), "mutant").pieces(0.1))),
    ("PLDA model", _of(_PLDA, *_binary_plda()), _by_reader(Plda.read)),
    ("topology", _files("chain/*/topo"), _by_reader(read_topology)),
    ("tree", _files("chain/*/tree"), _by_reader(ContextDependency.read)),
    ("transition model", _files("chain/*/0.trans_mdl"), _by_reader(read_transition_model)),
    ("message", _of(*_MESSAGES), _by_text(lambda text: Session(None, None, HearingOptions()).command(text))),  # type: ignore[arg-type]
    ("Host and Origin", _of("localhost:2700\nhttp://localhost:2700", "[::1]:1\nhttps://a.example"), _by_text(_access)),
    ("settings in TOML", _of(_TOML), _by_text(lambda text: KINDS.read(parse_toml(text, "run.toml")))),
    ("settings in YAML", _of(_YAML), _by_text(lambda text: KINDS.read(parse_yaml(text, "run.yaml")))),
    ("run.json", _run_json, _by_path(lambda path: Checkpoints(path.parents[1], 1).latest(), "000000005/run.json")),
    ("rank-0.safetensors", _kept_state, _by_path(lambda path: load_parts(path), "rank-0.safetensors")),
    ("state of a run", _of(take_apart(_STATE)[0]), _load_state),
    ("events", _of(_EVENTS), _by_path(lambda path: read_events(path.parent), "log.jsonl")),
    ("cache", _cache_file, _load_cached),
    ("config", _of(_CONFIG), _by_text(Nnet.from_config)),
    ("xconfig", _of(_XCONFIG), _by_text(Nnet.from_xconfig)),
    (
        "computational network",
        _of(cn.to_text(cn.Network(cn.square_error(cn.parameter("W", (1, 2)) @ cn.input("x", 2), cn.input("y", 1))))),
        _by_text(lambda text: cn.from_text(text)),
    ),
)
READER_KINDS = [FuzzKind(name, contents, _refusing(load), _nothing) for name, contents, load in _READERS]
