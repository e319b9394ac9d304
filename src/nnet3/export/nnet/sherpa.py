"""A chain model as sherpa-onnx takes it: an ONNX file of log mel bins, a search graph over columns, tokens, words.

sherpa-onnx computes log mel bins, and searches a graph whose label i + 1 reads column i of the network's output. Column
0 is a blank to it, and of two frames with one label it forgets the second one's word. So column 0 is not used, and arcs
with words read columns of their own: with P pdfs, column 1 + p is pdf p, 1 + P + p is pdf p where the first, third, ...
word begins, and 1 + 2 P + p where the second, fourth, ... one does. The graph is there twice, for odd and even words.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import onnx
import torch

from nnet3.base.kaldi_io.fst import Fst
from nnet3.base.kaldi_io.fst_file import load_fst, save_fst
from nnet3.base.options.recognizer import FbankOptions, MfccOptions, PlpOptions
from nnet3.errors import ExportError
from nnet3.export.nnet.export_onnx import export_onnx
from nnet3.export.nnet.features import cosine_transform
from nnet3.model.components.component_types import COMPONENT_TYPES
from nnet3.model.edits import apply_edits
from nnet3.model.nnet import AcousticModel, Nnet, load
from nnet3.speech.asr.model_folder import ModelFolder

_COPIES = 3  # of the pdfs: without a word, and where an odd or an even word begins
_CEPSTRA, _PDFS, _BLANK = "sherpa.cepstra", "sherpa.pdfs", "sherpa.blank"
Array: TypeAlias = npt.NDArray[Any]
#: What sherpa-onnx computes, and offers no option for.
_FIXED = {
    "frame_length": 25.0,
    "frame_shift": 10.0,
    "preemphasis_coefficient": 0.97,
    "remove_dc_offset": True,
    "window_type": "povey",
    "round_to_power_of_two": True,
    "use_energy": False,
}


def export_sherpa(model: str | os.PathLike[str], folder: str | os.PathLike[str]) -> None:
    """Writes `model.onnx`, `HLG.fst`, `tokens.txt` and `words.txt` for sherpa-onnx into a folder.

    `model`: a directory with a chain model of Kaldi or Vosk and its graph HCLG.fst, without ivectors and CMVN.
    docs/onnx.md shows how sherpa-onnx is told of the files. Raises ExportError for what sherpa-onnx has no way for.
    """
    source, target = ModelFolder(model), Path(folder)
    files, acoustic = source.graph_files(), load(source.path / source.network)
    if files.is_lookahead or files.words is None:
        raise ExportError(f"{source.path}: sherpa-onnx searches one graph, HCLG.fst, with words.txt beside it")
    if not isinstance(acoustic, AcousticModel):
        raise ExportError(f"{source.path}: {source.network} is a raw network, not an acoustic model")
    features = _check(acoustic, source)
    pdfs = acoustic.nnet.node_dim("output")
    graph = graph_of_columns(load_fst(os.fspath(files.files["HCLG.fst"])), acoustic.transition_model.pdf_of_label, pdfs)
    target.mkdir(parents=True, exist_ok=True)
    decoding, path = source.decoding, target / "model.onnx"
    export_onnx(
        network_of_mel_bins(acoustic.nnet, features),
        path,
        frame_subsampling_factor=decoding.frame_subsampling_factor,
        acoustic_scale=decoding.acoustic_scale,
    )
    _add_metadata(path, features, 1 + _COPIES * pdfs)
    save_fst(graph, os.fspath(target / "HLG.fst"))
    names = ["<blk>", *(f"{kind}{pdf}" for kind in ("pdf", "odd", "even") for pdf in range(pdfs))]
    (target / "tokens.txt").write_text("".join(f"{name} {number}\n" for number, name in enumerate(names)))
    shutil.copyfile(files.words, target / "words.txt")


def _check(model: AcousticModel, source: ModelFolder) -> MfccOptions | FbankOptions:
    """Returns the options of features. Raises ExportError for features and scores that sherpa-onnx has no way for."""
    options = source.features
    if isinstance(options, PlpOptions):
        raise ExportError(f"{source.path}: sherpa-onnx has no way for PLP features")
    wrong = [f"{name}={getattr(options, name)}" for name, value in _FIXED.items() if getattr(options, name) != value]
    if isinstance(options, FbankOptions) and not (options.use_log_fbank and options.use_power):
        wrong.append("mel bins that are no logarithms of power")
    if "ivector" in model.nnet.input_names:
        wrong.append("ivectors")
    if source.has_cmvn:
        wrong.append("normalised features")
    if len(model.priors):
        wrong.append("priors, which chain models do not have")
    if wrong:
        raise ExportError(f"{source.path}: sherpa-onnx has no way for {', '.join(wrong)}")
    return options


def network_of_mel_bins(nnet: Nnet, options: MfccOptions | FbankOptions) -> Nnet:
    """Returns a network of logarithms of mel bins, whose output has a column for each kind of label (see above)."""
    made = nnet.copy().to(torch.float32)
    if isinstance(options, MfccOptions):
        rows = torch.from_numpy(cosine_transform(options).T).float().contiguous()  # (coefficients, bins)
        apply_edits(made, f"rename-node old-name=input new-name={_CEPSTRA}")
        values = {"linear_params": rows, "bias_params": torch.zeros(len(rows))}
        made.components[_CEPSTRA] = COMPONENT_TYPES["FixedAffineComponent"].from_values(values)
        made.apply_config(
            f"input-node name=input dim={options.num_mel_bins}\n"
            f"component-node name={_CEPSTRA} component={_CEPSTRA} input=input"
        )
    output = next(line for line in made.config_lines() if line.startswith("output-node name=output "))
    descriptor = output.partition(" input=")[2].partition(" objective=")[0]
    made.apply_config(
        f"component name={_PDFS} type=NoOpComponent dim={nnet.node_dim('output')}\n"
        f"component-node name={_PDFS} component={_PDFS} input={descriptor}\n"
        f"dim-range-node name={_BLANK} input-node={_PDFS} dim-offset=0 dim=1\n"
        f"output-node name=output input=Append({', '.join([_BLANK, *[_PDFS] * _COPIES])})"
    )
    return made


def _add_metadata(path: Path, options: MfccOptions | FbankOptions, columns: int) -> None:
    """Adds what sherpa-onnx reads, `vocab_size`, and what its user tells it of features."""
    file = onnx.load(path, load_external_data=False)
    told = {
        "model_type": "tdnn",
        "vocab_size": columns,
        "sample_rate": int(options.sample_frequency),
        "feature_dim": options.num_mel_bins,
        "low_freq": options.low_freq,
        "high_freq": options.high_freq,
        "normalize_samples": 0,
        "snip_edges": int(options.snip_edges),
    }
    for name, value in told.items():
        file.metadata_props.add(key=name, value=str(value))
    onnx.save(file, path)


def graph_of_columns(graph: Fst, pdf_of_label: npt.NDArray[np.int32], pdfs: int) -> Fst:
    """Returns a graph of transition-ids as one whose label i + 1 reads column i; see above."""
    largest = int(graph.ilabel.max(initial=0))
    if largest >= len(pdf_of_label) or int(pdf_of_label.max(initial=0)) >= pdfs:
        raise ExportError(
            f"the graph has the transition-id {largest}, the model {len(pdf_of_label) - 1} and {pdfs} pdfs"
        )
    graph = words_on_frames(graph)
    has_word, states = graph.olabel > 0, graph.num_states
    column = 1 + pdf_of_label[graph.ilabel]
    labels = [np.where(graph.ilabel > 0, 1 + column + pdfs * kind * has_word, 0) for kind in (1, 2)]
    return Fst.from_arcs(
        graph.start,
        np.tile(graph.final, 2),
        np.append(graph.src, states + graph.src),
        np.append(graph.dst + states * has_word, graph.dst + states * ~has_word),
        np.concatenate(labels),
        np.tile(graph.cost, 2),
        np.tile(graph.olabel, 2),
    )


def words_on_frames(graph: Fst) -> Fst:
    """Returns a graph in which words of arcs without a frame go on to the next arc with one.

    Raises ExportError where a path ends before, or has another word.
    """
    is_late = (graph.ilabel == 0) & (graph.olabel > 0)
    if not is_late.any():
        return graph

    def state_of(keys: Array) -> Array:
        return graph.num_states + np.searchsorted(known, keys)

    several = int(graph.olabel.max()) + 1
    own_key = graph.dst.astype(np.int64) * several + graph.olabel
    new = known = np.unique(own_key[is_late])
    while len(new):  # states that a word still has to be said in, by state and word
        arcs, of_key = _arcs_of(graph, new // several)
        goes_on = graph.ilabel[arcs] == 0
        if np.isfinite(graph.final[new // several]).any() or (graph.olabel[arcs] > 0).any():
            raise ExportError("the graph has two words, or a word and the end, without a frame between")
        reached = np.unique(graph.dst[arcs[goes_on]].astype(np.int64) * several + (new % several)[of_key[goes_on]])
        new = np.setdiff1d(reached, known)
        known = np.union1d(known, new)
    arcs, of_key = _arcs_of(graph, known // several)
    words = (known % several)[of_key]
    goes_on = graph.ilabel[arcs] == 0
    to_key = graph.dst[arcs].astype(np.int64) * several + words
    return Fst.from_arcs(
        graph.start,
        np.append(graph.final, np.full(len(known), np.inf, np.float32)),
        np.append(graph.src, graph.num_states + of_key),
        np.append(
            np.where(is_late, state_of(own_key), graph.dst), np.where(goes_on, state_of(to_key), graph.dst[arcs])
        ),
        np.append(graph.ilabel, graph.ilabel[arcs]),
        np.append(graph.cost, graph.cost[arcs]),
        np.append(np.where(is_late, 0, graph.olabel), np.where(goes_on, 0, words)),
    )


def _arcs_of(graph: Fst, states: Array) -> tuple[Array, Array]:
    """Returns the arcs that leave states, and for each arc the position of its state."""
    first, counts = graph.offsets[states], graph.offsets[states + 1] - graph.offsets[states]
    of_state = np.repeat(np.arange(len(states)), counts)
    return np.arange(len(of_state)) + (first - np.cumsum(counts) + counts)[of_state], of_state
