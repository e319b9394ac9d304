"""Forward-backward over a denominator graph with leaky states (docs/chain.md, the denominator)."""

from __future__ import annotations

import logging
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from nnet3.base.kaldi_io.fst_file import load_fst
from nnet3.errors import Nnet3Error, TrainingError
from nnet3.model.nnet import Nnet
from nnet3.training.chain.arc_sums import ArcSums, arc_sums
from nnet3.training.chain.denominator_graph import Belonging, DenominatorGraph

_LOG = logging.getLogger("nnet3")
LARGEST_OUTPUT = 30.0
_ALPHA_BETA_TOLERANCE, _GAMMA_TOLERANCE, _FAILURE = 0.001, 0.01, 2.0
OUTPUT = "output"


@dataclass(frozen=True, eq=False)
class _Tables:
    """A graph on a device: initial probabilities, and the three sums over transitions."""

    initial: Tensor
    forward: ArcSums  # of alpha and x, to destinations
    backward: ArcSums  # of beta and x, to sources
    posteriors: ArcSums  # of alpha and beta, to pdfs

    @property
    def scratch(self) -> int:
        return max(sums.scratch for sums in (self.forward, self.backward, self.posteriors))


@dataclass(frozen=True, eq=False)
class DenominatorResult:
    """The sum over all sequences of a graph, and its derivative.

    `log_probs` (sequences,) float64; `posteriors` (frames, sequences, pdfs), the derivative of their sum by the output.
    `failed`: the posteriors cannot be right, for instance because an output is NaN.
    """

    log_probs: Tensor
    posteriors: Tensor | None
    failed: bool


class Denominator:
    """Sums over all sequences of a graph, on CPU or CUDA, in float32 (float64 for an output in float64).

    Memory: the forward probabilities, (frames + 1) x states x sequences, and twice the size of the output.
    """

    def __init__(self, graph: DenominatorGraph, leaky_hmm_coefficient: float = 1e-5, *, insist: bool = False):
        """`leaky_hmm_coefficient` (0..1, exclusive): the share of a state's probability that goes, between any two
        frames, to the states where sequences begin. `insist`: the graph need not have the sequences of supervisions."""
        if not 0.0 < leaky_hmm_coefficient < 1.0:
            raise TrainingError(f"leaky-hmm-coefficient must be > 0 and < 1, got {leaky_hmm_coefficient:g}")
        self.graph, self.leaky_hmm_coefficient = graph, leaky_hmm_coefficient
        self.belonging = Belonging(graph, insist=insist)
        self._placed: dict[tuple[torch.device, torch.dtype], _Tables] = {}

    @torch.no_grad()
    def forward_backward(
        self,
        output: Tensor,
        num_sequences: int,
        *,
        lengths: np.ndarray | None = None,
        clipped: bool = True,
        with_posteriors: bool = True,
    ) -> DenominatorResult:
        """Returns log-probabilities and posteriors for `output` (frames * sequences, pdfs), sequences side by side.

        `lengths` (sequences,): the frames of each sequence, if they differ; rows beyond have no influence. `clipped`:
        outputs beyond -30 .. 30 count as -30 or 30, as in Kaldi.
        """
        rows, columns = output.shape
        if columns != self.graph.num_pdfs:
            raise TrainingError(f"the output has {columns} columns, the denominator graph {self.graph.num_pdfs} pdfs")
        if num_sequences < 1 or rows < 1 or rows % num_sequences:
            raise TrainingError(f"an output of {rows} rows cannot be that of {num_sequences} sequences of equal length")
        frames = output.view(rows // num_sequences, num_sequences, columns).transpose(1, 2)  # (frames, pdfs, sequences)
        if lengths is None:
            return self._of_sorted(frames, np.full(num_sequences, len(frames)), clipped, with_posteriors)
        # From the longest sequence to the shortest: those that are there at a frame are the first columns.
        order = np.argsort(-lengths, kind="stable")
        there = torch.from_numpy(order).to(output.device)
        sorted_frames = frames[: lengths.max(), :, there]
        result = self._of_sorted(sorted_frames, lengths[order], clipped, with_posteriors)
        log_probs = torch.empty_like(result.log_probs).index_copy_(0, there, result.log_probs)
        if result.posteriors is None:
            return DenominatorResult(log_probs, None, result.failed)
        posteriors = result.posteriors.new_zeros(len(frames), num_sequences, columns)
        posteriors[: lengths.max()].index_copy_(1, there, result.posteriors)
        return DenominatorResult(log_probs, posteriors, result.failed)

    def _of_sorted(
        self, frames: Tensor, lengths: np.ndarray, clipped: bool, with_posteriors: bool
    ) -> DenominatorResult:
        """Does the same for frames (frames, pdfs, sequences) of sequences from the longest to the shortest."""
        x, offsets = _factors(frames, clipped)
        tables, leak = self._tables(x), self.leaky_hmm_coefficient
        num_frames, _, num_sequences = x.shape
        there = np.searchsorted(-lengths, -np.arange(num_frames + 1), side="left").tolist()  # after so many frames more
        scratch = x.new_empty(tables.scratch, num_sequences)
        sums = x.new_ones(num_frames + 1, num_sequences)
        alpha = tables.initial.unsqueeze(1).repeat(1, num_sequences)
        alphas, totals = [], []
        for t in range(num_frames + 1):
            # alpha'(t, i) = alpha(t, i) + leak a(t) init(i), a(t) the sum over states
            count = alpha.shape[1]
            torch.sum(alpha, 0, out=sums[t, :count])
            alpha.addr_(tables.initial, sums[t, :count], alpha=leak)
            if with_posteriors:
                alphas.append(alpha)
            going_on = there[t] if t < num_frames else 0
            if going_on < count:
                totals.append(alpha[:, going_on:].sum(0))
                alpha = alpha[:, :going_on].contiguous()
            if going_on:
                factors = x[t, :, :going_on].contiguous()
                alpha = tables.forward(alpha, factors, scratch[:, :going_on]).div_(sums[t, :going_on])
        total = torch.cat(totals[::-1])
        present = torch.from_numpy(np.arange(num_frames)[:, np.newaxis] < lengths).to(x.device)
        log_sums = torch.where(present, sums[:num_frames].double().log() + offsets, 0.0)
        log_probs = total.double().log() + log_sums.sum(0)
        if not with_posteriors:
            return DenominatorResult(log_probs, None, False)
        return DenominatorResult(log_probs, *self._backward(tables, alphas, x, sums, total, scratch, there))

    def _backward(
        self,
        tables: _Tables,
        alphas: list[Tensor],
        x: Tensor,
        sums: Tensor,
        total: Tensor,
        scratch: Tensor,
        there: list[int],
    ) -> tuple[Tensor, bool]:
        """Returns posteriors, which take the place of x frame by frame, and true if they are wrong."""
        beta = x.new_empty(len(tables.initial), 0)
        for t in reversed(range(len(x))):
            count = there[t]
            if beta.shape[1] < count:  # sequences that end here
                ending = (1.0 / total[beta.shape[1] : count]).expand(len(beta), -1)
                beta = torch.cat([beta, ending], dim=1)
            # beta(t+1, i) = beta'(t+1, i) + leak sum_j init(j) beta'(t+1, j); both sums over arcs are divided by a(t)
            beta.add_(tables.initial @ beta, alpha=self.leaky_hmm_coefficient).div_(sums[t, :count])
            alpha, factors = alphas[t][:, :count].contiguous(), x[t, :, :count].contiguous()
            gamma = tables.posteriors(alpha, beta, scratch[:, :count])
            beta = tables.backward(beta, factors, scratch[:, :count])
            torch.mul(factors, gamma, out=x[t, :, :count])
            x[t, :, count:] = 0.0
        failed = _is_wrong(float((alphas[0] * beta).double().sum()), float(x[0].double().sum()), x.shape[2])
        return x.transpose(1, 2), failed

    def _tables(self, like: Tensor) -> _Tables:
        key = (like.device, like.dtype)
        if key not in self._placed:
            graph, on_cpu = self.graph, like.device.type == "cpu"
            ends, weights = (graph.sources, graph.destinations, graph.pdfs), graph.probabilities.astype(np.float64)
            sources, destinations, pdfs = ends
            self._placed[key] = _Tables(
                torch.from_numpy(graph.initial).to(*key),
                arc_sums(graph.num_states, destinations, sources, pdfs, weights, blocks=on_cpu).to(*key),
                arc_sums(graph.num_states, sources, destinations, pdfs, weights, blocks=on_cpu).to(*key),
                arc_sums(graph.num_pdfs, pdfs, sources, destinations, weights, blocks=on_cpu).to(*key),
            )
        return self._placed[key]


def _factors(frames: Tensor, clipped: bool) -> tuple[Tensor, Tensor]:
    """Returns exp of outputs (frames, pdfs, sequences), and the part left out of their logarithms (frames, sequences).

    Clipped to -30 .. 30 nothing is left out; otherwise each frame's largest output.
    """
    dtype = torch.float64 if frames.dtype == torch.float64 else torch.float32
    x = torch.empty(frames.shape, dtype=dtype, device=frames.device).copy_(frames)
    if clipped:
        x.clamp_(-LARGEST_OUTPUT, LARGEST_OUTPUT)
        return x.exp_(), x.new_zeros(()).double()
    largest = x.amax(1, keepdim=True)
    return x.sub_(largest).exp_(), largest.squeeze(1).double()


def _is_wrong(alpha_beta: float, gamma: float, num_sequences: int) -> bool:
    """Returns true if a sum at the first frame is far from the number of sequences, which each should be."""
    for what, value, tolerance in (
        ("alpha and beta", alpha_beta, _ALPHA_BETA_TOLERANCE),
        ("posteriors", gamma, _GAMMA_TOLERANCE),
    ):
        if not abs(value - num_sequences) <= tolerance * (abs(value) + num_sequences):
            _LOG.warning("denominator: the sum of %s over %d sequences is %g", what, num_sequences, value)
        if not abs(value - num_sequences) <= _FAILURE:
            return True
    return False


def load_denominator(
    den_fst: str, nnet: Nnet, leaky_hmm_coefficient: float, *, insist: bool = False, output: str = OUTPUT
) -> Denominator:
    """Loads the denominator graph of a file, for an output of a network. `insist`: accept a graph that may lack the
    sequences of the examples.

    The graph must have as many pdfs as the network's output has columns. Raises Nnet3Error, which names the file, if
    the file has no such graph, or the network no such output.
    """
    if output not in nnet.output_names:
        raise TrainingError(
            f"sequence training needs a node '{output}'; the network has {', '.join(nnet.output_names)}"
        )
    fst = load_fst(den_fst)
    try:
        graph = DenominatorGraph.from_fst(fst, nnet.node_dim(output))
    except TrainingError as error:
        raise Nnet3Error(f"{den_fst}: {error}") from None
    return Denominator(graph, leaky_hmm_coefficient, insist=insist)
