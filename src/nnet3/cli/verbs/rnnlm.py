"""Verbs of RNN language models: their training and their probabilities."""

from __future__ import annotations

import dataclasses
from typing import Any

import click

from nnet3.base.options.rnnlm import (
    EmbeddingOptions,
    FeatureChoiceOptions,
    RnnlmEgsOptions,
    RnnlmObjectiveOptions,
    RnnlmOptions,
    RnnlmStepOptions,
    SamplingLmOptions,
)
from nnet3.base.options.training import TrainerOptions
from nnet3.cli import later
from nnet3.cli.declared import one, takes
from nnet3.cli.options import arguments, binary_option, ignored, integer, test_mode_options, text_option, whole_number
from nnet3.cli.verb import verb

_probs_option = text_option(
    "--unigram-probs", "probs", metavar="FILE", help="Lines of a word's number and probability."
)


@verb()
@_probs_option
@takes("options", FeatureChoiceOptions)
@arguments(words="WORDS-TXT")
def choose_features(words: str, probs: str, options: FeatureChoiceOptions) -> None:
    """Choose features of words and print the features: words with features in common, such as letters, learn together.

    nnet3 choose-features --unigram-probs=unigram_probs.txt words.txt > features.txt
    """
    if not probs:
        raise click.UsageError("--unigram-probs=FILE is needed")
    later.rnnlm_tables.write_features(words, probs, options)


@verb()
@arguments(words="WORDS-TXT", sentences="SENTENCES")
def get_unigram_probs(words: str, sentences: str) -> None:
    """Print a probability for each word: its share, smoothed, of all words of sentences.

    A sentence is a line: a weight, and the numbers of words.

    nnet3 get-unigram-probs words.txt train.txt > unigram_probs.txt
    """
    later.rnnlm_tables.write_unigram_probs(words, sentences)


@verb()
@_probs_option
@text_option("--treat-as-bos", "like_bos", metavar="WORDS", help="Words, by commas, with the features of <s>.")
@arguments(words="WORDS-TXT", features="FEATURES-TXT")
def get_word_features(**given: Any) -> None:
    """Print the features of words, which may be other words than those the features were chosen for.

    nnet3 get-word-features --unigram-probs=unigram_probs.txt --treat-as-bos=#0 words.txt features.txt > word_feats.txt
    """
    later.rnnlm_tables.write_word_features(**given)


@verb()
@test_mode_options(batchnorm=True, dropout=True)
@takes("objective", RnnlmObjectiveOptions)
@arguments(model="RAW-IN", embedding="WORD-EMBEDDING", examples="EGS-RSPECIFIER")
def rnnlm_compute_prob(objective: RnnlmObjectiveOptions, **given: Any) -> None:
    """Print the objective per word of an RNNLM on examples, a lower bound of the log-probability.

    nnet3 rnnlm-compute-prob final.raw word_embedding.final.mat ark:dev_egs.ark
    """
    later.rnnlm_tables.print_objective(**given)


@verb()
@takes("options", RnnlmEgsOptions)
@ignored("--num-threads", "--num-threads-total", kind=integer())
@arguments(names="[SAMPLING-LM | WORDS-TXT ARPA] SENTENCES EGS-WSPECIFIER")
def rnnlm_get_egs(names: tuple[str, ...], options: RnnlmEgsOptions) -> None:
    """Make minibatches of sentences, to train RNNLMs with. A sentence is a line: a weight, and the numbers of words.

    With a sampling LM, or its ARPA file, each minibatch has sampled words, which stand for all words not sampled.

    nnet3 rnnlm-get-egs --srand=3 sampling.lm train.txt ark:egs.ark
    nnet3 rnnlm-get-egs --vocab-size=5000 dev.txt ark:dev_egs.ark
    """
    if not 2 <= len(names) <= 4:
        raise click.UsageError("give sentences and a table to write; a sampling LM, or words and an ARPA file, before")
    later.rnnlm_tables.make_examples(names, options)


@verb()
@takes("options", SamplingLmOptions)
@whole_number("--vocab-size", default=-1, show_default=False, help="The largest number of a word, plus one.")
@whole_number("--bos-symbol", "bos", default=1, help="The number of <s>.")
@whole_number("--eos-symbol", "eos", default=2, help="The number of </s>.")
@binary_option
@ignored("--brk-symbol", kind=integer())  # by Kaldi, too
@arguments(names="SENTENCES [WORDS-TXT] LM-OUT")
def rnnlm_get_sampling_lm(names: tuple[str, ...], **given: Any) -> None:
    """Estimate a small n-gram model, from which training draws words. With WORDS-TXT it is written as an ARPA file.

    nnet3 rnnlm-get-sampling-lm --vocab-size=5000 train.txt sampling.lm
    nnet3 rnnlm-get-sampling-lm train.txt words.txt sampling.arpa
    """
    if not 2 <= len(names) <= 3:
        raise click.UsageError("give sentences and a file to write; a list of words may be between them")
    later.rnnlm_tables.make_sampling_lm(names, **given)


@verb()
@binary_option
@arguments(features="WORD-FEATURES", embedding="FEATURE-EMBEDDING", output="WORD-EMBEDDING-OUT")
def rnnlm_get_word_embedding(**given: Any) -> None:
    """Multiply word features with an embedding of features, and write the product, the embedding of words.

    nnet3 rnnlm-get-word-embedding word_feats.txt feat_embedding.final.mat word_embedding.final.mat
    """
    later.rnnlm_tables.write_word_embedding(**given)


@verb()
@takes("options", RnnlmOptions)
@test_mode_options(batchnorm=True, dropout=True)
@arguments(model="RAW-IN", embedding="WORD-EMBEDDING", text="TEXT")
def rnnlm_sentence_probs(**given: Any) -> None:
    """Print the log-probabilities of the words of sentences, and of the sentences' ends.

    A sentence is a line: a key, and the numbers of words.

    nnet3 rnnlm-sentence-probs --bos-symbol=1 --eos-symbol=2 final.raw word_embedding.final.mat sentences.txt
    """
    later.rnnlm_tables.print_sentence_probs(**given)


@verb()
@click.option("--read-rnnlm", required=True, metavar="RAW-IN", help="The network.")
@click.option("--write-rnnlm", required=True, metavar="RAW-OUT", help="Where to write the network.")
@click.option("--read-embedding", required=True, metavar="FILE", help="The embedding of words, or of features.")
@text_option("--write-embedding", metavar="FILE", help="Where to write the embedding; without, it is not trained.")
@text_option("--read-sparse-word-features", "word_features", metavar="FILE", help="Features of words, word_feats.txt.")
@takes("step", RnnlmStepOptions, omit=("seed",), prefix="rnnlm.")
@takes("embedding_options", EmbeddingOptions, prefix="embedding.")
@one(TrainerOptions, "seed")
@takes("objective", RnnlmObjectiveOptions)
@binary_option
@arguments(examples="EGS-RSPECIFIER")
def rnnlm_train(step: RnnlmStepOptions, seed: int, **given: Any) -> None:
    """Train an RNN language model, the network and its embedding, on examples of rnnlm-get-egs.

    nnet3 rnnlm-train --read-rnnlm=0.raw --write-rnnlm=1.raw --read-embedding=feat_embedding.0.mat \\
      --write-embedding=feat_embedding.1.mat --read-sparse-word-features=word_feats.txt ark:egs.ark
    """
    later.rnnlm_tables.train(step=dataclasses.replace(step, seed=seed), **given)
