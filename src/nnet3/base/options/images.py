"""Options of changing images at random, with Kaldi's names and defaults (docs/examples.md)."""

from __future__ import annotations

from dataclasses import dataclass

from nnet3.base.options.declaring import Options, option
from nnet3.base.text.values import Integer, Number, at_least, choice, within
from nnet3.errors import TrainingError

_SHARE = Number(within(0, 1))


@dataclass(frozen=True)
class ImageOptions(Options, error=TrainingError):
    """Random changes of images: flips, shifts and rotations."""

    num_channels: int = option(1, Integer(at_least(1)), "Colours of an image.")
    horizontal_flip_prob: float = option(0.0, _SHARE, "How often images are flipped.")
    horizontal_shift: float = option(0.0, _SHARE, "The largest shift, as a share of the width.")
    vertical_shift: float = option(0.0, _SHARE, "The largest shift, as a share of the height.")
    rotation_degree: float = option(0.0, Number(within(0, 180)), "The largest rotation.", unit="degrees")
    rotation_prob: float = option(0.0, _SHARE, "How often images are rotated.")
    fill_mode: str = option(
        "nearest", choice("nearest", "reflect"), "What lies around an image: its edge, or its mirror image."
    )
