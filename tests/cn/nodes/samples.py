"""A node of each type with a kernel, and what its gradients need."""

from __future__ import annotations

from typing import Any

from nnet3 import cn
from nnet3.cn.node import Node

x, y, one = cn.input("x", 4), cn.input("y", 4), cn.input("one", 1)
W, V, b, c = (cn.parameter(n, s) for n, s in (("W", (3, 4)), ("V", (4, 5)), ("b", (4, 1)), ("c", (1, 1))))
K, k = cn.parameter("K", (2, 1)), cn.parameter("k", (2, 1))
N, m = cn.parameter("N", (1, 2)), cn.parameter("m", (2, 1))
IMAGE: dict[str, Any] = {"image": (2, 2, 1), "window": 1}

#: For each node the numbers of operands with a promise; "o" is the node's own value. In this order: which values the
#: gradient of each operand needs, over which operand the value may be written, which gradient over that of the node.
NODES: list[tuple[Node, list[str], str, str]] = [
    (cn.negate(x), [""], "0", "0"),
    (cn.sigmoid(x), ["o"], "0", "0"),
    (cn.tanh(x), ["o"], "0", "0"),
    (cn.relu(x), ["o"], "0", "0"),
    (cn.log(x), ["0"], "", "0"),
    (cn.exp(x), ["o"], "0", "0"),
    (cn.copy(x), [""], "0", "0"),
    (cn.softmax(x), ["o"], "0", "0"),
    (cn.log_softmax(x), ["o"], "0", "0"),
    (cn.sum_elements(x), [""], "", ""),
    (cn.l1_norm(x), ["0"], "", ""),
    (cn.l2_norm(x), ["0o"], "", ""),
    (cn.squared_norm(x), ["0"], "", ""),
    (cn.scale(c, x), ["1", "0"], "", ""),
    (cn.times(W, x), ["1", "0"], "", ""),
    (cn.times(W, V), ["1", "0"], "", ""),
    (cn.element_times(x, y), ["1", "0"], "", "1"),
    (cn.plus(x, y), ["", ""], "01", "1"),
    (cn.plus(x, b), ["", ""], "0", ""),
    (cn.plus(one, x), ["", ""], "1", "1"),
    (cn.minus(x, y), ["", ""], "01", "1"),
    (cn.diag_times(b, x), ["1", "0"], "", ""),
    (cn.dropout(0.5, x), [""], "0", "0"),
    (cn.khatri_rao_product(x, y), ["1", "0"], "", ""),
    (cn.cos(x, y), ["01o", "01o"], "", ""),
    (cn.classification_error(x, y), ["", ""], "", ""),
    (cn.square_error(x, y), ["01", "01"], "", ""),
    (cn.cross_entropy(x, y), ["01", "01"], "", ""),
    (cn.cross_entropy_with_softmax(x, y), ["0", "0"], "", ""),
    (cn.cross_entropy_with_softmax(one, x), ["", ""], "", ""),
    (cn.cross_entropy_with_softmax(one, x, weights=b), ["", "2", ""], "", ""),
    (cn.per_dim_mean_var_norm(x, cn.mean(x), cn.inv_std_dev(x)), ["", "", ""], "0", ""),
    (cn.convolution(K, x, k, **IMAGE), ["1", "0", ""], "", ""),
    (cn.transposed_convolution(N, x, m, **IMAGE), ["1", "0", ""], "", ""),
    (cn.max_pooling(x, **IMAGE), [""], "", ""),
    (cn.average_pooling(x, **IMAGE), [""], "", ""),
    (cn.abs(x), ["0"], "", "0"),
    (cn.sqrt(x), ["o"], "", "0"),
    (cn.power(x, 2.0), ["0"], "", "0"),
    (cn.clip(x, 0.0, 1.0), ["0"], "", "0"),
    *[(make(x, y), ["01", "01"], "", "") for make in (cn.divide, cn.minimum, cn.maximum)],
    *[(make(x, y), ["", ""], "", "") for make in (cn.less, cn.less_equal, cn.greater, cn.greater_equal, cn.equal)],
    (cn.where(y, x, x), ["", "0", "0"], "", ""),
    (cn.sum_rows(x), [""], "", ""),
    (cn.max_rows(x), ["0o"], "", ""),
    (cn.row_step(x, 0, 2, 2), [""], "", ""),
    (cn.transpose(W), [""], "", ""),
    (cn.layer_norm(x), ["0o"], "", "0"),
    (cn.row_slice(V, 1, 2), [""], "", ""),
    (cn.row_stack(V, V), ["", ""], "", ""),
]
