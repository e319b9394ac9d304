"""A big model made of a small one: its own network, a trigram as HCLG, a four-gram as G.carpa and an RNNLM.

Sentences are drawn from the small model's grammar, over its most frequent words. Of some the trigram is made that the
graph has, of all the four-gram and the RNN language model that weigh results anew. A speaker model has random numbers.
"""

from __future__ import annotations

import functools
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import torch

import nnet3
from nnet3.base.kaldi_io.writer import Writer
from nnet3.kaldi_io import Fst, load_fst, save_fst
from nnet3.speech.asr.decoding import DecodingGraph
from nnet3.speech.asr.model_folder import ModelFolder
from nnet3.speech.language_models.backoff_acceptor import words_of_grammar
from nnet3.speech.language_models.language_model import BackoffModel
from nnet3.speech.search.composition import LookaheadSearch
from nnet3.speech.tuning.spoken_graphs import with_words
from nnet3.training.chain.graphs.openfst import OpenFst

Sentence = list[str]

_SPECIAL = ("<eps>", "<s>", "</s>", "<brk>")
_WORDS, _SENTENCES, _OF_TRIGRAM, _MOST_WORDS = 1500, 20000, 2000, 20
_END, _BACK_OFF = -1, -2  # in the place of an arc
_DIM, _VOICE, _LEARNING_RATE = 64, 48, 0.002
_RNNLM = f"""
input dim={_DIM} name=input
relu-renorm-layer name=tdnn1 dim={_DIM} input=Append(0, IfDefined(-1))
fast-lstmp-layer name=lstm1 cell-dim={_DIM} recurrent-projection-dim=32 non-recurrent-projection-dim=32
output-layer name=output include-log-softmax=false dim={_DIM} param-stddev=0.1
"""
_SPEAKERS = f"""
input dim=20 name=input
relu-renorm-layer name=tdnn1 dim=64 input=Append(-2,-1,0,1,2)
relu-renorm-layer name=tdnn2 dim=96 input=Append(-2,0,2)
stats-layer name=stats config=mean+stddev(0:1:1:10000)
output-layer name=output include-log-softmax=false dim={_VOICE} input=stats param-stddev=0.3 bias-stddev=0.3
"""


def make_big_model(small: Path, folder: Path, wanted: Iterable[str]) -> Path:
    """Writes the model once, with the words `wanted` that the small one knows and its most frequent ones."""
    if folder.exists():
        return folder
    made = folder.with_name(f"{folder.name}.part")
    shutil.rmtree(made, ignore_errors=True)
    for entry in ("am", "ivector", "conf", "graph/phones"):
        shutil.copytree(small / entry, made / entry)
    for entry in ("rescore", "rnnlm", "work"):
        (made / entry).mkdir()
    model = nnet3.load(small / "am" / "final.mdl")
    assert isinstance(model, nnet3.AcousticModel)
    words, sentences, heard = _drawn(
        DecodingGraph.load(ModelFolder(small).graph_files(), model.transition_model), wanted
    )
    names = [*_SPECIAL, *words, "#0"]
    (made / "graph" / "words.txt").write_text("".join(f"{name} {number}\n" for number, name in enumerate(names)))
    _make_ngrams(made, names, sentences)
    _make_graph(made, heard)
    _make_rnnlm(made)
    shutil.rmtree(made / "work")
    made.rename(folder)
    return folder


def make_speaker_model(folder: Path) -> Path:
    """Writes a speaker model of random numbers, the same each time."""
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    nnet3.Nnet.from_xconfig(_SPEAKERS).save(folder / "final.ext.raw")
    generator = np.random.default_rng(0)
    mean, transform = Writer.of_file(binary=True), Writer.of_file(binary=True)
    mean.vector(generator.normal(size=_VOICE).astype(np.float32))
    mean.write_to(folder / "mean.vec")
    transform.matrix(generator.normal(size=(32, _VOICE)).astype(np.float32))
    transform.write_to(folder / "transform.mat")
    settings = ("--sample-frequency=16000", "--num-ceps=20", "--num-mel-bins=23", "--dither=0", "--allow-upsample=true")
    (folder / "mfcc.conf").write_text("\n".join(settings) + "\n")
    return folder


def _drawn(graph: DecodingGraph, wanted: Iterable[str]) -> tuple[list[str], list[Sentence], Fst]:
    """Returns the words, sentences drawn from the grammar, and the part of the graph with these words.

    Its output labels are the words' numbers in the big model.
    """
    assert isinstance(graph.search, LookaheadSearch)
    model: BackoffModel = graph.search._model
    alone = model.start  # the state of no history
    while model.shorter[alone] >= 0:
        alone = int(model.shorter[alone])
    arcs = slice(model.first_arc[alone], model.first_arc[alone + 1])
    frequent = model.words[arcs][np.argsort(model.cost[arcs], kind="stable")]
    known = [graph.words.labels[word] for word in wanted if word in graph.words.labels]
    labels = [label for label in [*known, *frequent.tolist()] if not graph.words[label].startswith(("<", "#"))]
    labels = list(dict.fromkeys(labels))[:_WORDS]
    part = with_words(graph.fst, labels)
    heard = set(np.unique(part.olabel).tolist())
    labels = [label for label in labels if label in heard]
    return [graph.words[label] for label in labels], _sentences(model, graph, labels), _renumbered(part, labels)


def _renumbered(fst: Fst, kept: Sequence[int]) -> Fst:
    number = np.zeros(fst.largest_label + 1, np.int32)
    number[kept] = np.arange(len(kept)) + len(_SPECIAL)
    return Fst(fst.start, fst.final, fst.offsets, fst.ilabel, number[fst.olabel], fst.cost, fst.dst)


def _sentences(model: BackoffModel, graph: DecodingGraph, kept: Sequence[int]) -> list[Sentence]:
    """Returns sentences of the words that are kept, drawn by the costs of the grammar."""
    spoken, generator = model.words, np.random.default_rng(0)
    is_kept = np.zeros(int(spoken.max()) + 1, bool)
    is_kept[list(kept)] = True

    @functools.cache
    def choices(state: int) -> tuple[list[int], np.ndarray]:
        """Returns arcs of words, the end and the back-off of a state, and the sums of their probabilities."""
        arcs = np.arange(model.first_arc[state], model.first_arc[state + 1])
        arcs = arcs[is_kept[spoken[arcs]]]
        back_off = model.back_off_cost[state] if model.shorter[state] >= 0 else np.inf
        sums = np.cumsum(np.exp(-np.concatenate([model.cost[arcs], [model.final[state], back_off]]).astype(float)))
        return [*arcs.tolist(), _END, _BACK_OFF], sums / sums[-1]

    sentences = list[Sentence]()
    while len(sentences) < _SENTENCES:
        state, sentence, arc = model.start, Sentence(), 0
        while len(sentence) < _MOST_WORDS:
            arcs, sums = choices(int(state))
            arc = arcs[np.searchsorted(sums, generator.random(), "right")]
            if arc == _END:
                break
            if arc != _BACK_OFF:
                sentence.append(graph.words[int(spoken[arc])])
            state = model.shorter[state] if arc == _BACK_OFF else model.dst(np.array([arc]))[0]
        if sentence:
            sentences.append(sentence)
    return sentences


def _make_ngrams(made: Path, names: Sequence[str], sentences: Sequence[Sentence]) -> None:
    """Writes the texts, G.fst, of a trigram of some sentences, and G.carpa, of a four-gram of all."""
    work, number = made / "work", {name: place for place, name in enumerate(names)}
    lines = [f"1 {' '.join(str(number[word]) for word in sentence)}\n" for sentence in sentences]
    (work / "some.txt").write_text("".join(lines[:_OF_TRIGRAM]))
    (work / "all.txt").write_text("".join(lines))
    words, rescore = made / "graph" / "words.txt", made / "rescore"
    for order, text in ((3, "some"), (4, "all")):
        options = (f"--ngram-order={order}", "--unigram-factor=2", "--backoff-factor=1.1", "--bos-factor=1")
        run("rnnlm-get-sampling-lm", *options, work / f"{text}.txt", words, work / f"{text}.arpa")
    symbols = ("--disambig-symbol=#0", f"--read-symbol-table={words}")
    run("arpa2fst", *symbols, work / "some.arpa", rescore / "G.fst")
    integers = [" ".join(_integer_words(line, number)) for line in (work / "all.arpa").read_text().splitlines()]
    (work / "integers.arpa").write_text("\n".join(integers) + "\n")
    run("arpa-to-const-arpa", "--bos-symbol=1", "--eos-symbol=2", work / "integers.arpa", rescore / "G.carpa")


def _integer_words(line: str, number: dict[str, int]) -> list[str]:
    """Returns the fields of a line of an ARPA file, with numbers for words."""
    probability, _, rest = line.partition("\t")
    if not rest:
        return [line]
    words, _, back_off = rest.partition("\t")
    return [probability, *(str(number[word]) for word in words.split()), *back_off.split()]


def _make_graph(made: Path, heard: Fst) -> None:
    """Composes the graph of words with the trigram, whose back-offs lose their label."""
    grammar = words_of_grammar(load_fst(str(made / "rescore" / "G.fst")))
    save_fst(OpenFst.of(heard).composed(OpenFst.of(grammar)).fst(), str(made / "graph" / "HCLG.fst"))


def _make_rnnlm(made: Path) -> None:
    work, words, rnnlm = made / "work", made / "graph" / "words.txt", made / "rnnlm"
    vocabulary = f"--vocab-size={len(words.read_text().splitlines())}"
    unigrams, features, sentences = work / "unigrams", work / "features", work / "all.txt"
    known = f"--unigram-probs={unigrams}"
    run("get-unigram-probs", words, sentences, output=unigrams)
    run("choose-features", known, "--max-ngram-order=2", words, output=features)
    run("get-word-features", known, "--treat-as-bos=#0", words, features, output=rnnlm / "word_feats.txt")
    run("rnnlm-get-sampling-lm", vocabulary, sentences, work / "sampling.lm")
    run("rnnlm-get-egs", vocabulary, work / "sampling.lm", sentences, f"ark:{work / 'egs'}")
    torch.manual_seed(0)
    nnet = nnet3.Nnet.from_xconfig(_RNNLM)
    nnet.set_learning_rate(_LEARNING_RATE)
    nnet.save(work / "0.raw")
    embedding, count = Writer.of_file(binary=True), len(features.read_text().splitlines())
    embedding.matrix(np.random.default_rng(0).normal(scale=0.1, size=(count, _DIM)).astype(np.float32))
    embedding.write_to(work / "0.mat")
    run(
        *("rnnlm-train", f"--read-rnnlm={work / '0.raw'}", f"--write-rnnlm={rnnlm / 'final.raw'}"),
        *(f"--read-embedding={work / '0.mat'}", f"--write-embedding={rnnlm / 'feat_embedding.final.mat'}"),
        *(f"--read-sparse-word-features={rnnlm / 'word_feats.txt'}", f"ark:{work / 'egs'}"),
    )
    (rnnlm / "special_symbol_opts.conf").write_text("--bos-symbol=1\n--eos-symbol=2\n--brk-symbol=3\n")


def run(verb: str, *arguments: str | Path, output: Path | None = None) -> None:
    """Runs a verb of nnet3; what it prints may go to a file."""
    command = [sys.executable, "-m", "nnet3", verb, *map(str, arguments)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    if output is not None:
        output.write_bytes(done.stdout)
