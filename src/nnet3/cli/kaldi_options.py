"""The names of options that Kaldi's programs take, as data."""

from __future__ import annotations

from typing import Any

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
INTERNALS: dict[str, click.ParamType[Any]] = {
    **{f"optimization.{name}": click.BOOL for name in _OPTIMIZATION_SWITCHES},
    **{f"optimization.{name}": click.INT for name in _OPTIMIZATION_NUMBERS},
    "compiler.cache-capacity": click.INT,
    "compiler.use-shortcut": click.BOOL,
    "computation.debug": click.BOOL,
    "debug-computation": click.BOOL,
}

# Options of Kaldi's nnet3 programs that no verb has: never taken for a misspelling of another option.
ELSEWHERE = frozenset(
    _words("""
    accumulate-stats add-deriv-weights allow-partial batch-size beam cached-compiler-in cached-compiler-out chunk-size
    combine-sum-to-one-penalty compute-prob-interval determinize-lattice do-average edge-minibatch-size eg-weight
    enforce-sum-to-one ensure-exact-final-context generate-egs-scp hidden-layer-dim lattice-beam lda-rand-prune
    learning-rate-factor learning-rate-scale max-active max-mem max-models measure-output-dims min-active
    min-chunk-size min-prob multilingual-eg multitask-egs normalize num-archives num-threads output-name pad-input
    partial-minibatch-factor pdf-map-filename priors-floor rand-prune reduce-rank renamed-output self-loop-scale
    separate-updates set-priors set-unigram shuffle-buffer-size sort-by-length stage transition-scale
    truncate-deriv-weights update-scale use-frame-shift word-symbol-table write-per-thread
    """)
)
