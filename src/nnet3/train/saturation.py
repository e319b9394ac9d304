"""Saturation of a network's sigmoids and tanhs, by the statistics that training has stored."""

from __future__ import annotations

import torch

from nnet3.nnet import Nnet

#: The largest derivatives of the functions of each type, as rows of its sums of derivatives.
_LARGEST = {
    "SigmoidComponent": (0.25,),
    "TanhComponent": (1.0,),
    "LstmNonlinearityComponent": (0.25, 0.25, 1.0, 0.25, 1.0),
    "GruNonlinearityComponent": (1.0,),
    "OutputGruNonlinearityComponent": (1.0,),
}


def saturation(nnet: Nnet) -> float:
    """Returns the mean over all nonlinearities of 1 - mean derivative / largest derivative; 0 without statistics."""
    found: list[float] = []
    for component in nnet.components.values():
        for _, leaf in component.leaves():
            largest = _LARGEST.get(leaf.type_name)
            sums, count = getattr(leaf, "deriv_sum", torch.zeros(0)), getattr(leaf, "count", 0.0)
            if largest is None or sums.numel() == 0 or count <= 0:
                continue
            means = sums.reshape(len(largest), -1).mean(1) / count
            found += [1.0 - mean / most for mean, most in zip(means.tolist(), largest, strict=True)]
    return sum(found) / len(found) if found else 0.0
