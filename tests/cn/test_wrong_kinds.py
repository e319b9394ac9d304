"""Things of the wrong kind given to the functions of `nnet3.cn`: one error of the package."""

import threading

import numpy as np
import pytest
import torch

import nnet3
from nnet3 import cn
from nnet3.errors import Nnet3Error

X = cn.input("x", 3)
BATCH = {"x": np.ones((3, 4)), "y": np.zeros((2, 4))}
WRONG = [None, 3.5, b"x", {"a": 1}, object(), np.ones((2, 2)), torch.ones(2, 2), float("nan"), lambda: 1, nnet3]


def _network() -> cn.Network:
    h = cn.sigmoid(cn.parameter("W", (2, 3)) @ X, name="h")
    return cn.Network(cn.square_error(h, cn.input("y", 2), name="J"), {"h": h})


def _of(method, *before, **named):
    return lambda wrong: getattr(_network(), method)(*before, wrong, **named)


CALLS = {
    "name": lambda wrong: cn.input(wrong, 3),
    "shape": lambda wrong: cn.parameter("p", wrong),
    "operand": lambda wrong: cn.sigmoid("x" if isinstance(wrong, np.ndarray | torch.Tensor | float) else wrong),
    "delay, dim": lambda wrong: cn.delay(None, 1, dim=wrong),
    "delay, default": lambda wrong: cn.delay(X, 1, default="0" if isinstance(wrong, float) else wrong),
    "dropout": lambda wrong: cn.dropout(wrong, X),
    "row_slice": lambda wrong: cn.row_slice(X, wrong, 1),
    "component": lambda wrong: cn.component(wrong, X),
    "lstm": lambda wrong: cn.macros.lstm(wrong, 4),
    "cells": lambda wrong: cn.macros.lstm(X, wrong),
    "name of an lstm": lambda wrong: cn.macros.lstm(X, 4, name=wrong),
    "affine": lambda wrong: cn.macros.affine(wrong, 4, name="a"),
    "dim of affine": lambda wrong: cn.macros.affine(X, wrong, name="a"),
    "dnn": lambda wrong: cn.macros.dnn(wrong, [4], 2),
    "hidden layers": lambda wrong: cn.macros.dnn(X, wrong, 2),
    "activation": lambda wrong: cn.macros.dnn(X, [4], 2, activation=3 if callable(wrong) else wrong),
    "dropout_rate": lambda wrong: cn.macros.dnn(X, [4], 2, dropout_rate=wrong),
    "cnn_block": lambda wrong: cn.macros.cnn_block(wrong, (3, 1, 1), 2, name="b"),
    "image": lambda wrong: cn.macros.cnn_block(X, wrong, 2, name="b"),
    "window": lambda wrong: cn.macros.cnn_block(X, (3, 1, 1), 2, window=wrong, name="b"),
    "cnn_block, activation": lambda wrong: cn.macros.cnn_block(X, (3, 1, 1), 2, name="b", activation=3),
    "tensor_layer, activation": lambda wrong: cn.macros.tensor_layer(X, X, 2, name="t", activation=3),
    "tensor_layer": lambda wrong: cn.macros.tensor_layer(X, wrong, 2, name="t"),
    "seed of a parameter": lambda wrong: cn.parameter("p", (3, 4), seed=-1 if wrong is None else wrong),
    "operation": lambda wrong: cn.Node(wrong, (X,)),
    "operands": lambda wrong: cn.Node(X.operation, wrong),
    "from_nnet": cn.from_nnet,
    "register": cn.register,
    "criterion": lambda wrong: cn.Network(3 if wrong is None else wrong),
    "outputs": lambda wrong: cn.Network(outputs=3 if wrong is None else wrong),
    "device": lambda wrong: cn.Network(outputs=[X], device=wrong),
    "seed": lambda wrong: cn.Network(outputs=[X], seed=wrong),
    "cache": lambda wrong: cn.Network(outputs=[X], cache=3 if wrong is None else wrong),
    "to": lambda wrong: _network().to(3 if wrong is None else wrong),
    "find": _of("find"),
    "freeze": _of("freeze"),
    "set_parameters": _of("set_parameters"),
    "evaluate": lambda wrong: _network().evaluate(wrong, BATCH),
    "inputs": _of("evaluate", "h"),
    "gradients": _of("gradients"),
    "wrt": lambda wrong: _network().gradients(BATCH, wrt=wrong),
    "sequences": lambda wrong: cn.sequences([1] if isinstance(wrong, np.ndarray | torch.Tensor) else wrong),
    "sgd_step": lambda wrong: cn.sgd_step(wrong, BATCH, 0.1),
    "learning rate": lambda wrong: cn.sgd_step(_network(), BATCH, -1 if isinstance(wrong, float) else wrong),
    "train": lambda wrong: cn.train(wrong, [BATCH]),
    "minibatches": lambda wrong: cn.train(_network(), [wrong]),
    "epochs": lambda wrong: cn.train(_network(), [BATCH], epochs=wrong),
    "save": lambda wrong: cn.save(_network(), wrong),
    "saved network": lambda wrong: cn.save(wrong, "never.cn"),
    "load": cn.load,
    "from_text": cn.from_text,
    "to_text": cn.to_text,
    "check_gradients": lambda wrong: cn.check_gradients(wrong, BATCH),
    "truncated": lambda wrong: list(cn.truncated(_network(), {"x": wrong}, 3)),
    "AsynchronousEvaluator": cn.AsynchronousEvaluator,
}


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: type(wrong).__name__)
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_wrong_kind_is_an_error_of_the_package(call, wrong):
    if call in (CALLS["wrt"],) and isinstance(wrong, dict):
        wrong = {3: 1}
    if call is CALLS["device"] and wrong is None:
        return  # that of the nodes
    with pytest.raises(Nnet3Error):
        call(wrong)


NOT_NUMBERS = {
    "complex": np.ones((3, 4), complex),
    "complex tensor": torch.ones(3, 4, dtype=torch.complex64),
    "without data": torch.ones(3, 4, device="meta"),
    "masked": np.ma.masked_array(np.ones((3, 4)), mask=np.eye(3, 4)),
    "objects": np.full((3, 4), None),
    "ragged": [[1.0], [1.0, 2.0]],
}


@pytest.mark.parametrize("wrong", NOT_NUMBERS.values(), ids=NOT_NUMBERS)
def test_matrices_hold_real_numbers(wrong):
    for call in (
        lambda: _network().evaluate("h", {"x": wrong}),
        lambda: cn.sequences([wrong]),
        lambda: cn.parameter("p", (3, 4), wrong),
        lambda: cn.constant(wrong),
    ):
        with pytest.raises(Nnet3Error):
            call()


def test_any_floats_are_taken():
    expected = _network().evaluate("h", BATCH)
    for dtype in (torch.bfloat16, torch.float16, torch.float64, torch.int8, torch.bool):
        np.testing.assert_array_equal(_network().evaluate("h", {"x": torch.ones(3, 4).to(dtype)}), expected)


def test_a_gradient_that_nobody_records_is_warned_of():
    with pytest.warns(UserWarning, match="input 'x': this tensor requires grad"):
        _network().evaluate("h", {"x": torch.ones(3, 4, requires_grad=True)})
    network = _network()
    network.find("W").memory.requires_grad_()
    with pytest.warns(UserWarning, match="the memory of 'W': this tensor requires grad"):
        network.evaluate("h", BATCH)
    cn.parameter("p", (3, 4), torch.ones(3, 4, requires_grad=True))  # copied


def test_two_outputs_of_one_name_are_not_made_one():
    with pytest.raises(Nnet3Error, match="two nodes are called 'a'"):
        cn.Network(outputs=[cn.sigmoid(X, name="a"), cn.tanh(X, name="a")])


def test_files_that_cannot_be_read_or_written(tmp_path):
    for path in (tmp_path, tmp_path / "missing.cn"):
        with pytest.raises(Nnet3Error):
            cn.load(path)
    for path in (tmp_path, tmp_path / "missing" / "net.cn"):
        with pytest.raises(Nnet3Error, match="cannot write"):
            cn.save(_network(), path)
    assert not list(tmp_path.iterdir())


def test_threads_take_turns():
    network, wrong = _network(), []
    batches = [{"x": np.full((3, 4), value), "y": np.zeros((2, 4))} for value in (-1.0, 0.5)]
    values = [network.evaluate("h", batch) for batch in batches]
    gradients = [network.gradients(batch)["W"] for batch in batches]

    def work() -> None:
        for _ in range(60):
            for number, batch in enumerate(batches):
                right = np.array_equal(network.evaluate("h", batch), values[number])
                if not right or not np.array_equal(network.gradients(batch)["W"], gradients[number]):
                    wrong.append(number)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_matrix_that_no_memory_holds():
    with pytest.raises(Nnet3Error, match="are too many"):
        cn.parameter("W", (10**9, 10**9))


def test_an_empty_cache_is_used():
    cache = nnet3.ComputationCache()
    h = cn.sigmoid(cn.parameter("W", (2, 3)) @ X, name="h")
    cn.Network(outputs=[h], cache=cache).evaluate("h", {"x": np.ones((3, 4))})
    assert len(cache) == 1
