"""A matrix used in products alone, which need not exist as a tensor."""

from __future__ import annotations

import torch
from torch import Tensor

from nnet3.model.components.large_products import add_product, product_and_squares
from nnet3.model.components.time_blocks import TimeBlocks


class RowMatrix:
    """The matrix X (rows, columns) that a tensor holds."""

    def __init__(self, x: Tensor):
        self.x = x
        self.shape: tuple[int, int] = (x.shape[0], x.shape[1])
        self.dtype, self.device = x.dtype, x.device

    def dense(self) -> Tensor:
        return self.x

    def times(self, w: Tensor) -> tuple[Tensor, Tensor]:
        """Returns X W, (rows, columns of W), and tr(X X^T), a float64 scalar; X is read from memory once for both."""
        return product_and_squares(self.x, w)

    def transposed_times(self, h: Tensor) -> Tensor:
        """Returns X^T H, (columns, columns of H)."""
        result = self.x.new_empty(self.shape[1], h.shape[1])
        add_product(result, self.x.t(), h)
        return result

    def add_product(self, target: Tensor, g: Tensor, alpha: float) -> None:
        """target += alpha G^T X, with G (rows, rows of the target)."""
        add_product(target, g.t(), self.x, target, alpha)

    def sum_of_squares(self) -> Tensor:
        """Returns tr(X X^T), a float64 scalar."""
        norms = torch.linalg.vector_norm(self.x, dim=1).double()
        return torch.dot(norms, norms)


class SplicedMatrix(RowMatrix):
    """Row t holds the rows t + o of a tensor for all time offsets o, side by side; zeros for missing rows."""

    def __init__(self, x: Tensor, blocks: TimeBlocks, num_offsets: int, num_rows: int):
        super().__init__(x)
        self.blocks = blocks
        self.shape = (num_rows, num_offsets * x.shape[1])

    def _part(self, offset: int) -> slice:
        return slice(offset * self.x.shape[1], (offset + 1) * self.x.shape[1])

    def dense(self) -> Tensor:
        result = self.x.new_zeros(self.shape)
        for block in self.blocks.blocks:
            block.of_output(result)[:, self._part(block.offset)] = block.of_input(self.x)
        return result

    def times(self, w: Tensor) -> tuple[Tensor, Tensor]:
        result, squares = self.x.new_zeros(self.shape[0], w.shape[1]), []
        for block in self.blocks.blocks:
            product, some = product_and_squares(block.of_input(self.x), w[self._part(block.offset)])
            block.of_output(result).add_(product)
            squares.append(some)
        return result, torch.stack(squares).sum()

    def transposed_times(self, h: Tensor) -> Tensor:
        result = self.x.new_zeros(self.shape[1], h.shape[1])
        for block in self.blocks.blocks:
            add_product(result[self._part(block.offset)], block.of_input(self.x).t(), block.of_output(h))
        return result

    def add_product(self, target: Tensor, g: Tensor, alpha: float) -> None:
        for block in self.blocks.blocks:
            part = target[:, self._part(block.offset)]
            add_product(part, block.of_output(g).t(), block.of_input(self.x), part, alpha)

    def sum_of_squares(self) -> Tensor:
        of_row = torch.linalg.vector_norm(self.x, dim=1, keepdim=True).double().square_()
        return torch.stack([block.of_input(of_row).sum() for block in self.blocks.blocks]).sum()
