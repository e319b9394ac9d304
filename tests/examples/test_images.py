"""Random changes of images, against a slow version, and images that cannot be changed."""

from __future__ import annotations

import math

import numpy as np
import pytest

from nnet3.base.options.images import ImageOptions
from nnet3.errors import TrainingError
from nnet3.training.examples.c_random import CRandom
from nnet3.training.examples.chunk_ios import indexes
from nnet3.training.examples.example import Example, NnetIo
from nnet3.training.examples.images import augmented, draw_transform, transformed


def _image(width: int, height: int, channels: int = 1) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(width, height, channels)).astype(np.float32)


def _slow(pixels: np.ndarray, transform: np.ndarray, reflect: bool) -> np.ndarray:
    """One pixel after the other, in float64."""
    width, height, _ = pixels.shape

    def inside(k: int, count: int) -> int:
        if reflect and k < 0:
            k = -k
        if reflect and k >= count:
            k = 2 * count - 2 - k
        return min(max(k, 0), count - 1)

    found = np.zeros(pixels.shape)
    for x in range(width):
        for y in range(height):
            old_x, old_y, _ = (transform.astype(np.float64) @ [x, y, 1]).tolist()
            left, top = math.floor(old_x), math.floor(old_y)
            for dx in (0, 1):
                for dy in (0, 1):
                    weight = (1 - abs(old_x - left - dx)) * (1 - abs(old_y - top - dy))
                    found[x, y] += weight * pixels[inside(left + dx, width), inside(top + dy, height)]
    return found


@pytest.mark.parametrize("reflect", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_transformed_images_are_those_of_the_slow_version(seed: int, reflect: bool) -> None:
    pixels = _image(8, 5, 3)
    options = ImageOptions(
        horizontal_flip_prob=0.5, horizontal_shift=0.4, vertical_shift=0.9, rotation_degree=70.0, rotation_prob=0.8
    )
    transform = draw_transform(8, 5, options, CRandom(seed))
    assert transform is not None
    expected = _slow(pixels, transform, reflect)
    assert np.abs(transformed(pixels, transform, reflect=reflect) - expected).max() < 2e-5


def test_flips_and_shifts_move_whole_pixels() -> None:
    flip = draw_transform(4, 3, ImageOptions(horizontal_flip_prob=1.0), CRandom(0))
    assert flip is not None
    pixels = _image(4, 3)
    assert np.array_equal(transformed(pixels, flip, reflect=False), pixels[::-1])
    shift = np.array([[1, 0, 1], [0, 1, -2], [0, 0, 1]], np.float32)
    assert np.array_equal(transformed(pixels, shift, reflect=False)[:, :, 0], pixels[[1, 2, 3, 3]][:, [0, 0, 0], 0])
    assert np.array_equal(transformed(pixels, shift, reflect=True)[:, :, 0], pixels[[1, 2, 3, 2]][:, [2, 1, 0], 0])


def test_without_options_nothing_changes_but_numbers_are_drawn() -> None:
    random, other = CRandom(3), CRandom(3)
    assert draw_transform(4, 3, ImageOptions(), random) is None
    assert draw_transform(4, 3, ImageOptions(rotation_prob=1.0), other) is None
    random.draw()  # of the angle
    assert random.draw() == other.draw()


def test_a_probability_is_how_often_something_happens() -> None:
    random = CRandom(1)
    assert sum(random.happens(0.25) for _ in range(4000)) == pytest.approx(1000, abs=100)
    assert not any(random.happens(1e-9) for _ in range(4000))
    assert [random.happens(share) for share in (0.0, 1.0)] == [False, True]


def test_images_that_cannot_be_changed() -> None:
    image = NnetIo("input", indexes(0, 4), np.zeros((4, 6), np.float32))
    with pytest.raises(TrainingError, match="an image of 6 columns cannot have 4 channels"):
        augmented(Example((image,)), ImageOptions(num_channels=4), CRandom(0))
    with pytest.raises(TrainingError, match="expected an image named 'input', found output"):
        augmented(Example((NnetIo("output", image.indexes, image.matrix),)), ImageOptions(), CRandom(0))
    with pytest.raises(TrainingError, match="fill_mode"):
        ImageOptions(fill_mode="black")
