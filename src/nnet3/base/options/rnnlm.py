"""Options of RNN language models, with Kaldi's names and defaults (docs/rnnlm.md)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from nnet3.base.options.declaring import Options, again, option
from nnet3.base.options.training import StepOptions, TrainerOptions
from nnet3.base.text.values import Boolean, Integer, Number, above, at_least
from nnet3.errors import ArgumentError, TrainingError

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

    momentum: float = again(StepOptions, "momentum", 0.0, flag="rnnlm.momentum")
    max_param_change: float = again(StepOptions, "max_param_change", 2.0, flag="rnnlm.max-param-change")
    l2_regularize_factor: float = again(StepOptions, "l2_regularize_factor", 1.0, flag="rnnlm.l2-regularize-factor")
    backstitch_training_scale: float = again(
        *(StepOptions, "backstitch_training_scale", 0.0), flag="rnnlm.backstitch-training-scale"
    )
    backstitch_training_interval: int = again(
        *(StepOptions, "backstitch_training_interval", 1), flag="rnnlm.backstitch-training-interval"
    )
    print_interval: int = again(TrainerOptions, "print_interval", 10, flag="rnnlm.print-interval")
    seed: int = again(TrainerOptions, "seed", 0)

    def trainer_options(self) -> TrainerOptions:
        """Returns the options of the trainer: no statistics of batch-norm become smaller."""
        return TrainerOptions(batchnorm_stats_scale=1.0, **self.values())


@dataclass(frozen=True)
class EmbeddingOptions(Options, error=TrainingError):
    """The step of the embedding that a minibatch makes."""

    momentum: float = again(StepOptions, "momentum", 0.0, flag="embedding.momentum")
    max_param_change: float = option(
        1.0, _NUMBER, "Most that the embedding may change in a minibatch (0: no limit).",
        flag="embedding.max-param-change",
    )  # fmt: skip
    l2_regularize: float = option(0.0, _NUMBER, "Weight of the embedding's square.", flag="embedding.l2-regularize")
    learning_rate: float = option(0.01, Number(above(0)), "Of the embedding.", flag="embedding.learning-rate")
    backstitch_training_scale: float = again(
        *(StepOptions, "backstitch_training_scale", 0.0), flag="embedding.backstitch-training-scale"
    )
    backstitch_training_interval: int = again(
        *(StepOptions, "backstitch_training_interval", 1), flag="embedding.backstitch-training-interval",
        help="Without effect: --rnnlm.backstitch-training-interval says when.",
    )  # fmt: skip
    use_natural_gradient: bool = option(
        True, Boolean(), "Precondition by natural gradient.", flag="embedding.use-natural-gradient"
    )
    natural_gradient_alpha: float = option(
        4.0, Number(above(0)), "Smoothing towards the plain gradient.", flag="embedding.natural-gradient-alpha"
    )
    natural_gradient_rank: int = option(
        80, Integer(at_least(1)), "Rank of the estimate.", flag="embedding.natural-gradient-rank"
    )
    natural_gradient_update_period: int = option(
        4, Integer(at_least(1)), "Minibatches per update of the estimate.",
        flag="embedding.natural-gradient-update-period",
    )  # fmt: skip
    natural_gradient_num_minibatches_history: float = option(
        10.0, Number(above(1)), "Minibatches that the estimate remembers.",
        flag="embedding.natural-gradient-num-minibatches-history",
    )  # fmt: skip

    def conflicts(self) -> Iterator[tuple[str, str]]:
        if self.backstitch_training_scale > 0 and self.momentum > 0:
            yield "momentum", f"backstitch needs momentum = 0, got {self.momentum:g}"
