"""Options of RNN language models, with Kaldi's names and defaults (docs/rnnlm.md)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from nnet3.base.options.declaring import Options, again, option
from nnet3.base.options.training import StepOptions, TrainerOptions
from nnet3.base.text.values import Boolean, Integer, Number, Text, above, at_least, bounds, within
from nnet3.errors import ArgumentError, TrainingError

#: Words of a vocabulary, at most: a sampling LM has a probability for each.
MOST_WORDS = 1 << 24
#: Words of a minibatch that is made, and samples for it, at most.
MOST_ROWS = 1 << 22
_WORD, _NUMBER = Integer(at_least(-1)), Number(at_least(0))


@dataclass(frozen=True)
class RnnlmOptions(Options, error=ArgumentError):
    """The special words of a model (-1: none), and whether its probabilities are made to sum to one."""

    bos_symbol: int = option(-1, _WORD, "The number of <s>, which each history begins with.")
    eos_symbol: int = option(-1, _WORD, "The number of </s>, which ends a sentence.")
    brk_symbol: int = option(-1, _WORD, "The number of <brk>; only training reads the word.")
    normalize_probs: bool = option(False, Boolean(), "Divide by the sum of the probabilities of all words.")


@dataclass(frozen=True)
class RnnlmObjectiveOptions(Options, error=TrainingError):
    """The objective of RNNLMs."""

    den_term_limit: float = option(
        -10.0,
        Number(),
        "Where the denominator's part per word is below this, its derivative is made smaller; 0: never.",
    )
    max_logprob_elements: int = option(
        1_000_000_000, Integer(at_least(1), 64), "Scores of words computed at once, at most.", steers=False
    )

    def conflicts(self) -> Iterator[tuple[str, str]]:
        if not (self.den_term_limit == 0 or self.den_term_limit < -0.5):
            yield "den_term_limit", f"den_term_limit must be 0 or below -0.5, got {self.den_term_limit:g}"


@dataclass(frozen=True)
class RnnlmStepOptions(Options, error=TrainingError):
    """The step of the network that a minibatch makes; see `StepOptions`."""

    momentum: float = again(StepOptions, "momentum", 0.0)
    max_param_change: float = again(StepOptions, "max_param_change", 2.0)
    l2_regularize_factor: float = again(StepOptions, "l2_regularize_factor", 1.0)
    backstitch_training_scale: float = again(*(StepOptions, "backstitch_training_scale", 0.0))
    backstitch_training_interval: int = again(*(StepOptions, "backstitch_training_interval", 1))
    print_interval: int = again(TrainerOptions, "print_interval", 10)
    seed: int = again(TrainerOptions, "seed", 0)

    def trainer_options(self) -> TrainerOptions:
        """Returns the options of the trainer: no statistics of batch-norm become smaller."""
        return TrainerOptions(batchnorm_stats_scale=1.0, **self.values())


@dataclass(frozen=True)
class EmbeddingOptions(Options, error=TrainingError):
    """The step of the embedding that a minibatch makes."""

    momentum: float = again(StepOptions, "momentum", 0.0)
    max_param_change: float = option(1.0, _NUMBER, "Most that the embedding may change in a minibatch (0: no limit).")
    l2_regularize: float = option(0.0, _NUMBER, "Weight of the embedding's square.")
    learning_rate: float = option(0.01, Number(above(0)), "Learning rate of the embedding.")
    backstitch_training_scale: float = again(*(StepOptions, "backstitch_training_scale", 0.0))
    backstitch_training_interval: int = again(
        *(StepOptions, "backstitch_training_interval", 1),
        help="Without effect: --rnnlm.backstitch-training-interval says when.",
    )
    use_natural_gradient: bool = option(True, Boolean(), "Precondition by natural gradient.")
    natural_gradient_alpha: float = option(4.0, Number(above(0)), "Smoothing towards the plain gradient.")
    natural_gradient_rank: int = option(80, Integer(at_least(1)), "Rank of the estimate.")
    natural_gradient_update_period: int = option(4, Integer(at_least(1)), "Minibatches per update of the estimate.")
    natural_gradient_num_minibatches_history: float = option(
        10.0, Number(above(1)), "Minibatches that the estimate remembers."
    )

    def conflicts(self) -> Iterator[tuple[str, str]]:
        if self.backstitch_training_scale > 0 and self.momentum > 0:
            yield "momentum", f"backstitch needs momentum = 0, got {self.momentum:g}"


@dataclass(frozen=True)
class SamplingLmOptions(Options, error=TrainingError):
    """Estimating a sampling LM."""

    ngram_order: int = option(3, Integer(within(1, 20)), "Words of the longest n-grams.")
    discounting_constant: float = option(
        1.0, Number(bounds(above=0, maximum=1)), "What each count loses, as a share of its largest weight."
    )
    unigram_factor: float = option(
        100.0, Number(above(0)), "N-grams stay that are so many times as probable as the word alone."
    )
    backoff_factor: float = option(
        2.0, Number(above(0)), "N-grams of three words or more stay that are so many times as probable as by back-off."
    )
    bos_factor: float = option(5.0, Number(above(0)), "As --unigram-factor, behind <s>.")
    unigram_power: float = option(
        0.8, Number(bounds(above=0.2, maximum=1)), "Power of the probabilities of single words."
    )

    def conflicts(self) -> Iterator[tuple[str, str]]:
        if self.unigram_factor <= self.backoff_factor:
            yield "unigram_factor", f"unigram_factor must be above backoff_factor, got {self.unigram_factor:g}"
        if self.bos_factor > self.unigram_factor:
            yield "bos_factor", f"bos_factor must not be above unigram_factor, got {self.bos_factor:g}"


@dataclass(frozen=True)
class RnnlmEgsOptions(Options, error=TrainingError):
    """Making minibatches of sentences."""

    vocab_size: int = option(-1, Integer(within(-1, MOST_WORDS)), "The largest number of a word, plus one.")
    bos_symbol: int = option(1, Integer(at_least(1)), "The number of <s>.")
    eos_symbol: int = option(2, Integer(at_least(1)), "The number of </s>.")
    brk_symbol: int = option(3, Integer(at_least(1)), "The number of <brk>, which stands for what is cut off.")
    chunk_length: int = option(32, Integer(at_least(1)), "Words of a row.", unit="words")
    num_chunks_per_minibatch: int = option(128, Integer(at_least(1)), "Rows of a minibatch.", unit="rows")
    min_split_context: int = option(3, Integer(at_least(0)), "Words of context of cut sentences.", unit="words")
    sample_group_size: int = option(2, Integer(at_least(1)), "Words of a row that share a sample.", unit="words")
    num_samples: int = option(512, Integer(at_least(0)), "Words drawn for each group; 0: no sampling.")
    chunk_buffer_size: int = option(20000, Integer(at_least(1)), "Pieces to draw from.")
    special_symbol_prob: float = option(1e-5, Number(at_least(0)), "Probability of <s> and <brk> to be drawn.")
    uniform_prob_mass: float = option(0.05, Number(bounds(minimum=0, below=1)), "Shared by all words, for draws.")
    seed: int = again(TrainerOptions, "seed", 0)

    def conflicts(self) -> Iterator[tuple[str, str]]:
        symbols = self.bos_symbol, self.eos_symbol, self.brk_symbol
        if len(set(symbols)) < len(symbols):
            yield "brk_symbol", f"the three symbols must differ, got {', '.join(map(str, symbols))}"
        if self.chunk_length <= 4 * self.min_split_context:
            yield (
                "chunk_length",
                (
                    f"chunk_length must be more than four times min_split_context, got {self.chunk_length} and "
                    f"{self.min_split_context}"
                ),
            )
        if self.chunk_length % self.sample_group_size:
            yield (
                "chunk_length",
                (
                    f"chunk_length must be a multiple of sample_group_size, got {self.chunk_length} and "
                    f"{self.sample_group_size}"
                ),
            )
        rows = self.chunk_length * self.num_chunks_per_minibatch
        samples = self.chunk_length // self.sample_group_size * self.num_samples
        if max(rows, samples) > MOST_ROWS:
            sizes = "chunk_length * num_chunks_per_minibatch, and chunk_length / sample_group_size * num_samples,"
            yield "chunk_length", f"{sizes} must be at most {MOST_ROWS}, got {rows} and {samples}"
        least = self.num_chunks_per_minibatch * self.sample_group_size
        if 0 < self.num_samples < least:
            yield (
                "num_samples",
                f"num_samples must be 0 or at least {least}, the rows of a group, got {self.num_samples}",
            )


@dataclass(frozen=True)
class FeatureChoiceOptions(Options, error=ArgumentError):
    """Choosing the features of words."""

    min_ngram_order: int = option(2, Integer(at_least(1)), "Letters of the shortest pieces; ends of words count.")
    max_ngram_order: int = option(3, Integer(at_least(1)), "Letters of the longest pieces.")
    min_frequency: float = option(1e-5, Number(at_least(0)), "Pieces that are less frequent are no features.")
    include_unigram_feature: bool = option(True, Boolean(), "The logarithm of a word's probability is a feature.")
    include_length_feature: bool = option(True, Boolean(), "The number of a word's letters is a feature.")
    top_word_features: int = option(2000, Integer(at_least(0)), "So many words, plus one, are features of their own.")
    special_words: str = option("<s>,</s>,<brk>", Text(), "Words with no other features than one of their own.")
    use_constant_feature: bool = option(False, Boolean(), "All words have one feature together.")
    max_rms: float = option(0.01, Number(above(0)), "Features are scaled down to this root mean square.")

    def conflicts(self) -> Iterator[tuple[str, str]]:
        if self.max_ngram_order < self.min_ngram_order:
            yield "max_ngram_order", f"max_ngram_order must not be below min_ngram_order, got {self.max_ngram_order}"
