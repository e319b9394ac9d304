"""Random networks for the soak: affine loops over inputs at several offsets, and xconfig stacks of every layer type."""

from __future__ import annotations

from random import Random

import nnet3
from nnet3.xconfig import LAYER_TYPES, expand_xconfig
from tests.random_networks import RandomNetwork
from tests.spliced_recurrences import LAGS, affine_loop
from tests.xconfig.layer_examples import examples

_NOT_ABOVE_OTHERS = ("input", "output", "output-layer")
_NOT_STACKED = (".mat", "-99")  # in values that need a file, or look at hundreds of frames


def stackable_layers() -> list[tuple[str, str]]:
    """Every layer type with each of its examples that stands in a stack."""
    pairs = [(name, values) for name in LAYER_TYPES if name not in _NOT_ABOVE_OTHERS for values in examples(name)]
    return [pair for pair in pairs if not any(word in " ".join(pair) for word in _NOT_STACKED)]


def spliced_loop(seed: int) -> RandomNetwork:
    """A recurrence over an input, or over a layer that may be given in part, at two to four offsets in any order."""
    random = Random(seed)
    lag = random.choice(LAGS)
    offsets = random.sample(
        [-2 * lag, -lag, 0, lag, 2 * lag] if random.random() < 0.6 else range(-3, 4), random.randint(2, 4)
    )
    over, joined = random.choice(["input", "layer"]), random.choice(["Append", "Append", "Sum"])
    made = affine_loop(offsets, lag, over=over, joined=joined, first=random.random() < 0.5)
    given = ["below"] if over == "layer" and random.random() < 0.3 else []
    return RandomNetwork(seed, made.config, _request(random, 2 * max(map(abs, offsets)) + 3, given))


def random_stack(seed: int) -> RandomNetwork:
    """One to three layers of any types, each over the one below at several offsets.

    A layer that is recurrent splices its input itself; the others want 12 columns, which a product makes.
    """
    random = Random(seed)
    lines, below = ["input name=input dim=12"], "input"
    for number in range(random.randint(1, 3)):
        layer, values = random.choice(stackable_layers())
        offsets = random.sample([-3, -2, -1, 0, 1, 2, 3], random.randint(1, 3))
        spliced = f"Append({', '.join(f'Offset({below}, {offset})' for offset in offsets)})"
        if "lstm" in layer or "gru" in layer:
            lines.append(f"{layer} name=layer{number} {values} input={spliced}")
        else:
            lines.append(f"linear-component name=splice{number} dim=12 input={spliced}")
            lines.append(f"{layer} name=layer{number} {values}")
        below = f"layer{number}"
    lines.append("output-layer name=output dim=3 param-stddev=1.0")
    config = expand_xconfig("\n".join(lines)).config()
    nnet = nnet3.Nnet.from_config(config)
    return RandomNetwork(seed, config, _request(random, max(nnet.left_context, nnet.right_context) + 4, []))


def _request(random: Random, reach: int, given: list[str]) -> nnet3.ComputationRequest:
    """A few frames of one to three sequences, with input that reaches so far; derivatives mostly."""
    ns, last, xs = range(random.randint(1, 3)), random.randint(1, 8), random.choice([[0], [0], [0, 1]])
    backward = random.random() < 0.85

    def rows(first: int, end: int, share: float = 1.0) -> list[tuple[int, int, int]]:
        every = [(n, t, x) for t in range(first, end + 1) for n in ns for x in xs]
        return [row for row in every if random.random() < share] or every

    inputs = [nnet3.IoSpecification("input", rows(-reach, last + reach), has_deriv=backward and random.random() < 0.8)]
    inputs += [nnet3.IoSpecification(name, rows(0, last, 0.5)) for name in given]
    step = random.choice([1, 1, 3])
    outputs = [nnet3.IoSpecification("output", [row for row in rows(0, last) if row[1] % step == 0], backward)]
    return nnet3.ComputationRequest(inputs, outputs, backward and random.random() < 0.8, random.random() < 0.3)
