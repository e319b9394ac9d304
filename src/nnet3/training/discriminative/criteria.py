"""The criteria of discriminative training: MMI, boosted MMI, sMBR and MPFE, with their derivatives."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from nnet3.base.options.discriminative import MMI, SMBR, DiscriminativeOptions
from nnet3.errors import TrainingError
from nnet3.model.hmm.transition_model import TransitionModel
from nnet3.training.discriminative.lattice_levels import LatticeLevels, sum_lattice

LEAST_LOG_PROB = float(np.float32(-20.0 * np.log(10.0)))  # smaller outputs count as this


@dataclass(frozen=True, eq=False)
class Material:
    """The lattice and the right alignment of some sequences, and where their frames are in the output.

    alignment, row_of_frame: (frames,), all frames of the first sequence first, as in the lattice.
    """

    levels: LatticeLevels
    alignment: np.ndarray
    row_of_frame: np.ndarray

    @property
    def num_frames(self) -> int:
        return len(self.alignment)


def rows_of_frames(lengths: np.ndarray) -> np.ndarray:
    """Returns the row t * sequences + s of each frame, (frames,), sequence by sequence; `lengths` of the sequences."""
    sequence = np.repeat(np.arange(len(lengths)), lengths)
    t = np.arange(len(sequence)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return t * len(lengths) + sequence


@dataclass(frozen=True, eq=False)
class LatticeCriterion:
    """A criterion with the meaning of transition-ids. `log_priors`: (pdfs,) float32, subtracted from the output."""

    options: DiscriminativeOptions
    transitions: TransitionModel
    log_priors: Tensor | None = None

    @cached_property
    def pdf_of_id(self) -> np.ndarray:
        """The pdf of each transition-id, (ids + 1,)."""
        return self.transitions.pdf_of_label.astype(np.int64)

    @cached_property
    def phone_of_id(self) -> np.ndarray:
        """The phone of each transition-id, (ids + 1,)."""
        return np.append(-1, self.transitions.phone(self.transitions.transition_ids)).astype(np.int64)

    @cached_property
    def is_silence(self) -> np.ndarray:
        """Marks the phones found by bisection among the given phones, (phones + 1,): all, if given in order."""
        given = list(self.options.silence_phones)
        found = np.zeros(self.transitions.num_phones + 1, bool)
        for phone in given:
            position = bisect_left(given, phone)
            if 0 <= phone < len(found) and position < len(given):
                found[phone] = given[position] == phone
        return found

    def value(self, output: Tensor, material: Material) -> CriterionValue:
        """Returns the criterion for `output` (rows, pdfs). Raises TrainingError for what does not fit together.

        With priors, and for smbr and mpfe, values of the output that the lattice looks up must not be NaN.
        """
        self._check(output, material)
        return _Evaluation(self, output, material).value()

    def _check(self, output: Tensor, material: Material) -> None:
        ids = max(int(material.levels.transition_id.max()), int(material.alignment.max()))
        if ids > self.transitions.num_transition_ids:
            raise TrainingError(
                f"a supervision has the transition-id {ids}, but the transition model "
                f"{self.transitions.num_transition_ids}: do they belong together?"
            )
        columns = output.shape[1]
        if columns < self.transitions.num_pdfs:
            raise TrainingError(
                f"the output has {columns} columns, but the transition model {self.transitions.num_pdfs} pdfs"
            )
        if self.log_priors is not None and len(self.log_priors) != columns:
            raise TrainingError(
                f"the output has {columns} columns, but there are priors of {len(self.log_priors)} pdfs"
            )


@dataclass(frozen=True, eq=False)
class CriterionValue:
    """Sums over all frames, not scaled by a weight.

    numerator: of mmi the log-likelihood of the right alignment, else 0. lattice: of mmi the log-sum over the paths of
    the lattice, else the expected accuracy. deriv: (rows, pdfs), 1 / acoustic_scale times the derivative of
    `objective`, float64. right: the elements of the output that the alignment has, (frames,), counted along one long
    row. num_floored: how many values were too small, of all arcs and, for mmi, of the right alignment.
    """

    is_mmi: bool
    numerator: float
    lattice: float
    deriv: Tensor
    right: Tensor
    num_floored: int

    @property
    def objective(self) -> float:
        """The criterion, which is to be maximised."""
        return self.numerator - self.lattice if self.is_mmi else self.lattice


class _Evaluation:
    """The evaluation of a criterion for one output and one lattice."""

    def __init__(self, criterion: LatticeCriterion, output: Tensor, material: Material):
        self.criterion, self.options, self.output, self.material = criterion, criterion.options, output, material
        levels = material.levels
        self.emits = np.flatnonzero(levels.transition_id)  # arcs with a transition-id
        self.ids, self.frame = levels.transition_id[self.emits], levels.frame[self.emits]
        positions = self._positions(self.frame, self.ids)
        right = self._positions(np.arange(material.num_frames), material.alignment)
        self.positions, self.right = self._tensor(positions), self._tensor(right)
        looked_up = torch.cat([self.positions, self.right]) if self.is_mmi else self.positions
        self._check_values(looked_up)
        self.num_floored = int((output.reshape(-1)[looked_up] < LEAST_LOG_PROB).sum())

    @property
    def is_mmi(self) -> bool:
        return self.options.criterion == MMI

    def _positions(self, frame: np.ndarray, ids: np.ndarray) -> np.ndarray:
        found: np.ndarray = self.material.row_of_frame[frame] * self.output.shape[1] + self.criterion.pdf_of_id[ids]
        return found

    def _tensor(self, values: np.ndarray) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(values)).to(self.output.device)

    def _check_values(self, positions: Tensor) -> None:
        if self.criterion.log_priors is None:
            return
        values, priors = self.output.reshape(-1)[positions], self.criterion.log_priors.to(self.output.device)
        if not (values <= 0).all():
            worst = float(values.max())
            raise TrainingError(
                f"with priors the output must be log-probabilities, got {worst:g}: is there a log-softmax, or does the "
                "model need no priors?"
            )
        pdfs = positions % self.output.shape[1]
        if (priors[pdfs] > 0).any():
            pdf = int(pdfs[priors[pdfs] > 0][0])
            raise TrainingError(f"priors must be at most 1, that of pdf {pdf} is {float(priors[pdf].exp()):g}")

    def _scores(self, positions: Tensor) -> Tensor:
        """Returns scaled log-likelihoods of elements of the output, float64."""
        values = self.output.reshape(-1)[positions].double().clamp(min=LEAST_LOG_PROB)
        if self.criterion.log_priors is not None:
            priors = self.criterion.log_priors.to(values)
            values = values - priors[positions % self.output.shape[1]]
        return values * self.options.acoustic_scale

    def value(self) -> CriterionValue:
        levels = self.material.levels
        scores = self._tensor(-levels.graph_cost - np.where(levels.transition_id > 0, 0.0, levels.acoustic_cost))
        if self.is_mmi and self.options.boost:
            scores += self.options.boost * self._tensor(self._is_boosted())
        emits = self._tensor(self.emits)
        scores[emits] += self._scores(self.positions)
        deriv = torch.zeros(self.output.numel(), dtype=torch.float64, device=self.output.device)
        if self.is_mmi:
            sums = sum_lattice(levels, scores)
            shares = sums.shares[emits]
            numerator = float(self._scores(self.right).sum())
            deriv.index_add_(0, self.right, torch.ones_like(self.right, dtype=torch.float64))
            deriv.index_add_(0, self.positions, -shares)
            lattice, deriv = float(sums.log_sum), deriv.view(self.output.shape)
            if self.options.drop_frames:
                self._drop_frames(deriv, shares)
        else:
            sums = sum_lattice(levels, scores, self._accuracies())
            assert sums.accuracy is not None, "accuracies were given"
            assert sums.gain is not None, "accuracies were given"
            numerator, lattice = 0.0, float(sums.accuracy)
            deriv.index_add_(0, self.positions, sums.shares[emits] * sums.gain[emits])
            deriv = deriv.view(self.output.shape)
        return CriterionValue(self.is_mmi, numerator, lattice, deriv, self.right, self.num_floored)

    def _is_boosted(self) -> np.ndarray:
        """Marks with 1 the arcs of phones that are wrong and no silence, (arcs,) float64."""
        phones = self.criterion.phone_of_id
        right = phones[self.material.alignment][self.frame]
        marked = np.zeros(len(self.material.levels.transition_id))
        marked[self.emits] = (phones[self.ids] != right) & ~self.criterion.is_silence[phones[self.ids]]
        return marked

    def _accuracies(self) -> Tensor:
        """Returns the accuracy of each arc, (arcs,) float64: 1 for the right pdf (smbr) or phone (mpfe)."""
        phones, silence = self.criterion.phone_of_id, self.criterion.is_silence
        kind = self.criterion.pdf_of_id if self.options.criterion == SMBR else phones
        right = self.material.alignment[self.frame]
        same = kind[self.ids] == kind[right]
        is_silence = silence[phones[self.ids]]
        if self.options.one_silence_class:
            same |= is_silence & silence[phones[right]]
        else:
            same &= ~is_silence
        accuracies = np.zeros(len(self.material.levels.transition_id))
        accuracies[self.emits] = same
        return self._tensor(accuracies)

    def _drop_frames(self, deriv: Tensor, shares: Tensor) -> None:
        """Zeroes the rows whose right pdf has a share of the lattice that is 0 in float32."""
        occupied = torch.zeros(self.output.numel(), dtype=torch.bool, device=self.output.device)
        occupied[self.positions[shares.float() > 0]] = True
        dropped = self.right[~occupied[self.right]] // self.output.shape[1]
        deriv[dropped] = 0.0
