"""Windows over images that do not fit."""

from __future__ import annotations

import pytest

from nnet3 import cn
from nnet3.errors import Nnet3Error
from tests.cn.nodes.images import images


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"image": (5, 5, 2), "window": 2}, "needs 50 rows"),
        ({"image": (5, 6, 2), "window": (7, 2)}, "do not fit"),
        ({"image": (5, 6, 2), "window": 0}, "expected image"),
        ({"image": 60, "window": 1}, "max_pooling: image must be 3 integers, got 60"),
        ({"image": (5, 6, 2), "window": 3.0}, r"max_pooling: window must be 2 integers, got \(3\.0, 3\.0\)"),
        ({"image": (5, 6, 2), "window": (3, 3), "stride": (0, 1)}, "expected image"),
        ({"image": (5, 6, 2), "window": (3, 3), "pad": 1}, "max_pooling: pad must be True or False, got 1"),
    ],
)
def test_images_that_do_not_fit(options, says) -> None:
    with pytest.raises(Nnet3Error, match=says):
        cn.max_pooling(images, **options)
