"""All operations by type, and how a node of each is made."""

from __future__ import annotations

from collections.abc import Sequence

from nnet3.cn.node import Node
from nnet3.cn.nodes.activations import Copy, Exp, Log, Negate, Relu, Sigmoid, Tanh
from nnet3.cn.nodes.component import ComponentOperation
from nnet3.cn.nodes.convolution import Convolution
from nnet3.cn.nodes.cosine import Cos
from nnet3.cn.nodes.criteria import ClassificationError, CrossEntropy, CrossEntropyWithSoftmax, SquareError
from nnet3.cn.nodes.delay import Delay, DelayNode
from nnet3.cn.nodes.dropout import Dropout
from nnet3.cn.nodes.leaves import Input, Parameter, ParameterNode
from nnet3.cn.nodes.norms import L1Norm, L2Norm, SumElements
from nnet3.cn.nodes.pooling import AveragePooling, MaxPooling
from nnet3.cn.nodes.products import KhatriRaoProduct, Times
from nnet3.cn.nodes.rows import RowSlice, RowStack
from nnet3.cn.nodes.scaling import DiagTimes, Scale
from nnet3.cn.nodes.softmax import LogSoftmax, Softmax
from nnet3.cn.nodes.statistics import InvStdDev, Mean, PerDimMeanVarNorm, StatisticNode
from nnet3.cn.nodes.sums import ElementTimes, Minus, Plus
from nnet3.cn.operation import Operation

OPERATIONS: dict[str, type[Operation]] = {
    operation.type: operation
    for operation in (
        *(Input, Parameter),
        *(Negate, Sigmoid, Tanh, Relu, Log, Exp, Copy, Softmax, LogSoftmax, SumElements, L1Norm, L2Norm),
        *(Scale, Times, ElementTimes, Plus, Minus, DiagTimes, Dropout, KhatriRaoProduct, Cos),
        *(ClassificationError, SquareError, CrossEntropy, CrossEntropyWithSoftmax),
        *(Mean, InvStdDev, PerDimMeanVarNorm),
        *(Convolution, MaxPooling, AveragePooling, Delay, RowSlice, RowStack, ComponentOperation),
    )
}

_NODE_CLASSES: dict[str, type[Node]] = {
    "parameter": ParameterNode,
    "mean": StatisticNode,
    "inv_std_dev": StatisticNode,
    "delay": DelayNode,
}


def make_node(operation: Operation, operands: Sequence[Node], name: str) -> Node:
    """A node of the class that belongs to the operation."""
    return _NODE_CLASSES.get(operation.type, Node)(operation, operands, name)
