"""RunsUtterances: the method `compute` of networks and acoustic models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nnet3.engine.ir.matrices import Matrix
from nnet3.model.nnet import at_first_use

if TYPE_CHECKING:
    from torch import Tensor


class RunsUtterances:
    """Has the method `compute`."""

    def compute(
        self,
        features: Matrix,
        ivector: Matrix | None = None,
        online_ivectors: Matrix | None = None,
        use_priors: bool = False,
        **options: int,
    ) -> Tensor:
        """Returns output `output` for features (T, dim): a tensor (ceil(T / frame_subsampling_factor), outputs).

        A network with an input `ivector` is given either `ivector` (dim,) or `online_ivectors` (rows, dim), one row
        for every `online_ivector_period` (10) frames. Matrices are tensors or arrays of any float or integer dtype;
        the result is on the device of the parameters, without gradient history. With `use_priors` an acoustic model
        gives log-likelihoods: outputs minus the logarithms of its priors.

        Context that the network needs at the ends is made by repeating the first and last frame. By default the
        whole utterance is computed at once (in pieces if it takes more than 1 GiB and pieces make no difference);
        `frames_per_chunk`, `frame_subsampling_factor`, `extra_left_context`, `extra_left_context_initial` and so on
        are the options of Kaldi's nnet3-compute. Batch-norm and dropout are in test mode here, in every mode of the
        network. Safe with threads; a program compiled for a length serves the other lengths.

        Raises ExecutionError for matrices of the wrong size or that are not finite, NetworkError for a network that
        is not simple or missing priors, NotComputableError for a network that needs more than such input.
        """
        model: Any = self  # a network or an acoustic model
        return at_first_use.compute_utterance(model, features, ivector, online_ivectors, use_priors, **options)
