"""Each option that Kaldi's online programs have is honoured, refused or warned about."""

from __future__ import annotations

import functools
import logging
from pathlib import Path
from typing import Any

import pytest

from nnet3.asr import ModelFolder
from nnet3.errors import ConfigError, ModelFormatError
from nnet3.options import (
    DecodingOptions,
    ExtractorFileOptions,
    FbankOptions,
    IvectorOptions,
    MfccOptions,
    OnlineCmvnOptions,
    OnlineFeatureOptions,
    Options,
    SpliceOptions,
    declared,
)
from tests.asr.small_model import (
    random_cmvn_stats,
    random_ivector_model,
    write_extractor,
    write_folder,
    write_gmm,
    write_kaldi_folder,
    write_matrix,
)
from tests.seeds import RANDOM

HONOURED, REFUSED, WARNED = "honoured", "refused", "warned about"

#: Of the decoder, the network's chunks and endpoints, in both files: what becomes of each with this value.
BOTH = {
    "beam=9": HONOURED,
    "max-active=555": HONOURED,
    "min-active=55": HONOURED,
    "lattice-beam=5": HONOURED,
    "prune-interval=5": HONOURED,
    "beam-delta=0.3": HONOURED,
    "max-mem=7000": HONOURED,
    "acoustic-scale=0.7": HONOURED,
    "frame-subsampling-factor=2": HONOURED,
    "frames-per-chunk=48": HONOURED,
    "extra-left-context-initial=4": HONOURED,
    "determinize-max-delay=70": HONOURED,
    "determinize-min-chunk-size=10": HONOURED,
    "determinize-max-active=100": HONOURED,
    "determinize-max-activ=100": REFUSED,
    "hash-ratio=3": WARNED,
    "delta=0.001": WARNED,
    "phone-determinize=false": WARNED,
    "word-determinize=false": WARNED,
    "determinize-lattice=false": WARNED,
    "minimize=true": WARNED,
    "memory-pool-tokens-block-size=7": WARNED,
    "memory-pool-links-block-size=7": WARNED,
    "debug-computation=true": WARNED,
    "optimization.optimize=false": WARNED,
    "computation.debug=true": WARNED,
    "compiler.use-shortcut=false": WARNED,
    "config=other": WARNED,
    "print-args=false": WARNED,
    "verbose=1": WARNED,
    "endpoint.silence-phones=2:3": HONOURED,
    **{
        f"endpoint.rule{rule}.must-contain-nonsilence={['true', 'false'][rule in (2, 3, 4)]}": HONOURED
        for rule in range(1, 6)
    },
    **{f"endpoint.rule{rule}.min-trailing-silence=7": HONOURED for rule in range(1, 6)},
    **{f"endpoint.rule{rule}.max-relative-cost=7": HONOURED for rule in range(1, 6)},
    **{f"endpoint.rule{rule}.min-utterance-length=7": HONOURED for rule in range(1, 6)},
    "endpoint.rule6.min-utterance-length=7": REFUSED,
}
#: In Kaldi's online.conf alone; Vosk refuses them.
ONLINE = {
    "feature-type=fbank\n--mfcc-config=": HONOURED,
    "feature-type=plp": REFUSED,
    "feature-type=spectrogram": REFUSED,
    "mfcc-config=/gone/conf/other_mfcc.conf": HONOURED,
    "mfcc-config=/gone/conf/none.conf": REFUSED,
    "fbank-config=/gone/conf/fbank.conf": WARNED,
    "plp-config=/gone/conf/plp.conf": WARNED,
    "add-pitch=true": REFUSED,
    "online-pitch-config=/gone/conf/online_pitch.conf": WARNED,
    "cmvn-config=/gone/conf/online_cmvn.conf": REFUSED,
    "global-cmvn-stats=/gone/global_cmvn.stats": WARNED,
    "cmvn-config=/gone/conf/online_cmvn.conf\n--global-cmvn-stats=/gone/global_cmvn.stats": HONOURED,
    "cmvn-config=/gone/conf/none.conf\n--global-cmvn-stats=/gone/global_cmvn.stats": REFUSED,
    "cmvn-config=/gone/conf/online_cmvn.conf\n--global-cmvn-stats=/gone/none.stats": REFUSED,
    "ivector-extraction-config=/gone/conf/other_ivector.conf": HONOURED,
    "ivector-extraction-config=/gone/conf/none.conf": REFUSED,
    "ivector-silence-weighting.silence-phones=1:2": HONOURED,
    "ivector-silence-weighting.silence-phones=1,3": HONOURED,
    "ivector-silence-weighting.silence-weight=0.2": HONOURED,
    "ivector-silence-weighting.max-state-duration=40": HONOURED,
    "ivector-silence-weighting.silence-weights=1": REFUSED,
    "chunk-length=0.1": WARNED,
    "online=false": WARNED,
    "do-endpointing=true": WARNED,
    "word-symbol-table=words": WARNED,
    "num-threads-startup=2": WARNED,
    "samp-freq=8000": WARNED,
    "output-period=2": WARNED,
    "read-timeout=2": WARNED,
    "port-num=2": WARNED,
    "produce-time=true": WARNED,
}
EXTRACTOR = {
    "splice-config=/gone/other_splice.conf": HONOURED,
    "cmvn-config=/gone/other_cmvn.conf": HONOURED,
    "lda-matrix=/gone/other.mat": HONOURED,
    "global-cmvn-stats=/gone/other.stats": HONOURED,
    "diag-ubm=/gone/other.dubm": HONOURED,
    "ivector-extractor=/gone/other.ie": HONOURED,
    **dict.fromkeys(
        [
            "splice-config=x",
            "cmvn-config=x",
            "lda-matrix=x",
            "global-cmvn-stats=x",
            "diag-ubm=x",
            "ivector-extractor=x",
        ],
        REFUSED,
    ),
    "ivector-period=7": HONOURED,
    "num-gselect=3": HONOURED,
    "min-post=0.1": HONOURED,
    "posterior-scale=0.3": HONOURED,
    "max-count=75": HONOURED,
    "use-most-recent-ivector=false": HONOURED,
    "greedy-ivector-extractor=true": HONOURED,
    "max-remembered-frames=500": HONOURED,
    "online-cmvn-iextractor=true": HONOURED,
    "num-cg-iters=7": REFUSED,
}
FRAMES = {
    "sample-frequency=7000": HONOURED,
    "frame-length=20": HONOURED,
    "frame-shift=8": HONOURED,
    "dither=1": HONOURED,
    "preemphasis-coefficient=0.9": HONOURED,
    "remove-dc-offset=false": HONOURED,
    "window-type=hamming": HONOURED,
    "blackman-coeff=0.5": HONOURED,
    "round-to-power-of-two=false": HONOURED,
    "snip-edges=false": HONOURED,
    "low-freq=30": HONOURED,
    "high-freq=-100": HONOURED,
    "raw-energy=false": HONOURED,
    "energy-floor=0.1": HONOURED,
    "htk-compat=true": HONOURED,
    "allow-upsample=false": HONOURED,
    "allow-downsample=false": HONOURED,
    "max-feature-vectors=7": WARNED,
    "vtln-low=200": WARNED,
    "vtln-high=200": WARNED,
    "debug-mel=true": WARNED,
}
MFCC = FRAMES | {
    "num-mel-bins=9": HONOURED,
    "num-ceps=5": HONOURED,
    "use-energy=true": HONOURED,
    "cepstral-lifter=0": HONOURED,
}
FBANK = FRAMES | {
    "num-mel-bins=7": HONOURED,
    "use-energy=true": HONOURED,
    "use-log-fbank=false": HONOURED,
    "use-power=false": HONOURED,
}
SPLICE = {"left-context=1\n--right-context=2": HONOURED, "left-contexts=1": REFUSED}
CMVN = {
    "cmn-window=300": HONOURED,
    "speaker-frames=300": HONOURED,
    "global-frames=100": HONOURED,
    "norm-means=false": HONOURED,
    "norm-vars=true": HONOURED,
    "skip-dims=1:2": HONOURED,
    "modulus=7": REFUSED,
}
FILES = {
    "conf/online.conf": BOTH | ONLINE,
    "conf/ivector_extractor.conf": EXTRACTOR,
    "conf/mfcc.conf": MFCC,
    "conf/splice.conf": SPLICE,
    "conf/online_cmvn.conf": CMVN,
}


@pytest.fixture(scope="module")
def kaldi(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory of Kaldi's in which all files that options name are, too."""
    folder = tmp_path_factory.mktemp("models") / "kaldi"
    write_kaldi_folder(folder, RANDOM)
    conf, extractor = folder / "conf", folder / "ivector_extractor"
    (conf / "other_mfcc.conf").write_text((conf / "mfcc.conf").read_text() + "--dither=1\n")
    (conf / "fbank.conf").write_text("--sample-frequency=8000\n--num-mel-bins=6\n")
    (conf / "other_ivector.conf").write_text((conf / "ivector_extractor.conf").read_text() + "--num-gselect=4\n")
    (conf / "other_splice.conf").write_text("--left-context=1\n--right-context=2\n")
    (conf / "other_cmvn.conf").write_text("--cmn-window=500\n")
    other = random_ivector_model(RANDOM)
    write_extractor(other.extractor, extractor / "other.ie")
    write_gmm(other.gmm, extractor / "other.dubm")
    write_matrix(other.transform, extractor / "other.mat")
    write_matrix(other.cmvn_stats, extractor / "other.stats")
    write_matrix(random_cmvn_stats(RANDOM), folder / "global_cmvn.stats")
    return folder


@pytest.fixture(scope="module")
def vosk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "vosk"
    write_folder(folder, RANDOM)
    return folder


def everything(path: Path) -> str:
    """All settings of a directory, and what is loaded by them, but for the network."""
    folder = ModelFolder(path)
    front = folder.load() if folder.features.dim == 6 else None
    said: list[Any] = [
        folder.decoding,
        folder.silence_phones,
        folder.endpoint_rules,
        folder.silence_weighting,
        folder.features,
    ]
    if front is None or front.ivectors is None:
        return repr(said)
    model = front.ivectors
    arrays: list[Any] = [model.transform, model.gmm.inv_vars, model.extractor.projections, model.cmvn_stats]
    said += [model.options, model.splice, model.cmvn, [float(array.sum()) for array in arrays]]
    if front.cmvn is not None:
        said += [front.cmvn[0], float(front.cmvn[1].sum())]
    return repr(said)


@functools.cache
def before_changes(path: Path, texts: tuple[str, ...]) -> str:
    """Returns everything of a directory with files of these texts."""
    return everything(path)


def what_becomes(path: Path, file: str, setting: str, caplog: pytest.LogCaptureFixture) -> str:
    """Appends a setting to a file of a directory; returns what becomes of it."""
    before = before_changes(path, tuple(each.read_text() for each in sorted(path.glob("conf/*.conf"))))
    text = (path / file).read_text()
    name = setting.partition("=")[0]
    caplog.clear()
    try:
        (path / file).write_text(f"{text}--{setting}\n")
        with caplog.at_level(logging.WARNING, "nnet3"):
            after = everything(path)
    except (ConfigError, ModelFormatError) as error:
        told = str(error)
        assert name.split(".")[-1].split("-")[-1] in told or Path(setting.partition("=")[2]).name in told
        return REFUSED
    finally:
        (path / file).write_text(text)
    if after != before:
        assert not caplog.text
        return HONOURED
    return WARNED if f"--{name}" in caplog.text and file in caplog.text else "silent"


@pytest.mark.parametrize(("file", "setting"), [(file, setting) for file, table in FILES.items() for setting in table])
def test_no_option_of_kaldis_is_silent(kaldi: Path, file: str, setting: str, caplog: pytest.LogCaptureFixture) -> None:
    assert what_becomes(kaldi, file, setting, caplog) == FILES[file][setting]


@pytest.mark.parametrize("setting", [*BOTH, *ONLINE])
def test_no_option_of_vosks_is_silent(vosk: Path, setting: str, caplog: pytest.LogCaptureFixture) -> None:
    assert what_becomes(vosk, "conf/model.conf", setting, caplog) == BOTH.get(setting, REFUSED)


@pytest.mark.parametrize("setting", FBANK)
def test_no_option_of_mel_bins_is_silent(kaldi: Path, setting: str, caplog: pytest.LogCaptureFixture) -> None:
    online = kaldi / "conf/online.conf"
    text = online.read_text()
    online.write_text(f"{text}--feature-type=fbank\n--mfcc-config=\n")
    try:
        assert what_becomes(kaldi, "conf/fbank.conf", setting, caplog) == FBANK[setting]
    finally:
        online.write_text(text)


@pytest.mark.parametrize(
    ("table", "options"),
    [
        (BOTH, (DecodingOptions,)),
        (BOTH | ONLINE, (OnlineFeatureOptions,)),
        (EXTRACTOR, (IvectorOptions, ExtractorFileOptions)),
        (MFCC, (MfccOptions,)),
        (FBANK, (FbankOptions,)),
        (SPLICE, (SpliceOptions,)),
        (CMVN | {"cmn-min-energy=7": HONOURED}, (OnlineCmvnOptions,)),
    ],
)
def test_all_declared_options_are_in_the_tables(table: dict[str, str], options: tuple[type[Options], ...]) -> None:
    named = {line.partition("=")[0] for setting in table for line in setting.split("\n--")}
    assert {item.flag for each in options for item in declared(each)} <= named
