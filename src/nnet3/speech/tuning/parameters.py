"""The network before and after training: batch-norm with fixed statistics, and new parameters in an old model."""

from __future__ import annotations

from nnet3.model.edits.modes import with_modes
from nnet3.model.nnet import AcousticModel


def with_fixed_norms(model: AcousticModel) -> AcousticModel:
    """Returns a copy whose batch-norm uses the statistics of the original training.

    The statistics of few recordings would differ, and cost a model more than training gains.
    """
    copy = model.copy()
    nnet = with_modes(copy.nnet, batchnorm_test_mode=True, dropout_test_mode=False)
    return AcousticModel(copy.transition_model, nnet, copy.priors)


def with_parameters_of(model: AcousticModel, trained: AcousticModel) -> AcousticModel:
    """Returns a copy of `model` with the parameters of `trained`, a model of the same structure; all else stays."""
    copy = model.copy()
    for name, component in copy.nnet.components.items():
        of_trained = trained.nnet.components[name].parameters()
        for key, parameter in component.parameters().items():
            parameter.copy_(of_trained[key])
    return copy
