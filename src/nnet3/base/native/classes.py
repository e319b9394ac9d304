"""What class indexes choose by native code, classes.c: sums of rows of a table, and the cross-entropy of classes.

Functions return what they compute, or True. Where native code does not take the matrices (see cells.py) they do nothing
and return None or False, as they do for wrong class indexes. Formulas stand in classes.c.
"""

from __future__ import annotations

from torch import Tensor

from nnet3.base.native.cells import are_native, place_of
from nnet3.base.native.library import library


def are_classes(numbers: Tensor, classes: int) -> bool:
    """Returns true for contiguous float32 numbers that are all integers from -1 to classes - 1; see above."""
    functions = library() if are_native(numbers) and numbers.is_contiguous() else None
    return functions is not None and bool(functions.nnet3_are_classes(numbers.numel(), numbers.data_ptr(), classes))


def sum_chosen(
    table: Tensor, indexes: Tensor, groups: Tensor, sizes: Tensor, is_mean: bool
) -> tuple[Tensor, int] | None:
    """Returns the sums or means of the rows of each group that indexes choose of a table, and the number of the rows.

    Sums are (groups, columns). `indexes`, n of any shape, below 0 for no row, and the group of each, `groups` (n,),
    are int64, as are the groups' `sizes`, by which sums are divided for means. None also for an index of no row of the
    table.
    """
    functions = library() if are_native(table) and indexes.is_contiguous() else None
    if functions is None:
        return None
    assert indexes.numel() == len(groups)
    sums = table.new_empty(len(sizes), table.shape[1])
    numbers = indexes.data_ptr(), groups.data_ptr(), sizes.data_ptr() if is_mean else 0
    matrices = *place_of(sums), *place_of(table), table.shape[0]
    num_chosen = functions.nnet3_sum_chosen(len(groups), *sums.shape, *numbers, *matrices)
    return None if num_chosen < 0 else (sums, num_chosen)


def sum_chosen_backward(sums_deriv: Tensor, groups: Tensor, sizes: Tensor, is_mean: bool) -> Tensor:
    """Returns the derivatives of the chosen rows, (n, columns), from those of what `sum_chosen` returned."""
    functions = library()
    assert functions is not None
    derivs = sums_deriv.new_empty(len(groups), sums_deriv.shape[1])
    numbers = groups.data_ptr(), sizes.data_ptr() if is_mean else 0
    functions.nnet3_sum_chosen_backward(*derivs.shape, *numbers, *place_of(sums_deriv), derivs.data_ptr())
    return derivs


def class_cross_entropy(value: Tensor, scores: Tensor, classes: Tensor) -> Tensor | None:
    """Sets value (1, 1) to the sum of -log p of the class of each row; returns p, the softmax of the scores.

    `classes` (rows, 1) are integers, below 0 for no class. None also for a class without a score.
    """
    functions = library() if are_native(scores, classes, value) else None
    if functions is None:
        return None
    posteriors = scores.new_empty(scores.shape)
    matrices = *place_of(scores), *place_of(classes), value.data_ptr()
    found = functions.nnet3_class_cross_entropy(*scores.shape, posteriors.data_ptr(), *matrices)
    return posteriors if found == scores.shape[0] else None


def class_cross_entropy_backward(
    scores_deriv: Tensor, posteriors: Tensor, classes: Tensor, value_deriv: Tensor, accumulate: bool
) -> None:
    """Writes the derivative of the scores, from what `class_cross_entropy` returned, or adds it.

    Columns of `scores_deriv` lie side by side.
    """
    functions = library()
    assert functions is not None
    matrices = *place_of(scores_deriv), posteriors.data_ptr(), *place_of(classes), value_deriv.data_ptr()
    functions.nnet3_class_cross_entropy_backward(*posteriors.shape, *matrices, int(accumulate))
