"""A state machine of `cn.Network`: whatever was done before, all numbers are those of a network made anew.

`STATE_MACHINE_RUNS` says how many sequences of steps are tried; by default a few dozen, `make soak` tries more.
"""

from __future__ import annotations

import copy
import os
import tempfile
from fnmatch import fnmatch
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from nnet3 import cn
from nnet3.cn.node import Node, StoredNode
from nnet3.cn.nodes.component import ComponentOperation
from nnet3.cn.nodes.leaves import ParameterNode
from nnet3.cn.nodes.statistics import StatisticNode
from nnet3.cn.operation_types import make_node
from tests.cn.reference import columns
from tests.effort import draws

RUNS = int(os.environ.get("STATE_MACHINE_RUNS", draws(5)))
SAMPLES = 6
WORDS = 5
LAYOUTS = (None, (6,), (1,) * 6, None, (6,), (4, 2), (2, 4), (2, 2, 2))  # the first three have the same rows
TENSORS = ("E", "S", "Lx", "Lb", "W", "b", "V", "R", "c.linear_params", "c.bias_params", "t.linear_params")
AFFINE = "NaturalGradientAffineComponent input-dim=2 output-dim=2 param-stddev=1"
TDNN = "TdnnComponent input-dim=2 output-dim=2 time-offsets=-1,0 use-bias=false"

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*is a matrix, whose columns:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*has no statistics:RuntimeWarning"),
]


def build() -> dict[str, Node]:
    """Nodes of each sort: statistics, a loop, components with context and modes, dropout, products of parameters, and
    look-ups of words, sums of bags, an LSTM as one node and attention to it from an axis of other lengths.
    """
    x, u, y, k = cn.input("x", 2), cn.input("u", 2), cn.input("y", 2), cn.input("k", (2, 2))
    W, V, R = (cn.parameter(name, (2, 2)) for name in "WVR")
    n = cn.per_dim_mean_var_norm(x, cn.mean(x, name="m"), cn.inv_std_dev(x, name="s"), name="n")
    a = cn.tanh(W @ n + cn.parameter("b", (2, 1)), name="a")
    g = cn.sigmoid(V @ (k @ u), name="g")
    o = cn.element_times(a, g, name="o")
    d = cn.delay(None, dim=2, name="d")
    h = d.connect(cn.tanh(o + R @ d, name="h"))
    c = cn.component(AFFINE, h, name="c")
    norm = cn.component("BatchNormComponent dim=2", c, name="norm")
    drop = cn.component("DropoutComponent dim=2 dropout-proportion=0.3", norm, name="drop")
    t = cn.dropout(0.3, cn.component(TDNN, o, name="t"), name="dropped")
    J = cn.square_error(drop + t, y, name="J")
    K = cn.squared_norm(cn.tanh(W @ V), name="K")
    Q = cn.sum_elements(cn.dropout(0.2, cn.tanh(o))) + 0.5 * K
    Q.name = "Q"
    p = cn.sequence.mean(c, name="p")  # of whole sequences, between programs
    r = cn.broadcast_as(cn.tanh(V @ p), o, name="r")
    Z = cn.squared_norm(cn.element_times(r, cn.dropout(0.3, h)), name="Z")
    E, word = cn.parameter("E", (2, WORDS)), cn.input("word", classes=WORDS)
    e = cn.embedding(E, word, name="e")
    S = cn.parameter("S", (2, WORDS))
    s = cn.plus(cn.tanh(S @ cn.input("bag", WORDS, sparse=True), name="bags"), e, name="s")
    weights = (cn.parameter("Lx", (8, 2)), cn.parameter("Lh", (8, 2)), cn.parameter("Lb", (8, 1)))
    q = cn.lstm_layer(s, *weights, name="q")
    f = cn.attention(V @ cn.input("z", 2, axis="answer"), q, q, name="f")
    T = cn.plus(cn.squared_norm(cn.dropout(0.2, f)), cn.sum_elements(cn.tanh(R @ e)), name="T")
    return {node.name: node for node in (W, V, R, n, a, g, o, h, c, norm, drop, t, J, K, Q, p, r, Z, e, s, q, f, T)}


def network_of(kind: str, nodes: dict[str, Node], dtype: torch.dtype | None = None) -> cn.Network:
    if kind == "whole":
        outputs = {name: nodes[name] for name in ("h", "norm")}
        return cn.Network({nodes["J"]: 1.0, nodes["K"]: 0.1}, outputs, dtype=dtype)
    if kind == "part":
        return cn.Network(outputs=[nodes["a"], nodes["g"]], dtype=dtype)
    if kind == "stages":
        return cn.Network({nodes["Z"]: 1.0, nodes["K"]: 0.1}, {"p": nodes["p"]}, dtype=dtype)
    if kind == "words":
        return cn.Network({nodes["T"]: 1.0}, {"f": nodes["f"], "q": nodes["q"]}, dtype=dtype)
    return cn.Network(nodes["Q"], {"o": nodes["o"]}, dtype=dtype)


KINDS = {
    "whole": {"J", "K", "h", "norm"},
    "part": {"a", "g"},
    "other": {"Q", "o"},
    "stages": {"Z", "K", "p"},
    "words": {"T", "f", "q"},
}
PICKS = st.lists(st.integers(0, 15), min_size=1, max_size=3)
ROOTS = {
    "whole": ("n", "a", "g", "o", "d", "h", "c", "norm", "drop", "t", "dropped", "J", "K", "W", "x", "k"),
    "part": ("a", "g", "n", "V", "u"),
    "stages": ("p", "r", "Z", "h", "K", "V", "x", "c", "o"),
    "words": ("e", "bags", "s", "q", "f", "T", "V", "bag", "word", "z"),
    "other": ("Q", "K", "o", "g", "plus1"),
}


class Described:
    """A network under test, the kind of it, and evaluators that it was given at some time."""

    def __init__(self, kind: str, network: cn.Network):
        self.kind, self.network = kind, network
        self.evaluators: list[cn.AsynchronousEvaluator] = []

    def anew(self) -> cn.Network:
        """A network of new nodes with the same numbers, that has computed nothing yet."""
        ours, nodes = self.network, build()
        fresh = network_of(self.kind, nodes, torch.float64)
        for node, name in fresh.names.items():
            source = ours.find(name)
            if isinstance(node, StoredNode):
                node.memory = source.memory.detach().clone()
            if isinstance(node, ParameterNode):
                node.trainable = source.trainable
            if isinstance(node, StatisticNode):
                node.is_computed = source.is_computed
            if isinstance(node.operation, ComponentOperation):
                component = copy.deepcopy(source.operation.component)
                node.operation = ComponentOperation(component, source.operation.trainable)
        return fresh.train(ours.training)

    def numbers(self) -> dict[str, np.ndarray]:
        """Everything that training changes, read from the nodes."""
        found = {}
        for node, name in self.network.names.items():
            if isinstance(node, StoredNode):
                found[name] = node.memory.detach().numpy().copy()
            found |= _of_component(node, name)
        return found


def _of_component(node: Node, name: str) -> dict[str, np.ndarray]:
    if not isinstance(node.operation, ComponentOperation):
        return {}
    component = node.operation.component
    found = {f"{name}.{n}": tensor.detach().numpy().copy() for n, tensor in component.parameters().items()}
    if component.has_running_statistics:
        found[f"{name}.sum"], found[f"{name}.count"] = component.stats_sum.numpy().copy(), np.array(component.count)
    return found


def assert_equal(found, expected, dtype: torch.dtype, what: str = "") -> None:
    rtol, atol = (1e-9, 1e-11) if dtype == torch.float64 else (2e-3, 2e-4)
    np.testing.assert_allclose(columns(found), columns(expected), rtol=rtol, atol=atol, err_msg=what)


_as_given = dict.fromkeys("xuykz", np.asarray) | {
    "word": lambda array: (3 * array[0]).round().astype(int) % WORDS,
    "bag": lambda array: torch.as_tensor(np.where(array > 0.5, array, 0.0)).to_sparse(),
}


class Machine(RuleBasedStateMachine):
    """Legal steps in any order, on one to three networks that share nodes or not."""

    def __init__(self) -> None:
        super().__init__()
        self.rng = np.random.default_rng(0)
        self.networks: list[Described] = []
        self.layout: tuple[int, ...] | None = None
        self.arrays: dict[str, np.ndarray] = {}
        self.watched: list[int] = []
        self.watches_gradients = False

    # ---- helpers ----

    def inputs(self, described: Described) -> dict[str, object]:
        """As the network needs them, cut as the layout is."""
        found: dict[str, object] = {}
        for node in described.network.inputs:
            array, lengths = self.arrays[node.name], self.layout
            if lengths is not None and node.shape.has_samples:
                lengths = lengths[::-1] if node.shape.axis else lengths
                parts = [*map(_as_given[node.name], np.split(array, np.cumsum(lengths)[:-1], axis=1))]
                found[node.name] = cn.sequences(parts)
            else:
                found[node.name] = _as_given[node.name](array)
        return found

    def one(self, number: int) -> Described:
        return self.networks[number % len(self.networks)]

    def trained(self, number: int) -> Described:
        with_criterion = [each for each in self.networks if each.network.criteria]
        return with_criterion[number % len(with_criterion)]

    def has_criterion(self) -> bool:
        return any(each.network.criteria for each in self.networks)

    # ---- beginning ----

    @initialize(
        seed=st.integers(0, 10**6),
        kind=st.sampled_from(("whole", "whole", "part", "other", "stages", "words", "words")),
        double=st.booleans(),
        watched=PICKS,
        gradients=st.booleans(),
    )
    def begin(self, seed: int, kind: str, double: bool, watched: list[int], gradients: bool) -> None:
        self.watched, self.watches_gradients = watched, gradients
        self.rng = np.random.default_rng(seed)
        rows = dict.fromkeys("xuyz", 2) | {"word": 1, "bag": WORDS}
        self.arrays = {name: self.rng.normal(size=(count, SAMPLES)) for name, count in rows.items()}
        self.arrays["k"] = self.rng.normal(size=(2, 2))
        network = network_of(kind, build(), torch.float64 if double else None)
        self.networks = [Described(kind, network)]
        network.compute_statistics([self.inputs(self.networks[0])])

    # ---- what is observed ----

    @invariant()
    def what_is_watched_is_as_anew(self) -> None:
        """Of each network the same few values in each state of a run, so that other values are known or not."""
        for each in self.networks:
            fresh, inputs = each.anew(), self.inputs(each)
            names = [ROOTS[each.kind][pick % len(ROOTS[each.kind])] for pick in self.watched]
            self.check_values(each, fresh, names)
            if self.watches_gradients and each.network.criteria:
                self.check_gradients(each, fresh, None, [])
            expected = fresh.evaluate(names, inputs)
            for evaluator in each.evaluators:
                if each.kind == "other":  # those of components are computed on one device
                    value, gradients = evaluator.criterion_and_gradients(inputs, training=False)
                    assert_equal(value, fresh.criterion(inputs), each.network.dtype)
                    for name, gradient in fresh.gradients(inputs, training=False).items():
                        assert_equal(gradients[name], gradient, each.network.dtype, name)
                for name, value, wanted in zip(names, evaluator.evaluate(names, inputs), expected, strict=True):
                    assert_equal(value, wanted, each.network.dtype, name)

    def check_values(self, each: Described, fresh: cn.Network, names: list[str]) -> None:
        inputs = self.inputs(each)
        found, expected = each.network.evaluate(names, inputs), fresh.evaluate(names, inputs)
        for name, value, wanted in zip(names, found, expected, strict=True):
            assert_equal(value, wanted, each.network.dtype, name)

    def check_gradients(self, each: Described, fresh: cn.Network, training: bool | None, wrt: list[str]) -> None:
        inputs, found = self.inputs(each), []
        for network in (each.network, fresh):
            network.seed_random(7)
            found.append(network.criterion_and_gradients(inputs, training=training, wrt=wrt))
        (value, gradients), (wanted, expected) = found
        assert_equal(value, wanted, each.network.dtype, "criterion")
        assert set(gradients) == set(expected)
        for name, gradient in expected.items():
            assert_equal(gradients[name], gradient, each.network.dtype, name)

    @rule(number=st.integers(0, 2), picks=PICKS)
    def values(self, number: int, picks: list[int]) -> None:
        each = self.one(number)
        names = [ROOTS[each.kind][pick % len(ROOTS[each.kind])] for pick in picks]
        self.check_values(each, each.anew(), names)
        each.network.evaluate(names, self.inputs(each))
        assert each.network.computed == ()

    @precondition(has_criterion)
    @rule(number=st.integers(0, 2), training=st.booleans())
    def criterion(self, number: int, training: bool) -> None:
        each, fresh = self.trained(number), self.trained(number).anew()
        found = []
        for network in (each.network, fresh):
            network.seed_random(8)
            found.append(network.criterion(self.inputs(each), training=training))
        assert_equal(*found, each.network.dtype)

    @precondition(has_criterion)
    @rule(
        number=st.integers(0, 2),
        training=st.sampled_from((None, True, False)),
        wrt=st.lists(
            st.sampled_from(("g", "o", "h", "plus1", "K", "V", "e", "q", "f", "z", "E")), max_size=2, unique=True
        ),
    )
    def gradients(self, number: int, training: bool | None, wrt: list[str]) -> None:
        each = self.trained(number)
        names = [name for name in wrt if name in each.network.names.values()]
        self.check_gradients(each, each.anew(), training, names)

    @rule(number=st.integers(0, 2), copies=st.booleans())
    def add_evaluator(self, number: int, copies: bool) -> None:
        """One that will be used in later states."""
        each = self.one(number)
        if len(each.evaluators) < 2 and each.kind not in ("stages", "words"):
            devices = ["cpu:0", "cpu:0"] if copies else None
            each.evaluators.append(cn.AsynchronousEvaluator(each.network, 2, devices=devices))

    # ---- inputs ----

    @rule(name=st.sampled_from(("word", "bag", *"xuykz")), in_place=st.booleans())
    def change_input(self, name: str, in_place: bool) -> None:
        if in_place:
            self.arrays[name][0, 0] += 1.0
        else:
            self.arrays[name] = self.rng.normal(size=self.arrays[name].shape)

    @rule(layout=st.sampled_from(LAYOUTS))
    def regroup(self, layout: tuple[int, ...] | None) -> None:
        self.layout = layout

    @rule()
    def permute(self) -> None:
        order = self.rng.permutation(SAMPLES)
        for name in set(self.arrays) - {"k"}:
            self.arrays[name] = self.arrays[name][:, order]

    # ---- parameters ----

    @rule(number=st.integers(0, 2), name=st.sampled_from(TENSORS))
    def set_parameters(self, number: int, name: str) -> None:
        network = self.one(number).network
        if name in network.parameters():
            network.set_parameters({name: self.rng.normal(size=network.parameters()[name].shape)})

    @rule(
        number=st.integers(0, 2),
        how=st.sampled_from(("data", "other data", "vector", "numpy", "memory", "value", "component", "strides")),
    )
    def write(self, number: int, how: str) -> None:
        """Write parameters in ways that PyTorch does not count, or in other memory."""
        network = self.one(number).network
        tensors = list(network.tensors().values())
        if how == "memory":
            W = network.find("W") if "W" in network.parameters() else network.find("V")
            W.memory = torch.as_tensor(self.rng.normal(size=(2, 2))).to(W.memory.dtype)
        elif how == "value":
            network.find("V").value = self.rng.normal(size=(2, 2))
        elif how == "component":
            for node in network.nodes:
                if node.name == "c":
                    node.operation.component = copy.deepcopy(node.operation.component)
                    node.operation.component.bias_params.data.add_(1)
        elif tensors and how == "vector":
            vector_to_parameters(parameters_to_vector(tensors).detach() * 0.9, tensors)
        elif tensors:
            tensor = tensors[int(self.rng.integers(len(tensors)))]
            if how == "data":
                tensor.data.mul_(0.5)
            elif how == "other data":
                tensor.data = tensor.data * 0.7
            elif how == "numpy":
                tensor.numpy()[...] += 0.25
            elif tensor.ndim == 2:
                tensor.data = torch.stack([tensor.data, tensor.data], 2)[..., 0] * 0.8

    @rule(
        number=st.integers(0, 2),
        name=st.sampled_from(("W", "b", "V", "R", "c", "t", "E", "S", "L*")),
        freeze=st.booleans(),
    )
    def freeze(self, number: int, name: str, freeze: bool) -> None:
        network = self.one(number).network
        if any(fnmatch(each, name) for each in network.names.values()):
            network.freeze(name) if freeze else network.unfreeze(name)

    @precondition(has_criterion)
    @rule(
        number=st.integers(0, 2),
        how=st.sampled_from(("step", "train", "SGD", "Adam", "fused", "foreach")),
        seed=st.integers(0, 99),
    )
    def train(self, number: int, how: str, seed: int) -> None:
        """A step, which has the outcome that it has for the network made anew."""
        each = self.trained(number)
        if not each.network.tensors():
            return
        if each.kind == "words" and how in ("Adam", "fused", "foreach"):
            return  # which take no sparse gradients
        fresh = Described(each.kind, each.anew())
        inputs = self.inputs(each)
        for network in (each.network, fresh.network):
            network.seed_random(seed)
            tensors = list(network.tensors().values())
            if how == "step":
                cn.sgd_step(network, inputs, 0.05)
            elif how == "train":
                cn.train(network, [inputs], learning_rate=0.05, epochs=2)
            else:
                made = {
                    "SGD": lambda tensors: torch.optim.SGD(tensors, lr=0.05, momentum=0.5),
                    "Adam": lambda tensors: torch.optim.Adam(tensors, lr=0.02, eps=1e-2),
                    "fused": lambda tensors: torch.optim.Adam(tensors, lr=0.02, eps=1e-2, fused=True),
                    "foreach": lambda tensors: torch.optim.SGD(tensors, lr=0.05, foreach=True),
                }[how](tensors)
                for _ in range(2):
                    made.zero_grad()
                    network.backward(inputs)
                    made.step()
        expected = fresh.numbers()
        for name, array in each.numbers().items():
            assert_equal(array, expected[name], each.network.dtype, name)

    # ---- modes and memory ----

    @rule(number=st.integers(0, 2), double=st.booleans())
    def convert(self, number: int, double: bool) -> None:
        self.one(number).network.to(torch.float64 if double else torch.float32)

    @rule(number=st.integers(0, 2), training=st.booleans())
    def mode(self, number: int, training: bool) -> None:
        network = self.one(number).network
        network.train() if training else network.eval()

    @rule(number=st.integers(0, 2), test_mode=st.booleans(), proportion=st.sampled_from((0.1, 0.6)))
    def component_settings(self, number: int, test_mode: bool, proportion: float) -> None:
        for node in self.one(number).network.nodes:
            if isinstance(node.operation, ComponentOperation):
                node.operation.component.set_test_mode(test_mode)
                node.operation.component.set_dropout_proportion(proportion)

    @rule(number=st.integers(0, 2))
    def statistics(self, number: int) -> None:
        """Compute the statistics of the inputs of now."""
        each = self.one(number)
        for node in each.network.nodes:
            if isinstance(node, StatisticNode):
                node.forget()
        each.network.compute_statistics([self.inputs(each)])
        x = columns(self.arrays["x"])
        for node in each.network.nodes:
            if node.name == "m":
                assert_equal(node.value, x.mean(1, keepdims=True), torch.float32)

    @rule(number=st.integers(0, 2), optimize=st.booleans())
    def optimize(self, number: int, optimize: bool) -> None:
        self.one(number).network.optimize = optimize

    @rule(number=st.integers(0, 2))
    def touch(self, number: int) -> None:
        self.one(number).network.touch()

    # ---- networks ----

    @rule(number=st.integers(0, 2), kind=st.sampled_from(sorted(KINDS)))
    def share(self, number: int, kind: str) -> None:
        """Another network of the same nodes, of another kind or the same."""
        each = self.one(number)
        known = {name: node for node, name in each.network.names.items()}
        if KINDS[kind] <= set(known):
            self.networks = [*self.networks[-2:], Described(kind, network_of(kind, known))]

    @rule(number=st.integers(0, 2), name=st.sampled_from((*"nagodhp", *"esqf", "bags")), replaces=st.booleans())
    def replace(self, number: int, name: str, replaces: bool) -> None:
        """A node like the one that is replaced: the network is equal, and has the same parameters."""
        each = self.one(number)
        node = next((node for node in each.network.nodes if node.name == name), None)
        if node is not None:
            twin = make_node(node.operation, node.operands, name)
            made = each.network.replace({node: twin})
            assert made.find("V") is each.network.find("V")
            self._add(each, made, replaces)

    @rule(number=st.integers(0, 2), replaces=st.booleans())
    def copy(self, number: int, replaces: bool) -> None:
        each = self.one(number)
        self._add(each, each.network.copy(), replaces)

    @rule(number=st.integers(0, 2), replaces=st.booleans())
    def save_and_load(self, number: int, replaces: bool) -> None:
        each = self.one(number)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "net.cn"
            cn.save(each.network, path)
            loaded = cn.load(path)
        self._add(each, loaded.train(each.network.training), replaces)

    def _add(self, each: Described, network: cn.Network, replaces: bool) -> None:
        made = Described(each.kind, network)
        expected = each.numbers()
        for name, array in made.numbers().items():
            assert_equal(array, expected[name], torch.float32, name)
        if replaces:
            self.networks[self.networks.index(each)] = made
        else:
            self.networks = [*self.networks[-2:], made]


Machine.TestCase.settings = settings(max_examples=RUNS, stateful_step_count=15, deadline=None)
TestNetwork = Machine.TestCase
