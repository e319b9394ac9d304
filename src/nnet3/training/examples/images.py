"""Changes images of examples at random: flips, shifts, rotations (facts/rescoring.md 12).

The rows of an image are its x (the width), its columns y * channels + channel.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from nnet3.base.kaldi_io.general import dense
from nnet3.base.options.images import ImageOptions
from nnet3.errors import TrainingError
from nnet3.training.examples.c_random import CRandom
from nnet3.training.examples.example import Example, NnetIo

Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int64]
_INPUT = "input"


def augmented(example: Example, options: ImageOptions, random: CRandom) -> Example:
    """Returns the example with its images changed, as full matrices. TrainingError without an image `input`."""
    if example.io(_INPUT) is None:
        raise TrainingError(f"expected an image named '{_INPUT}', found {', '.join(io.name for io in example.ios)}")
    return Example(tuple(_changed(io, options, random) if io.name == _INPUT else io for io in example.ios))


def _changed(io: NnetIo, options: ImageOptions, random: CRandom) -> NnetIo:
    width, columns = io.matrix.shape
    if columns % options.num_channels:
        raise TrainingError(f"an image of {columns} columns cannot have {options.num_channels} channels")
    pixels = dense(io.matrix).astype(np.float32, copy=False).reshape(width, -1, options.num_channels)
    transform = draw_transform(width, pixels.shape[1], options, random)
    if transform is not None:
        pixels = transformed(pixels, transform, reflect=options.fill_mode == "reflect")
    return replace(io, matrix=pixels.reshape(width, columns))


def draw_transform(width: int, height: int, options: ImageOptions, random: CRandom) -> Floats | None:
    """Returns a random map from new to old positions (x, y, 1), (3, 3); None for the map that changes nothing."""
    shift_x = (2.0 * random.uniform() - 1.0) * options.horizontal_shift * width
    shift_y = (2.0 * random.uniform() - 1.0) * options.vertical_shift * height
    shift = np.array([[1.0, 0.0, _rounded(shift_x)], [0.0, 1.0, _rounded(shift_y)], [0.0, 0.0, 1.0]])
    if random.happens(options.horizontal_flip_prob):
        shift[0, 0] = -1.0
    rotation = np.eye(3)
    if random.uniform() <= options.rotation_prob:
        angle = math.radians(2.0 * options.rotation_degree * random.uniform() - options.rotation_degree)
        rotation[:2, :2] = [[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]]
    change = rotation @ shift
    if np.array_equal(change, np.eye(3)):
        return None
    to_centre = np.eye(3)
    to_centre[:2, 2] = width / 2 - 0.5, height / 2 - 0.5
    return (to_centre @ change @ np.linalg.inv(to_centre)).astype(np.float32)


def _rounded(value: float) -> float:
    """Returns the nearest integer; halves go away from zero."""
    return math.copysign(math.floor(abs(value) + 0.5), value)


def transformed(pixels: Floats, transform: Floats, *, reflect: bool) -> Floats:
    """Returns an image (width, height, channels) that has at each position what the old image has at the mapped one.

    Between pixels it is interpolated; around the image lies its edge, or with `reflect` its mirror image.
    """
    width, height, _ = pixels.shape
    new = np.stack([*np.meshgrid(np.arange(width), np.arange(height), indexing="ij"), np.ones((width, height))])
    x, y = np.einsum("ij,jwh->iwh", transform[:2], new.astype(np.float32))  # (width, height) each
    found = np.zeros_like(pixels)
    for column, weight_x in _neighbours(x):
        for row, weight_y in _neighbours(y):
            corner = pixels[_inside(column, width, reflect), _inside(row, height, reflect)]
            found += (weight_x * weight_y)[..., np.newaxis] * corner
    return found


def _neighbours(position: Floats) -> list[tuple[Integers, Floats]]:
    """Returns the integers below and above positions, and the weights of both."""
    below = np.floor(position)
    share = position - below
    return [(below.astype(np.int64), 1 - share), (below.astype(np.int64) + 1, share)]


def _inside(index: Integers, count: int, reflect: bool) -> Integers:
    """Returns indexes in 0 .. count - 1 in the place of indexes outside."""
    if reflect:
        index = np.abs(index)
        index = np.where(index >= count, 2 * count - 2 - index, index)
    return index.clip(0, count - 1)
