"""Queues by structure: numbers and an order that Kaldi and libstdc++ give."""

from __future__ import annotations

import numpy as np

from nnet3.training.examples.queues import (
    ExampleStructure,
    Queues,
    in_order_of_hash,
    number_of_ios,
    number_of_rows,
)


def _row_sums(indexes: np.ndarray) -> int:
    return sum(1619 * n + 15649 * t + 89809 * x for n, t, x in indexes.tolist())


def test_hash_numbers() -> None:
    """Of long ios the first 15 rows count, and each tenth row from there on; numbers wrap around at 64 bits."""
    indexes = np.stack([np.arange(36) % 3, np.arange(-4, 32), np.arange(36) % 2], axis=1).astype(np.int32)
    name = ord("a") * 7853 + ord("b")
    for count, hashed in ((15, 15), (16, 16), (25, 16), (26, 17), (36, 18)):
        rows = np.concatenate([indexes[:15], indexes[15:count:10]])
        assert len(rows) == hashed
        assert number_of_rows("ab", indexes[:count]) == name + 1433 + 34949 * count + _row_sums(rows)
    single = number_of_rows("b", indexes[:2])
    assert number_of_rows("b", np.array([[0, -1, 0]], np.int32)) == ord("b") + 1433 + 34949 - 15649
    assert number_of_rows("", np.array([[0, -9, 0]], np.int32)) == 2**64 + 1433 + 34949 - 9 * 15649
    ios = [("b", indexes[:2], (2, 5))] * 5
    number = 35099 * 5
    for _ in ios:
        number = number * 19157 + single + 19249 * 2 + 14731 * 5
    assert number > 2**64
    assert number_of_ios(ios) == number % 2**64


def test_order_of_queues() -> None:
    """New buckets, and new structures of a bucket, come first; growing to more buckets turns the order round."""
    queues: Queues[int] = Queues()
    structures = [ExampleStructure(number, number) for number in (5, 18, 7, 31, 20)]  # modulo 13: 5, 5, 7, 5, 7
    for structure in structures:
        queues.of(structure).append(structure.number)
    assert list(queues) == [[20], [7], [31], [18], [5]]
    queues.of(structures[0]).append(0)
    assert list(queues)[-1] == [5, 0]
    queues.remove(structures[2])
    queues.remove(structures[4])
    queues.of(structures[2]).append(1)
    assert list(queues) == [[1], [31], [18], [5, 0]]
    for number in (100, 101, 102, 103, 104, 106, 107, 108, 110):
        queues.of(ExampleStructure(number, number)).append(number)
    before = [each[0] for each in queues]
    assert len(before) == 13
    queues.of(ExampleStructure(200, 200)).append(200)  # 29 buckets, in which no two of these meet
    assert [each[0] for each in queues] == [200, *reversed(before)]


def test_order_of_names() -> None:
    """Lines about outputs have this order in logs of Kaldi's programs; `output` and `aux` share a bucket."""
    assert in_order_of_hash(["output", "output-xent"]) == ["output-xent", "output"]
    assert in_order_of_hash(["zz", "output"]) == ["output", "zz"]
    assert in_order_of_hash(["output", "aux", "output-xent"]) == ["output-xent", "aux", "output"]
