"""The names of options that Kaldi's programs take, as data."""

from __future__ import annotations

import click


def _words(text: str) -> list[str]:
    return text.split()


_OPTIMIZATION_SWITCHES = _words("""
    optimize consolidate-model-update propagate-in-place backprop-in-place extend-matrices optimize-row-ops
    split-row-ops convert-addition remove-assignments allow-left-merge allow-right-merge initialize-undefined
    move-sizing-commands allocate-from-other snip-row-ops optimize-looped-computation
""")
_OPTIMIZATION_NUMBERS = _words("min-deriv-time max-deriv-time max-deriv-time-relative memory-compression-level")

# Options that steer how Kaldi compiles and runs, but not what it computes -> what they take.
INTERNALS: dict[str, click.ParamType] = {
    **{f"optimization.{name}": click.BOOL for name in _OPTIMIZATION_SWITCHES},
    **{f"optimization.{name}": click.INT for name in _OPTIMIZATION_NUMBERS},
    "compiler.cache-capacity": click.INT,
    "compiler.use-shortcut": click.BOOL,
    "computation.debug": click.BOOL,
    "debug-computation": click.BOOL,
}

# Options of Kaldi's nnet3 programs that some verb may not have: never taken for a misspelling of another option.
KNOWN = frozenset(
    _words("""
    accumulate-stats acoustic-scale add-deriv-weights allow-partial apply-deriv-weights apply-exp
    backstitch-training-interval backstitch-training-scale batch-size batchnorm-stats-scale batchnorm-test-mode beam
    binary cached-compiler-in cached-compiler-out chunk-size collapse-model combine-sum-to-one-penalty compress
    compute-accuracy compute-per-dim-accuracy compute-prob-interval convert-repeated-to-block determinize-lattice
    do-average dropout-test-mode edge-minibatch-size edits edits-config eg-weight enforce-sum-to-one
    ensure-exact-final-context extra-left-context extra-left-context-initial extra-right-context
    extra-right-context-final frame-shift frame-subsampling-factor frames-per-chunk generate-egs-scp
    hidden-layer-dim ivectors keep-proportion l2-regularize l2-regularize-factor lattice-beam lda-rand-prune
    leaky-hmm-coefficient learning-rate learning-rate-factor learning-rate-scale learning-rates left-context
    length-tolerance max-active max-mem max-models max-objective-evaluations max-param-change measure-output-dims
    min-active min-chunk-size min-prob minibatch-size momentum multilingual-eg multitask-egs nnet-config normalize
    num-archives
    num-frames num-pdfs num-threads online-ivector-period online-ivectors optimize output-name pad-input
    partial-minibatch-factor pdf-map-filename prepare-for-test print-interval print-learning-rates prior-floor
    priors-floor rand-prune random raw read-cache reduce-rank renamed-output right-context scale self-loop-scale
    separate-updates set-priors set-raw-nnet set-unigram shuffle-buffer-size sort-by-length srand stage
    transition-scale truncate-deriv-weights update-scale use-frame-shift use-gpu use-priors utt2spk verbose weights
    word-symbol-table write-cache write-per-thread xent-regularize zero-component-stats
    """)
)
