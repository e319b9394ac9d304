"""RNN language models on the command line: probabilities, examples, sampling LMs, word features, training."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import click
import numpy as np
import torch
from torch import Tensor

from nnet3.base.kaldi_io.files import write_atomically
from nnet3.base.kaldi_io.load import write_wxfilename
from nnet3.base.kaldi_io.reader import Reader
from nnet3.base.kaldi_io.replacing import MODEL
from nnet3.base.kaldi_io.symbols import load_symbols
from nnet3.base.kaldi_io.writer import Writer
from nnet3.base.options.rnnlm import (
    MOST_WORDS,
    EmbeddingOptions,
    FeatureChoiceOptions,
    RnnlmEgsOptions,
    RnnlmObjectiveOptions,
    RnnlmOptions,
    RnnlmStepOptions,
    SamplingLmOptions,
)
from nnet3.cli.device import given_device
from nnet3.cli.files import (
    check_can_save,
    load_network,
    load_network_to,
    numbers_kind,
    open_file,
    read_text,
    save,
    save_together,
)
from nnet3.cli.messages import naming, say
from nnet3.errors import ModelFormatError, Nnet3Error, TrainingError
from nnet3.model.edits.modes import with_modes
from nnet3.speech.language_models.arpa import parse_arpa
from nnet3.speech.language_models.rnnlm import Rnnlm
from nnet3.training.rnnlm.evaluation import RnnlmEvaluator
from nnet3.training.rnnlm.example import RNNLM_EXAMPLES
from nnet3.training.rnnlm.feature_choice import choose_features, parse_features, unigram_probs, word_feature_lines
from nnet3.training.rnnlm.making import RnnlmExampleMaker
from nnet3.training.rnnlm.sampling_lm import SamplingLm
from nnet3.training.rnnlm.sampling_lm_arpa import arpa_lines, from_arpa
from nnet3.training.rnnlm.sampling_lm_estimate import estimate_sampling_lm
from nnet3.training.rnnlm.sentences import Sentences, check_words, parse_sentences
from nnet3.training.rnnlm.trainer import RnnlmTrainer
from nnet3.training.rnnlm.word_features import parse_word_features, word_embedding

_AT_ONCE = 4096  # sentences


def load_embedding(name: str, features: str = "") -> Tensor:
    """Returns a word embedding (words, dim) of a file, or of a feature embedding and word features."""
    matrix = torch.from_numpy(open_file(name).whole(Reader.matrix))
    return word_embedding(parse_word_features(open_file(features), len(matrix)), matrix) if features else matrix


# ---- probabilities ----


def print_sentence_probs(
    model: str, embedding: str, text: str, options: RnnlmOptions, batchnorm_test_mode: bool, dropout_test_mode: bool
) -> None:
    """Prints for each line of a text the key, and the log-probabilities of all words and of the end."""
    device = given_device()
    rnnlm = Rnnlm(
        load_network_to(device, model),
        load_embedding(embedding).to(device),
        options,
        batchnorm_test_mode=batchnorm_test_mode,
        dropout_test_mode=dropout_test_mode,
    )
    keyed = [(number, line.split()) for number, line in enumerate(read_text(text).splitlines(), 1) if line.strip()]
    if not keyed:
        raise ModelFormatError("there are no sentences in this file", text)
    sentences = [_word_numbers(words, rnnlm.num_words, text, number) for number, words in keyed]
    for first in range(0, len(keyed), _AT_ONCE):
        some = slice(first, first + _AT_ONCE)
        for (_, words), values in zip(keyed[some], rnnlm.sentence_log_probs(sentences[some]), strict=True):
            click.echo(" ".join([words[0], *(f"{value:g}" for value in values.tolist())]))


def _word_numbers(words: Sequence[str], num_words: int, source: str, line: int) -> list[int]:
    if not all(word.isascii() and word.isdecimal() and 0 < int(word) < num_words for word in words[1:]):
        raise ModelFormatError(
            f"expected a key and numbers of words from 1 to {num_words - 1}, got '{' '.join(words)[:60]}'",
            *(source, f"line {line}"),
        )
    return [int(word) for word in words[1:]]


def print_objective(
    model: str, embedding: str, examples: str, batchnorm_test_mode: bool, dropout_test_mode: bool
) -> None:
    """Prints the objective per word on minibatches, and its parts in the log."""
    device = given_device()
    nnet = with_modes(
        load_network_to(device, model), batchnorm_test_mode=batchnorm_test_mode, dropout_test_mode=dropout_test_mode
    )
    evaluator = RnnlmEvaluator(nnet, load_embedding(embedding).to(device), say=say)
    with RNNLM_EXAMPLES.open(examples) as table:
        for key, example in table:
            with naming(examples, key):
                evaluator.add(example)
    evaluator.log.finish()
    with naming(examples):
        click.echo(f"{evaluator.average:g}")


# ---- sampling LMs and examples ----


def make_sampling_lm(names: Sequence[str], vocab_size: int, bos: int, eos: int, binary: bool, **given: Any) -> None:
    """Writes the sampling LM of a text, in its own form or with a list of words in the ARPA format."""
    options: SamplingLmOptions = given["options"]
    words = _words(names[1]) if len(names) == 3 else None
    size = max(words) + 1 if words else vocab_size
    if not 3 <= size <= MOST_WORDS:
        expected = f"the largest number of a word plus one, from 3 to {MOST_WORDS}"
        raise Nnet3Error(f"--vocab-size must be {expected}, got {size}")
    if not 0 < bos < size or not 0 < eos < size or bos == eos:
        raise Nnet3Error(f"--bos-symbol and --eos-symbol must be two words below {size}, got {bos} and {eos}")
    check_can_save(MODEL if words is None else "", names[-1])
    sentences = _sentences(names[0], size)
    lm = estimate_sampling_lm(sentences, size, bos, eos, options, for_arpa=words is not None)
    say(f"Processed {len(sentences)} lines of input.")
    if words is None:
        save(names[-1], binary, lm.write)
        return
    _write_text(names[-1], arpa_lines(lm, words, bos))


def make_examples(names: Sequence[str], options: RnnlmEgsOptions) -> None:
    """Writes minibatches of a text, with samples drawn from a sampling LM or an ARPA file if there is one."""
    *model, text, output = names
    lm = _sampling_lm(model)
    size = options.vocab_size
    if lm is not None and size not in (-1, len(lm.unigrams)):
        raise Nnet3Error(f"--vocab-size={size}, and the sampling LM has {len(lm.unigrams)} words")
    size = size if lm is None else len(lm.unigrams)
    if size < 0:
        raise Nnet3Error("--vocab-size is needed without a sampling LM: the largest number of a word plus one")
    sentences = _sentences(text, size, (options.bos_symbol, options.brk_symbol))
    if not (sentences.weights > 0).all():
        line = int(np.flatnonzero(sentences.weights <= 0)[0]) + 1
        raise ModelFormatError("the weight of a sentence must be above 0", text, f"line {line}")
    maker = RnnlmExampleMaker(size, options, lm)
    with RNNLM_EXAMPLES.writer(output) as writer:
        for number, example in enumerate(maker.minibatches(sentences)):
            writer.write(f"minibatch-{number}", example)
        say(f"Wrote {writer.count} minibatches")


def _sampling_lm(names: Sequence[str]) -> SamplingLm | None:
    if not names:
        return None
    if len(names) == 1:
        return open_file(names[0]).whole(SamplingLm.read)
    words, model = _words(names[0]), parse_arpa(read_text(names[1]), names[1])
    return from_arpa(model.log10, model.back_off, {word: number for number, word in words.items()}, names[1])


def _sentences(name: str, vocab_size: int, forbidden: tuple[int, ...] = ()) -> Sentences:
    sentences = parse_sentences(read_text(name).encode(), name)
    check_words(sentences, vocab_size, name, forbidden)
    return sentences


def _words(name: str) -> dict[int, str]:
    """Returns the words of words.txt by number, without <eps>."""
    words = {number: word for number, word in load_symbols(name).names.items() if number > 0}
    if max(words, default=0) >= MOST_WORDS:
        raise ModelFormatError(f"expected numbers of words below {MOST_WORDS}, got {max(words)}", name)
    return words


# ---- word features ----


def write_features(words: str, probs: str, options: FeatureChoiceOptions) -> None:
    """Prints features.txt."""
    names = _vocabulary(words)
    features = choose_features(names, _probs(probs, len(names)), options)
    for number, feature in enumerate(features):
        click.echo(feature.line(number))
    say(f"chose {len(features)} features.")


def write_word_features(words: str, features: str, probs: str, like_bos: str) -> None:
    """Prints word_feats.txt."""
    names = _vocabulary(words)
    known = _probs(probs, len(names)) if probs else None
    chosen = parse_features(read_text(features), features)
    for line in list(word_feature_lines(names, chosen, known, like_bos.split(","))):  # all or none
        click.echo(line)
    say(f"made features for {len(names)} words.")


def write_unigram_probs(words: str, text: str) -> None:
    """Prints a probability for each word."""
    names = _vocabulary(words)
    if "</s>" not in names:
        raise ModelFormatError("there is no word </s>", words)
    for number, prob in enumerate(unigram_probs(_sentences(text, len(names)), names, names.index("</s>"))):
        click.echo(f"{number} {prob!r}")


def _vocabulary(name: str) -> list[str]:
    """Returns all words of words.txt by number. Raises ModelFormatError if a number is missing or a word twice."""
    names = load_symbols(name).names
    missing = next((number for number in range(len(names)) if number not in names), None)
    if missing is not None or len({*names.values()}) < len(names):
        what = f"number {missing} is missing" if missing is not None else "a word comes twice"
        raise ModelFormatError(f"the words must have all numbers from 0 on: {what}", name)
    return [names[number] for number in range(len(names))]


def _probs(name: str, count: int) -> list[float]:
    """Returns the probabilities in lines `number probability`, in order."""
    found = dict[int, float]()
    for line, row in enumerate(read_text(name).splitlines(), start=1):
        try:
            number, prob = row.split()
            found[int(number)] = float(prob)
        except ValueError:
            message = f"expected the number of a word and its probability, got '{row[:60]}'"
            raise ModelFormatError(message, name, f"line {line}") from None
    if sorted(found) != list(range(count)) or not all(0 <= prob <= 1 for prob in found.values()):
        raise ModelFormatError(f"expected a probability for each of {count} words, numbered from 0", name)
    return [found[number] for number in range(count)]


def write_word_embedding(features: str, embedding: str, output: str, binary: bool) -> None:
    """Writes the product of word features and a feature embedding."""
    matrix = load_embedding(embedding, features).numpy()
    save(output, binary, lambda writer: writer.matrix(matrix))


# ---- training ----


def train(
    examples: str,
    read_rnnlm: str,
    write_rnnlm: str,
    read_embedding: str,
    write_embedding: str,
    word_features: str,
    binary: bool,
    step: RnnlmStepOptions,
    embedding_options: EmbeddingOptions,
    objective: RnnlmObjectiveOptions,
) -> None:
    """Trains network and embedding on minibatches, and writes both. Raises TrainingError without minibatches."""
    check_can_save(MODEL, write_rnnlm)
    check_can_save(numbers_kind(binary), write_embedding)
    device = given_device()
    nnet = load_network(read_rnnlm).to(device=device)
    embedding = load_embedding(read_embedding).to(device)
    features = parse_word_features(open_file(word_features), len(embedding)) if word_features else None
    own = embedding_options if write_embedding else None
    trainer = RnnlmTrainer(nnet, embedding, features, step, own, objective, say=say)
    with RNNLM_EXAMPLES.open(examples) as table:
        for key, example in table:
            with naming(examples, key):
                trainer.train_minibatch(example)
    if trainer.num_minibatches == trainer.num_skipped:
        raise TrainingError(f"{examples}: no minibatch to train on, {trainer.num_skipped} skipped: nothing is written")
    trainer.log.finish()
    lines = trainer.model.embedding.lines() if write_embedding else []
    for line in chain(lines, [f"Trained on {trainer.num_minibatches} minibatches."]):
        say(line)
    outputs = [(write_rnnlm, nnet.write_to), (write_embedding, lambda writer: writer.matrix(embedding.cpu().numpy()))]
    save_together(binary, *(outputs if write_embedding else outputs[:1]))
    say(f"Wrote RNNLM to {write_rnnlm}")
    if write_embedding:
        say(f"Wrote embedding matrix to {write_embedding}")


def _write_text(name: str, lines: Iterator[str]) -> None:
    writer = Writer(binary=False)
    for line in lines:
        writer.text_line(line)
    if name == "-" or name.startswith("|"):
        write_wxfilename(name, writer)
    else:
        write_atomically(name, [writer.getvalue()])
