"""Goodness of pronunciation: how sure a network is of the phones that an alignment says were spoken."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from nnet3.engine.ir.matrices import Matrix, as_tensor, is_finite
from nnet3.errors import ExecutionError, check_kind
from nnet3.model.hmm.segments import phone_segments, phones_of_pdfs
from nnet3.model.hmm.transition_model import TransitionModel

_ROWS_AT_ONCE = 4096


@dataclass(frozen=True)
class PhoneScore:
    """A phone of an alignment, on frames `first_frame` .. `first_frame + num_frames - 1`, and how well it fits.

    `log_posterior`: the mean of the phone's log-posteriors over the frames. `score`: `log_posterior` less the largest
    such mean of all phones, the mean of `best`. So the score is 0 where the phone is the best, else negative.
    """

    phone: int
    first_frame: int
    num_frames: int
    score: float
    log_posterior: float
    best: int


def phone_log_posteriors(log_likelihoods: Matrix, transition_model: TransitionModel) -> Tensor:
    """Returns the logarithm of each phone's posterior on each frame, (frames, phones), from scores (frames, pdfs).

    Column k is phone `transition_model.phones[k]`. The posterior is P(q | o_t) = sum of P(s | o_t) over the pdfs s of
    q, where P(s | o_t) = exp(l[t, s]) / sum over s' of exp(l[t, s']). So log-posteriors of pdfs, the outputs of a
    network with a log-softmax, stay unchanged, and log-likelihoods are taken with equal priors. A pdf shared by several
    phones counts for every phone.

    Raises ExecutionError for a matrix with a wrong number of columns, or with values that are not finite.
    """
    check_kind(transition_model, TransitionModel, "the transition model", "a TransitionModel")
    scores = as_tensor(log_likelihoods, "the log-likelihoods")
    if scores.ndim != 2 or scores.shape[1] != transition_model.num_pdfs:
        expected = f"(frames, {transition_model.num_pdfs}), a column for each pdf"
        raise ExecutionError(f"the log-likelihoods must be {expected}, got {tuple(scores.shape)}")
    phone_of_pair, pdf_of_pair = phones_of_pdfs(transition_model).T
    column = torch.from_numpy(np.searchsorted(transition_model.phones, phone_of_pair)).to(scores.device)
    pdf = torch.from_numpy(pdf_of_pair).long().to(scores.device)
    result = scores.new_empty(len(scores), len(transition_model.phones))
    for start in range(0, len(scores), _ROWS_AT_ONCE):  # for hours of speech, the pairs of all rows would be large
        block = scores[start : start + _ROWS_AT_ONCE]
        if not is_finite(block):
            row = start + int((~torch.isfinite(block)).any(dim=1).int().argmax())
            raise ExecutionError(f"the log-likelihoods are not finite, first in row {row}")
        result[start : start + _ROWS_AT_ONCE] = _log_sums(block.log_softmax(dim=1)[:, pdf], column, result.shape[1])
    return result


def _log_sums(values: Tensor, column: Tensor, num_columns: int) -> Tensor:
    """Returns the logarithm of the sum of exp(values) (rows, pairs) in each column (rows, num_columns)."""
    columns = column.expand_as(values)
    largest = values.new_full((len(values), num_columns), -torch.inf).scatter_reduce(1, columns, values, "amax")
    sums = values.new_zeros(len(values), num_columns).scatter_add(1, columns, (values - largest[:, column]).exp())
    return largest + sums.log()


def gop(
    log_likelihoods: Matrix, alignment: ArrayLike, transition_model: TransitionModel, kind: str = "transition-ids"
) -> list[PhoneScore]:
    """Returns the goodness of pronunciation of each phone of an alignment.

    log_likelihoods: (frames, pdfs), outputs of an acoustic model; alignment: (frames,), the transition-id of each
    frame, or with `kind` "phones" or "pdfs" the phone or the pdf, where equal phones in a row are one segment.

    The score of phone p on frames a .. b is

        GOP(p) = LPP(p) - max over phones q of LPP(q),    LPP(q) = 1 / (b - a + 1) sum_t=a..b log P(q | o_t),

    with the posteriors of `phone_log_posteriors`: the form for networks of W. Hu, Y. Qian, F. Soong, Y. Wang, "Improved
    mispronunciation detection with deep neural network trained acoustic models and transfer learning based logistic
    regression classifiers", Speech Communication 67, 2015. The score takes the place of the ratio of likelihoods,
    aligned against a free loop of phones, of S. Witt, S. Young, "Phone-level pronunciation scoring and assessment for
    interactive language learning", Speech Communication 30, 2000.

    Raises ExecutionError for scores that do not fit the model or the alignment, NetworkError for an alignment that does
    not fit the model.
    """
    posteriors = phone_log_posteriors(log_likelihoods, transition_model).double().cpu()
    frames = np.asarray(alignment)
    if frames.ndim == 1 and len(frames) != len(posteriors):
        raise ExecutionError(f"the alignment has {len(frames)} frames, but there are {len(posteriors)} log-likelihoods")
    first, phones = phone_segments(frames, transition_model, kind)
    lengths = np.diff(first, append=len(frames))
    segment = torch.from_numpy(np.repeat(np.arange(len(first)), lengths))
    means = posteriors.new_zeros(len(first), posteriors.shape[1]).index_add(0, segment, posteriors)
    means /= torch.from_numpy(lengths)[:, np.newaxis]
    own = means[torch.arange(len(first)), torch.from_numpy(np.searchsorted(transition_model.phones, phones))]
    largest, column = means.max(dim=1)
    values = phones, first, lengths, own - largest, own, transition_model.phones[column.numpy()]
    return [PhoneScore(*row) for row in zip(*(column.tolist() for column in values), strict=True)]
