"""What sherpa-onnx is given: scores of the network, a graph that finds the same words; it hears what we hear."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import kaldi_native_fbank as knf
import numpy as np
import onnx
import onnxruntime
import pytest

import nnet3
from nnet3.base.kaldi_io.fst import Fst
from nnet3.base.kaldi_io.fst_file import load_fst
from nnet3.errors import ExportError
from nnet3.export.nnet.sherpa import export_sherpa, graph_of_columns, words_on_frames
from nnet3.options import DecodingOptions
from nnet3.speech.asr.model_folder import ModelFolder
from nnet3.speech.search.beam_search import BeamSearch
from nnet3.speech.search.search_graph import SearchGraph
from tests.asr.slow_search import best_of_words, random_graph
from tests.asr.small_recognizer import RATE, audio, write_recognizer
from tests.seeds import RANDOM

PDFS = np.array([-1, 2, 0, 1, 0])  # of labels 0 to 4


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A model directory, and what was made of it."""
    folder = tmp_path_factory.mktemp("sherpa")
    model = write_recognizer(folder / "model", with_ivector=False)
    export_sherpa(model, folder / "sherpa")
    return model, folder / "sherpa"


def with_labels(graph: Fst, labels: np.ndarray) -> Fst:
    return Fst.from_arcs(graph.start, graph.final, graph.src, graph.dst, labels, graph.cost, graph.olabel)


def test_graphs_find_the_same_words_at_the_same_cost() -> None:
    tried = 0
    while tried < 6:
        graph = random_graph(RANDOM)
        scores = RANDOM.normal(size=(int(RANDOM.integers(1, 5)), 3)).astype(np.float32)
        try:
            made = graph_of_columns(graph, PDFS, 3)
        except ExportError:
            continue
        tried += 1
        columns = np.concatenate([np.full((len(scores), 1), 99.0), scores, scores, scores], 1).astype(np.float32)
        want = best_of_words(with_labels(graph, PDFS[graph.ilabel] + 1), scores)
        found = best_of_words(made, columns)
        assert set(found) == set(want)
        for words, (cost, _) in want.items():
            assert found[words][0] == pytest.approx(cost, abs=1e-5)


def test_words_never_share_a_label_with_the_frame_before() -> None:
    """Word 1 in each frame: sherpa-onnx would take two equal labels for one."""
    loop = Fst.from_arcs(0, [0.0], [0, 0], [0, 0], [1, 2], [0.0, 5.0], [1, 0])
    made = graph_of_columns(loop, PDFS, 3)
    search = BeamSearch(SearchGraph(made), DecodingOptions())
    search.advance(np.zeros((4, 10), np.float32))
    best = search.best_path(use_final=True)
    assert best is not None
    assert best.words.tolist() == [1] * 4
    assert best.transition_ids.tolist() == [7, 10, 7, 10]  # label i + 1 is column i: 1 + 3 + 2 and 1 + 6 + 2


def test_words_go_on_to_the_next_frame() -> None:
    """0 -(no frame: 7)-> 1 -(no frame)-> 2 -(frame)-> 3, and 1 -(frame)-> 3."""
    graph = Fst.from_arcs(
        0, [np.inf, np.inf, np.inf, 0.0], [0, 1, 1, 2], [1, 2, 3, 3], [0, 0, 1, 2], [1, 2, 4, 8], [7, 0, 0, 0]
    )
    made = words_on_frames(graph)
    assert made.num_states == 6
    assert not ((made.ilabel == 0) & (made.olabel > 0)).any()
    for scores, cost in (([0.0, 9.0], 2.0), ([9.0, 0.0], -4.0)):
        assert best_of_words(made, np.array([scores], np.float32))[(7,)][0] == pytest.approx(cost)
    plain = Fst.from_arcs(0, [np.inf, 0.0], [0], [1], [1], [0.0], [7])
    assert words_on_frames(plain) is plain


@pytest.mark.parametrize(
    ("dst", "ilabel", "olabel"),
    [([1, 2], [0, 0], [7, 8]), ([1, 2], [0, 1], [7, 8]), ([1, 2], [1, 0], [0, 7])],
)
def test_words_without_frames_that_meet_another_word_or_the_end(
    dst: list[int], ilabel: list[int], olabel: list[int]
) -> None:
    graph = Fst.from_arcs(0, [np.inf, np.inf, 0.0], [0, 1], dst, ilabel, [0.0, 0.0], olabel)
    with pytest.raises(ExportError, match="two words, or a word and the end, without a frame between"):
        words_on_frames(graph)


def test_a_graph_of_another_model() -> None:
    graph = Fst.from_arcs(0, [0.0], [0], [0], [9], [0.0], [0])
    with pytest.raises(ExportError, match="the graph has the transition-id 9, the model 4 and 3 pdfs"):
        graph_of_columns(graph, PDFS, 3)


def features(kind: str, samples: np.ndarray) -> np.ndarray:
    options: Any = knf.FbankOptions() if kind == "fbank" else knf.MfccOptions()
    options.frame_opts.dither, options.frame_opts.samp_freq, options.frame_opts.snip_edges = 0, RATE, True
    options.mel_opts.num_bins, options.mel_opts.low_freq, options.mel_opts.high_freq = 8, 20, 0
    if kind == "mfcc":
        options.num_ceps, options.use_energy = 6, False
    stream = knf.OnlineFbank(options) if kind == "fbank" else knf.OnlineMfcc(options)
    stream.accept_waveform(RATE, samples.astype(np.float32).tolist())
    stream.input_finished()
    return np.stack([stream.get_frame(number) for number in range(stream.num_frames_ready)])


def scores_of(folder: Path, samples: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(str(folder / "model.onnx"), providers=["CPUExecutionProvider"])
    found: np.ndarray = session.run(None, {session.get_inputs()[0].name: features("fbank", samples)[np.newaxis]})[0][0]
    return found


def test_scores_are_those_of_the_model(folders: tuple[Path, Path]) -> None:
    model, made = folders
    samples = audio(1.0)
    want = nnet3.load_nnet(model / "am/final.mdl").compute(features("mfcc", samples), frame_subsampling_factor=3)
    found = scores_of(made, samples)
    assert found.shape[1] == 1 + 3 * want.shape[1]
    for first in (1, 7, 13):
        np.testing.assert_allclose(found[:, first : first + 6], want.numpy(), atol=1e-3)
    told = {each.key: each.value for each in onnx.load(made / "model.onnx").metadata_props}
    assert (told["vocab_size"], told["sample_rate"], told["feature_dim"]) == ("19", "8000", "8")
    tokens = (made / "tokens.txt").read_text().splitlines()
    assert (len(tokens), tokens[0], tokens[1], tokens[-1]) == (19, "<blk> 0", "pdf0 1", "even5 18")
    assert (made / "words.txt").read_text() == (model / "graph/words.txt").read_text()


def test_sherpa_hears_the_best_path(folders: tuple[Path, Path]) -> None:
    sherpa = pytest.importorskip("sherpa_onnx.lib._sherpa_onnx")
    _, made = folders
    told = {each.key: each.value for each in onnx.load(made / "model.onnx").metadata_props}
    frames = sherpa.FeatureExtractorConfig(
        sampling_rate=int(told["sample_rate"]),
        feature_dim=int(told["feature_dim"]),
        low_freq=float(told["low_freq"]),
        high_freq=float(told["high_freq"]),
        normalize_samples=told["normalize_samples"] == "1",
        snip_edges=told["snip_edges"] == "1",
    )
    network = sherpa.OfflineModelConfig(
        tdnn=sherpa.OfflineTdnnModelConfig(model=str(made / "model.onnx")),
        tokens=str(made / "tokens.txt"),
        model_type="tdnn",
    )
    graph = sherpa.OfflineCtcFstDecoderConfig(graph=str(made / "HLG.fst"), max_active=3000)
    recognizer = sherpa.OfflineRecognizer(
        sherpa.OfflineRecognizerConfig(feat_config=frames, model_config=network, ctc_fst_decoder_config=graph)
    )
    for seconds in (1.0, 3.0):
        samples = audio(seconds)
        stream = recognizer.create_stream()
        stream.accept_waveform(RATE, samples.astype(np.float32) / 32768)
        recognizer.decode_streams([stream])
        search = BeamSearch(SearchGraph(load_fst(str(made / "HLG.fst"))), DecodingOptions())
        search.advance(scores_of(made, samples))
        best = search.best_path(use_final=True)
        assert best is not None
        assert stream.result.words == best.words.tolist()


def test_what_sherpa_has_no_way_for(folders: tuple[Path, Path], tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="sherpa-onnx has no way for ivectors"):
        export_sherpa(write_recognizer(tmp_path / "ivectors"), tmp_path / "out")
    with pytest.raises(ExportError, match=r"searches one graph, HCLG\.fst"):
        export_sherpa(write_recognizer(tmp_path / "lookahead", lookahead=True), tmp_path / "out")
    other = write_recognizer(tmp_path / "other", with_ivector=False)
    with open(other / "conf/mfcc.conf", "a") as conf:
        conf.write("--window-type=hamming\n")
    with pytest.raises(ExportError, match="sherpa-onnx has no way for window_type=hamming"):
        export_sherpa(other, tmp_path / "out")
    model = nnet3.load(folders[0] / "am/final.mdl")
    assert isinstance(model, nnet3.AcousticModel)
    nnet3.AcousticModel(model.transition_model, model.nnet, np.full(6, 1 / 6)).save(other / "am/final.mdl")
    (other / "conf/mfcc.conf").write_text((folders[0] / "conf/mfcc.conf").read_text())
    with pytest.raises(ExportError, match="priors, which chain models do not have"):
        export_sherpa(other, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert not ModelFolder(other).has_cmvn
