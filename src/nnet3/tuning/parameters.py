"""The network before and after training: batch-norm that stays as it is, and new parameters in an old model."""

from __future__ import annotations

from nnet3.nnet import AcousticModel
from nnet3.train.evaluation import with_modes


def with_fixed_norms(model: AcousticModel) -> AcousticModel:
    """Returns a copy whose batch-norm uses the statistics of the original training.

    Few recordings would give it others, which takes more from a model than training gives.
    """
    copy = model.copy()
    nnet = with_modes(copy.nnet, batchnorm_test_mode=True, dropout_test_mode=False)
    return AcousticModel(copy.transition_model, nnet, copy.priors)


def with_parameters_of(model: AcousticModel, trained: AcousticModel) -> AcousticModel:
    """Returns a copy of a model with the parameters of one of the same structure; all else stays as it was."""
    copy = model.copy()
    for name, component in copy.nnet.components.items():
        of_trained = trained.nnet.components[name].parameters()
        for key, parameter in component.parameters().items():
            parameter.copy_(of_trained[key])
    return copy
