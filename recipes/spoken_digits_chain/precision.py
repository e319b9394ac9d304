"""Words with products of eight and sixteen bits, by the trained network and its decoding graph.

make digits-chain && python -m recipes.spoken_digits_chain.precision digits-chain-out
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch

import nnet3
from recipes.spoken_digits.ctc import digit_error_rate
from recipes.spoken_digits.features import padded, read_features
from recipes.spoken_digits_chain.decoding import decode
from recipes.spoken_digits_chain.examples import FACTOR


def main(folder: Path) -> None:
    model = nnet3.load(folder / "chain" / "final.mdl")
    assert isinstance(model, nnet3.AcousticModel)
    table, graph = folder / "speech" / "test.ark", folder / "graphs" / "HCLG.fst"
    scores = _scores(model, table)
    wanted = decode(model, table, graph)
    print(f"float32: {digit_error_rate(wanted):.2%} digit error rate in {len(wanted)} strings")
    for products in (torch.bfloat16, torch.int8):
        smaller = model.quantize(products)
        heard = decode(smaller, table, graph)
        same = sum(heard[key] == digits for key, digits in wanted.items())
        expected = torch.cat(scores)
        error = float((torch.cat(_scores(smaller, table)) - expected).norm() / expected.norm())
        rate = digit_error_rate(heard)
        print(f"{products}: {rate:.2%}, the same digits in {same} strings, scores differ by {error:.1e}")


def _scores(model: nnet3.AcousticModel, table: Path) -> list[torch.Tensor]:
    return [model.compute(padded(rows, FACTOR), frame_subsampling_factor=FACTOR) for _, rows in read_features(table)]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
