"""All that may be turned."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Network:
    """How one of the two networks is trained; `epochs` see each frame once."""

    epochs: int
    minibatch: str
    first_rate: float
    last_rate: float
    models: int = 8
    seed: int = 0


@dataclass(frozen=True)
class Lattices:
    """How a trained network is trained further on lattices; `frames` of a chunk, `overlap` of neighbours."""

    criterion: str = "smbr"
    epochs: int = 2
    rate: float = 0.00002
    minibatch: str = "32"
    beam: float = 13.0
    lattice_beam: float = 7.0
    frames: str = "90,60,45"
    overlap: int = 15


@dataclass(frozen=True)
class LanguageModel:
    """An RNN language model of telephone numbers, of which so many are `train`, `valid` and `test`.

    `share` of the bigram's costs is exchanged for those of the model, whose histories are `order` - 1 words.
    """

    numbers: tuple[int, int, int] = (3000, 60, 300)
    dim: int = 24
    width: int = 96
    epochs: int = 8
    rate: float = 0.003
    embedding_rate: float = 0.001
    share: float = 0.8
    order: int = 8
    seed: int = 0


@dataclass(frozen=True)
class MiniDigits:
    """`strings` of train, valid and test; `width` and `bottleneck` of the layers; `min_count` of pairs of phones.

    `beams`: of the search, and of its lattices.
    """

    strings: tuple[int, int, int] = (1200, 60, 300)
    seed: int = 0
    width: int = 160
    bottleneck: int = 40
    flat: Network = field(default_factory=lambda: Network(3, "1:32", 0.002, 0.0004))
    chain: Network = field(default_factory=lambda: Network(4, "64", 0.002, 0.0002))
    lattices: Lattices = field(default_factory=Lattices)
    numbers: LanguageModel = field(default_factory=LanguageModel)
    min_count: int = 100
    beams: tuple[float, float] = (15.0, 8.0)
    lm_weights: tuple[int, ...] = tuple(range(6, 15))
    word_penalties: tuple[float, ...] = (0.0, 0.5, 1.0)


QUICK = MiniDigits(
    (300, 20, 40), flat=Network(2, "1:16", 0.002, 0.001, 3), chain=Network(2, "32", 0.002, 0.0005, 3),
    lattices=Lattices(epochs=1, minibatch="16"), numbers=LanguageModel((600, 20, 40), epochs=3), min_count=30,
)  # fmt: skip
