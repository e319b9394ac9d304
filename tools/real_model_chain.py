"""Sequence training of a deployed model on utterances of one's own: graphs, supervision, training, comparison.

The model comes without its tree: that is read off its decoding graph. It comes without transcripts too: supervision is
made of the model's own best paths through that graph.
"""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

import nnet3
from nnet3.chain import CHAIN_EXAMPLES, DenominatorGraph
from nnet3.chain.graphs.denominator_fst import make_denominator_fst
from nnet3.chain.graphs.normalization import NormalizationWeights, make_normalization_fst
from nnet3.chain.graphs.phone_hmms import PhoneHmms
from nnet3.chain.graphs.phone_lm import estimate_phone_lm
from nnet3.chain.graphs.supervising import supervise
from nnet3.chain.graphs.timed_phones import phones_of_durations
from nnet3.chain.making import ChainExampleMaker, Utterance
from nnet3.components.batch_norm import BatchNormComponent
from nnet3.examples import ChunkOptions, example_writer
from nnet3.hmm.transition_model import TransitionModel
from nnet3.kaldi_io.fst_file import save_fst
from nnet3.kaldi_io.graph_file import load_graph
from nnet3.options import ChainMakingOptions, PhoneLmOptions, SupervisingOptions, Tolerances
from tools.real_model_graph import for_decoding, tree_of_graph
from tools.real_model_speech import RATE, read_wave, resample
from tools.real_model_tuning import FACTOR, mfcc

try:
    import kaldi_decoder
    import kaldifst
except ImportError:
    kaldi_decoder = kaldifst = None

TRAIN, HELD_OUT = 20, 8
TOLERANCE = 2  # output frames by which a phone may come earlier or later
BEAM, MAX_ACTIVE, WORD_COST = 13.0, 3000, 7.0
NOISE = 3.0  # of samples of 16 bits: nobody records zeros
RUN = """\
[model]
file = "{folder}/start.mdl"

[data]
kind = "chain"
train = "ark:{folder}/train.cegs"
valid = "ark:{folder}/valid.cegs"
minibatch-size = "1:16"
frame-shifts = 3

[objective]
kind = "chain"
den-fst = "{folder}/den.fst"
leaky-hmm-coefficient = 0.1
xent-regularize = 0.1

[training]
epochs = 4
initial-learning-rate = 1e-5
final-learning-rate = 1e-6

[combination]
models = 0

[output]
folder = "{folder}/run"
print-every = 5
tensorboard = false
"""


@dataclass(frozen=True, eq=False)
class Aligned:
    """An utterance: features (frames, 40), and phones with their lengths in output frames (phones, 2)."""

    key: str
    features: np.ndarray
    phones: np.ndarray


def utterances(recordings: Path, count: int) -> Iterator[tuple[str, np.ndarray]]:
    """Strings of five digits, each by one speaker: keys and samples at 16 kHz."""
    with zipfile.ZipFile(recordings) as archive:
        names = [re.fullmatch(r".*/(\d)_([a-z]+)_(\d+)\.wav", name) for name in archive.namelist()]
        speakers = sorted({name[2] for name in names if name})
        rng = np.random.default_rng(0)
        for number in range(count):
            speaker, digits = speakers[number % len(speakers)], rng.integers(0, 10, 5)
            take = number // len(speakers)
            pieces = [read_wave(archive.read(f"recordings/{digit}_{speaker}_{take}.wav")) for digit in digits]
            rate = pieces[0][1]
            samples = np.concatenate([np.append(piece, np.zeros(rate // 10)) for piece, _ in pieces])
            loud = resample(samples, rate)
            yield f"{speaker}-{''.join(map(str, digits))}", loud + NOISE * rng.standard_normal(len(loud))


def best_path(graph: Any, model: TransitionModel, scores: np.ndarray) -> np.ndarray:
    """Transition-ids, (output frames,), of the best path for scores of pdfs (output frames, pdfs)."""
    ids = np.arange(1, model.num_transition_ids + 1)
    by_id = np.ascontiguousarray(scores[:, model.pdf(ids)], np.float32)
    options = kaldi_decoder.FasterDecoderOptions(beam=BEAM, max_active=MAX_ACTIVE)
    decoder = kaldi_decoder.FasterDecoder(graph, options)
    decoder.decode(kaldi_decoder.DecodableCtc(by_id))
    _, path = decoder.get_best_path()
    _, found, _, _ = kaldifst.get_linear_symbol_sequence(path)
    return np.array(found)


def phones_with_lengths(ids: np.ndarray, model: TransitionModel) -> np.ndarray:
    """(phones, 2) from transition-ids: a phone begins with each one that is no self-loop."""
    first = np.flatnonzero(~model.is_self_loop(ids))
    return np.stack([model.phone(ids[first]), np.diff(first, append=len(ids))], axis=1)


def align(am: nnet3.AcousticModel, graph: Any, recordings: Path) -> list[Aligned]:
    """The model's own best paths. Its ivector is zero: what recognizers begin with before they know the speaker."""
    ivector = torch.zeros(am.nnet.node_dim("ivector"))
    found = []
    for key, samples in utterances(recordings, TRAIN + HELD_OUT):
        features = mfcc(samples, RATE)
        scores = am.compute(features, ivector, frame_subsampling_factor=FACTOR)
        ids = best_path(graph, am.transition_model, scores.numpy())
        if len(ids) == len(scores):
            found.append(Aligned(key, features.numpy(), phones_with_lengths(ids, am.transition_model)))
    return found


def write_graphs(speech: list[Aligned], hmms: PhoneHmms, folder: Path) -> NormalizationWeights:
    """`phone_lm.fst`, `den.fst` and `normalization.fst`."""
    phone_lm = estimate_phone_lm([each.phones[:, 0] for each in speech], PhoneLmOptions(3, 2, 200))
    denominator = make_denominator_fst(hmms.tree, hmms.model, phone_lm)
    initial = DenominatorGraph.from_fst(denominator, hmms.model.num_pdfs).initial
    normalization = make_normalization_fst(denominator, initial)
    for name, fst in (("phone_lm", phone_lm), ("den", denominator), ("normalization", normalization)):
        save_fst(fst, str(folder / f"{name}.fst"))
    print(f"denominator graph: {denominator.num_states} states, {denominator.num_arcs} arcs", flush=True)
    return NormalizationWeights(normalization)


def write_examples(
    speech: list[Aligned], am: nnet3.AcousticModel, hmms: PhoneHmms, weights: NormalizationWeights, path: Path
) -> None:
    """Chunks of 1.5 seconds or less."""
    room = FACTOR // 2
    chunks = ChunkOptions((150, 120, 90), 0, am.left_context + room, am.right_context + room, -1, -1, FACTOR)
    maker = ChainExampleMaker(ChainMakingOptions(chunks, online_ivector_period=10), weights)
    supervising = SupervisingOptions(Tolerances(TOLERANCE, TOLERANCE, 1))
    with example_writer(f"ark:{path}", CHAIN_EXAMPLES) as table:
        for each in speech:
            supervision = supervise(phones_of_durations(each.phones), hmms, supervising)
            ivectors = np.zeros((-(-len(each.features) // 10), am.nnet.node_dim("ivector")), np.float32)
            for key, example in maker.make(Utterance(each.key, each.features, ivectors), supervision):
                table.write(key, example)


def held_out_objective(model: Path, folder: Path) -> float:
    """Per frame, in test mode, by `nnet3 chain-compute-prob`."""
    options = ["--leaky-hmm-coefficient=0.1", str(model), str(folder / "den.fst"), f"ark:{folder}/valid.merged"]
    said = run_nnet3("chain-compute-prob", *options)
    found = re.search(r"log-probability for 'output' is (\S+)", said)
    assert found is not None, said
    return float(found[1])


def run_nnet3(*arguments: str) -> str:
    """What `nnet3` says. SystemExit if it fails."""
    print("nnet3", *arguments, flush=True)
    done = subprocess.run([sys.executable, "-m", "nnet3", *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    return done.stdout + done.stderr


def tune_sequences(source: Path, recordings: Path, folder: Path, report: Callable[[str, bool], None]) -> Path:
    """Fine-tune the model in `source` by LF-MMI; returns the tuned model's file."""
    if kaldi_decoder is None:
        raise SystemExit("sequence training of the model needs pip install 'nnet3[chain]' kaldi-decoder")
    folder.mkdir(exist_ok=True)
    am = nnet3.load(source / "am" / "final.mdl")
    assert isinstance(am, nnet3.AcousticModel)
    graph = for_decoding(load_graph(source / "graph" / "HCLr.fst").fst, am.transition_model, WORD_COST)
    hmms = PhoneHmms(tree_of_graph(graph, am.transition_model), am.transition_model)
    save_fst(graph, str(folder / "HCL.fst"))
    speech = align(am, kaldifst.StdVectorFst.read(str(folder / "HCL.fst")), recordings)
    report(f"{len(speech)} utterances have a best path through HCL", len(speech) == TRAIN + HELD_OUT)
    weights = write_graphs(speech, hmms, folder)
    write_examples(speech[:TRAIN], am, hmms, weights, folder / "train.cegs")
    write_examples(speech[TRAIN:], am, hmms, weights, folder / "valid.cegs")
    start = am.copy()
    freeze_norms(start.nnet)
    start.save(folder / "start.mdl")
    (folder / "run.toml").write_text(RUN.format(folder=folder))
    run_nnet3("chain-merge-egs", "--minibatch-size=1:16", f"ark:{folder}/valid.cegs", f"ark:{folder}/valid.merged")
    before = held_out_objective(folder / "start.mdl", folder)
    run_nnet3("train-model", "--resume", str(folder / "run.toml"))
    tuned = am.copy()
    trained = nnet3.load(folder / "run" / "final.mdl")
    assert isinstance(trained, nnet3.AcousticModel)
    take_parameters(tuned.nnet, trained.nnet)
    path = folder / "tuned.mdl"
    tuned.save(path)
    after = held_out_objective(path, folder)
    report(f"LF-MMI: objective on held-out chunks {before:.4f} -> {after:.4f} per frame", after > before)
    report(f"LF-MMI: {path.name} has the form of the original", _same_form(am, path))
    return path


def freeze_norms(nnet: nnet3.Nnet) -> None:
    """Batch-norm as in test mode, by its statistics of the original training, in place: twenty utterances would give
    it others, which takes more from the model than training gives."""
    norms = {name: each for name, each in nnet.components.items() if isinstance(each, BatchNormComponent)}
    for name, norm in norms.items():
        scale, offset = norm.scale_and_offset(torch.zeros(1))
        settings = f"type=ScaleAndOffsetComponent dim={norm.output_dim} learning-rate-factor=0"
        nnet.apply_config(f"component name={name} {settings}")
        parameters = nnet.components[name].parameters()
        parameters["scales"].copy_(scale)
        parameters["offsets"].copy_(offset)


def take_parameters(nnet: nnet3.Nnet, trained: nnet3.Nnet) -> None:
    """All parameters of components that both have."""
    for name, component in nnet.components.items():
        theirs = trained.components[name].parameters()
        for key, parameter in component.parameters().items():
            parameter.copy_(theirs[key])


def _same_form(am: nnet3.AcousticModel, path: Path) -> bool:
    """Whether two files say the same but for numbers: the same text once these are taken out."""
    tuned = nnet3.load(path)
    forms = []
    for number, model in enumerate((am, tuned)):
        text = path.with_name(f"form{number}.txt")
        model.save(text, binary=False)
        words = [word for word in text.read_text().split() if not re.fullmatch(r"[-+0-9.e]+|-?nan|-?inf", word)]
        forms.append((words, path.stat().st_size))
        text.unlink()
    return forms[0] == forms[1]
