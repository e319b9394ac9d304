"""A small task of sequence training: three phones of two pdfs each, a denominator graph, chunks, a network."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from nnet3.base.kaldi_io.fst_file import save_fst
from nnet3.chain import CHAIN_EXAMPLES, ChainExample, ChainTarget, Fst, Supervision
from nnet3.examples import NnetIo, example_writer

PHONES, FRAMES, FACTOR = 3, 6, 3  # output frames of a chunk, input frames of one of output
CONFIG = """
input-node name=input dim=4
component name=affine1 type=NaturalGradientAffineComponent input-dim=12 output-dim=8 orthonormal-constraint=-1
component name=relu type=RectifiedLinearComponent dim=8 self-repair-scale=0.05
component name=norm type=BatchNormComponent dim=8
component name=dropout type=DropoutComponent dim=8 dropout-proportion=0.1
component name=affine2 type=NaturalGradientAffineComponent input-dim=8 output-dim=6 l2-regularize=0.001
component name=norm-xent type=BatchNormComponent dim=8
component name=affine-xent type=NaturalGradientAffineComponent input-dim=8 output-dim=6
component name=softmax-xent type=LogSoftmaxComponent dim=6
component-node name=affine1 component=affine1 input=Append(Offset(input, -1), input, Offset(input, 1))
component-node name=relu component=relu input=affine1
component-node name=norm component=norm input=relu
component-node name=dropout component=dropout input=norm
component-node name=affine2 component=affine2 input=dropout
component-node name=norm-xent component=norm-xent input=dropout
component-node name=affine-xent component=affine-xent input=norm-xent
component-node name=softmax-xent component=softmax-xent input=affine-xent
output-node name=output input=affine2
output-node name=output-xent input=softmax-xent
"""
OBJECTIVE = """
[objective]
kind = "chain"
den-fst = "{folder}/den.fst"
l2-regularize = 0.001
"""


def write_chain_task(folder: Path) -> None:
    """`chain.config`, `den.fst`, `train.cegs` and `valid.cegs`; `OBJECTIVE` is what a settings file says about them."""
    (folder / "chain.config").write_text(CONFIG)
    write_denominator(folder / "den.fst")
    write_chunks(folder / "train.cegs", 70, 1)
    write_chunks(folder / "valid.cegs", 20, 2)


def write_denominator(path: Path) -> None:
    """Any phone may follow any other one, and goes on with probability 1/2."""
    phones = range(PHONES)
    arcs = [(0, 1 + p, 2 * p + 1, 1 / PHONES) for p in phones]
    arcs += [(1 + p, 1 + p, 2 * p + 2, 0.5) for p in phones]
    arcs += [(1 + p, 1 + q, 2 * q + 1, 0.5 / (PHONES - 1)) for p in phones for q in phones if q != p]
    src, dst, label, probability = (np.array(column) for column in zip(*arcs, strict=True))
    fst = Fst.from_arcs(0, np.zeros(1 + PHONES), src, dst, label, -np.log(probability))
    save_fst(fst, str(path))


def write_chunks(path: Path, count: int, seed: int) -> None:
    """Chunks whose phones begin a frame early or late as their supervision allows."""
    rng = np.random.default_rng(seed)
    with example_writer(f"ark:{path}", CHAIN_EXAMPLES) as writer:
        for number in range(count):
            phones = [int(rng.integers(PHONES))]
            phones.append(int((phones[0] + rng.integers(1, PHONES)) % PHONES))
            change = int(rng.integers(2, FRAMES - 1))
            spoken = np.repeat(phones, [FACTOR * change + 2, FACTOR * (FRAMES - change) + 2])
            features = rng.standard_normal((len(spoken), 4)).astype(np.float32)
            features[:, :PHONES] += 2 * np.eye(PHONES, dtype=np.float32)[spoken]
            times = np.arange(-2, len(spoken) - 2)
            rows = np.stack([0 * times, times, 0 * times], axis=1).astype(np.int32)
            writer.write(
                f"chunk-{number}", ChainExample((NnetIo("input", rows, features),), (_target(phones, change),))
            )


def _target(phones: list[int], change: int) -> ChainTarget:
    """The second phone begins at output frame change - 1, change or change + 1, but not before 1 or at the end."""
    first, last = max(1, change - 1), min(FRAMES - 1, change + 1)
    nodes = [(t, k) for t in range(FRAMES + 1) for k in (0, 1) if (t > first if k else t <= last)]
    arcs = [((t, k), (t + 1, k), 2 * phones[k] + (1 if t == 0 else 2)) for t, k in nodes]
    arcs += [((t, 0), (t + 1, 1), 2 * phones[1] + 1) for t in range(first, last + 1)]
    state = {node: number for number, node in enumerate(nodes)}
    within = [(state[a], state[b], label) for a, b, label in arcs if b in state]
    src, dst, label = (np.array(column) for column in zip(*within, strict=True))
    final = np.where(np.arange(len(nodes)) == state[FRAMES, 1], 0.0, np.inf)
    fst = Fst.from_arcs(0, final, src, dst, label, np.zeros(len(src)))
    times = FACTOR * np.arange(FRAMES)
    rows = np.stack([0 * times, times, 0 * times], axis=1).astype(np.int32)
    return ChainTarget("output", rows, Supervision(1.0, 1, FRAMES, 2 * PHONES, (fst,)))
