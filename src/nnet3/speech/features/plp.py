"""Perceptual linear prediction: cepstra of an all-pole model of the energies of mel bins (Kaldi: compute-plp-feats)."""

from __future__ import annotations

import numpy as np

from nnet3.base.options.recognizer import PlpOptions
from nnet3.speech.arrays.aliases import Rows

_LEAST_ERROR = np.float32(1e-5)  # a step of the recursion leaves at least this share
_LEAST = np.float32(np.finfo(np.float32).tiny)  # Kaldi's bound for C0, which is a logarithm all the same


class PlpCepstra:
    """Makes cepstra of energies of mel bins, all frames at once."""

    def __init__(self, options: PlpOptions):
        self._options = options
        #: Columns of what cepstra are made of: mel bins, behind the log energy if energy takes the place of C0.
        self.inputs = options.num_mel_bins + options.use_energy
        self._loudness = equal_loudness(mel_centres(options))
        self._waves = _inverse_transform(options.lpc_order + 1, options.num_mel_bins + 2)
        numbers, lifter = np.arange(options.num_ceps), options.cepstral_lifter
        lifted = 1 + 0.5 * lifter * np.sin(np.pi * numbers / lifter) if lifter else np.ones(len(numbers))
        self._scale = (lifted * options.cepstral_scale).astype(np.float32)

    @np.errstate(over="ignore", divide="ignore", invalid="ignore")  # which frames are finite shows in the cepstra
    def of(self, rows: Rows) -> Rows:
        """Returns cepstra, (frames, num_ceps), of rows as `inputs` describes them."""
        options = self._options
        mel = (rows[:, options.use_energy :] * self._loudness).T ** np.float32(options.compress_factor)
        error, predictor = _durbin(_weighted(self._waves, np.concatenate([mel[:1], mel, mel[-1:]])))
        c0 = np.maximum(np.log(error), _LEAST)
        cepstra = np.concatenate([c0[np.newaxis], _cepstra(predictor)])[: options.num_ceps].T * self._scale
        if options.use_energy:
            cepstra[:, 0] = rows[:, 0]
        return np.roll(cepstra, -1, axis=1) if options.htk_compat else cepstra


def mel_centres(options: PlpOptions) -> Rows:
    """Returns the frequency in the middle of each mel bin, (bins,), in Hz: 700 (exp(mel / 1127) - 1)."""
    high = options.high_freq if options.high_freq > 0 else options.sample_frequency / 2 + options.high_freq
    low_mel, high_mel = (1127 * np.log1p(np.array([options.low_freq, high]) / 700)).tolist()
    mel = np.linspace(low_mel, high_mel, options.num_mel_bins + 2)[1:-1]
    return np.asarray(700 * np.expm1(mel / 1127), np.float32)


def equal_loudness(frequencies: Rows) -> Rows:
    """Returns how loud energies at frequencies in Hz are heard, (n,): Hermansky's curve."""
    square = frequencies.astype(np.float64) ** 2
    return ((square / (square + 1.6e5)) ** 2 * (square + 1.44e6) / (square + 9.61e6)).astype(np.float32)


def _inverse_transform(count: int, size: int) -> Rows:
    """Returns what makes autocorrelations, `count` of them, of `size` values of a spectrum, (count, size)."""
    waves = np.cos(np.pi / (size - 1) * np.outer(np.arange(count), np.arange(size))) / (size - 1)
    waves[:, [0, -1]] /= 2
    return waves.astype(np.float32)


def _weighted(weights: Rows, values: Rows) -> Rows:
    """Returns weights (outputs, inputs) times values (inputs, frames); no frame depends on how many there are."""
    total = np.zeros((len(weights), values.shape[1]), np.float32)
    for column, row in zip(weights.T, values, strict=True):
        total += column[:, np.newaxis] * row
    return total


def _durbin(autocorrelation: Rows) -> tuple[Rows, Rows]:
    """Solves for linear prediction by the recursion of Levinson and Durbin, for all frames at once.

    autocorrelation: (order + 1, frames). Returns the errors that are left, (frames,), and predictors, (order, frames).
    """
    error, predictor = autocorrelation[0].copy(), np.zeros_like(autocorrelation[1:])
    for i in range(len(predictor)):
        known = predictor[:i]
        reflection = autocorrelation[i + 1].copy()
        for weight, value in zip(known, autocorrelation[i:0:-1], strict=True):
            reflection += weight * value
        reflection /= error
        error *= np.maximum(1 - reflection**2, _LEAST_ERROR)
        predictor[:i] = known - reflection * known[::-1]
        predictor[i] = -reflection
    return error, predictor


def _cepstra(predictor: Rows) -> Rows:
    """Returns cepstra c of predictors a, (order, frames) each, without C0.

    c[n] = -a[n] - sum over j from 1 to n - 1 of (n - j) / n a[j] c[n - j]
    """
    cepstra = np.zeros_like(predictor)
    for n in range(len(predictor)):
        total = np.zeros(predictor.shape[1])
        for j in range(n):
            total += np.float32(n - j) * predictor[j] * cepstra[n - j - 1]
        cepstra[n] = -predictor[n] - total / (n + 1)
    return cepstra
