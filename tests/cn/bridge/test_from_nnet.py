"""Golden nnet3 networks as computational networks: the same numbers."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import nnet3
from nnet3 import cn
from nnet3.errors import NetworkError, NotComputableError
from nnet3.model.components.identity import NoOpComponent
from tests.effort import draws, nightly, third
from tests.seeds import RANDOM
from tests.shared_data import golden_cases, needs_shared

LEAST_COMPARED = 12


def as_sequences(indexes: np.ndarray, matrix: np.ndarray) -> tuple[cn.Sequences, int] | None:
    """The rows of an input as sequences that begin at the same time without gaps; None if they are none."""
    values = []
    first = int(indexes[:, 1].min())
    for n in np.unique(indexes[:, 0]):
        rows = np.flatnonzero(indexes[:, 0] == n)
        rows = rows[np.argsort(indexes[rows, 1])]
        if indexes[rows, 2].any() or indexes[rows, 1].tolist() != list(range(first, first + len(rows))):
            return None
        values.append(matrix[rows].T)
    return cn.sequences(values), first


def compare(case: Path, *, with_golden: bool = True) -> bool:
    """Whether the case could be compared; asserts that it agrees, with the golden output or with ours in test mode."""
    nnet = nnet3.load(case / "model.raw")
    if not with_golden:
        nnet.set_test_mode()
    try:
        net = cn.from_nnet(nnet)
    except NetworkError:
        return False
    request, arrays = json.loads((case / "request.json").read_text()), np.load(case / "arrays.npz")
    inputs, firsts = {}, set()
    for io in request["inputs"]:
        given = as_sequences(np.array(io["indexes"]), arrays[f"input_{io['name']}"])
        if given is None:
            return False
        inputs[io["name"]] = given[0]
        firsts.add(given[1])
    if len(firsts) != 1 or len({value.lengths for value in inputs.values()}) != 1:
        return False
    first = firsts.pop()
    for io in request["outputs"]:
        indexes = np.array(io["indexes"])
        if indexes[:, 2].any():
            return False
        values = net.evaluate(io["name"], inputs)
        numbers = {n: place for place, n in enumerate(np.unique(np.array(request["inputs"][0]["indexes"])[:, 0]))}
        ours = np.stack([values[numbers[n]][:, t - first] for n, t, _ in indexes.tolist()])
        theirs = arrays[f"output_{io['name']}"] if with_golden else run(nnet, request, arrays)[io["name"]]
        assert np.linalg.norm(ours - theirs) <= 1e-4 * np.linalg.norm(theirs), (case.name, io["name"])
    return True


def run(nnet: nnet3.Nnet, request: dict, arrays) -> dict[str, np.ndarray]:
    """The outputs of the nnet3 network itself."""

    def specifications(kind: str) -> list[nnet3.IoSpecification]:
        return [nnet3.IoSpecification(io["name"], np.array(io["indexes"])) for io in request[kind]]

    asked = nnet3.ComputationRequest(inputs=specifications("inputs"), outputs=specifications("outputs"))
    computer = nnet3.NnetComputer(nnet3.compile(nnet, asked), nnet)
    for io in request["inputs"]:
        computer.accept_input(io["name"], arrays[f"input_{io['name']}"])
    computer.run()
    return {io["name"]: computer.get_output(io["name"]).numpy() for io in request["outputs"]}


@needs_shared
@pytest.mark.filterwarnings("ignore:a batch-norm component in test mode has no statistics")
def test_golden_recipes_in_test_mode() -> None:
    compared = [case.name for case in golden_cases("recipe") if compare(case, with_golden=False)]
    assert len(compared) >= 3, compared


@needs_shared
def test_golden_networks_compute_the_same() -> None:
    compared = [case.name for case in golden_cases("random") if compare(case)]
    assert len(compared) >= LEAST_COMPARED, compared


def test_what_has_no_counterpart_is_named() -> None:
    config = """
input-node name=input dim=3
component name=a type=TanhComponent dim=3
component-node name=a component=a input=Round(input, 3)
output-node name=output input=a
"""
    with pytest.raises(NetworkError, match=r"'a_input': Round\(input, 3\) has no counterpart"):
        cn.from_nnet(nnet3.Nnet.from_config(config))


class LooksAside(NoOpComponent):
    """Looks at the next x."""

    identity_indexes = False

    def wanted_inputs(self, outputs: np.ndarray) -> np.ndarray:
        return (outputs + np.array([0, 0, 1], np.int32))[:, np.newaxis]


def test_components_that_look_at_what_a_cn_has_not() -> None:
    extraction = "StatisticsExtractionComponent", "input-dim=3 input-period=1 output-period=2"
    for component in (nnet3.components.create(*extraction), LooksAside(3)):
        lines = "component name=a type=NoOpComponent dim=3\ncomponent-node name=last component=a input=input"
        nnet = network_of(lines)
        nnet.components["a"] = component
        says = rf"component of 'last' \({component.type_name}\) looks at frames that depend on t, or at other x"
        with pytest.raises(NetworkError, match=says):
            cn.from_nnet(nnet)


def in_nnet3(nnet: nnet3.Nnet, x: np.ndarray, wanted: range) -> np.ndarray:
    """The output of the nnet3 network for one sequence (D, T), in the frames that are wanted."""
    inputs = np.array([(0, t, 0) for t in range(x.shape[1])])
    asked = nnet3.ComputationRequest(
        inputs=[nnet3.IoSpecification("input", inputs)],
        outputs=[nnet3.IoSpecification("output", np.array([(0, t, 0) for t in wanted]))],
    )
    computer = nnet3.NnetComputer(nnet3.compile(nnet, asked), nnet)
    computer.accept_input("input", x.T)
    computer.run()
    return computer.get_output("output").numpy().T


def network_of(lines: str, dim: int = 3) -> nnet3.Nnet:
    """A network with random parameters, `input` of 3 rows and an `output` of what is called `last`."""
    config = f"input-node name=input dim={dim}\n{lines}\noutput-node name=output input=last\n"
    nnet = nnet3.Nnet.from_config(config)
    for component in nnet.components.values():
        for tensor in component.parameters().values():
            tensor.copy_(torch.from_numpy(RANDOM.normal(size=tuple(tensor.shape))))
    return nnet


AFFINE = """
component name=affine type=NaturalGradientAffineComponent input-dim={} output-dim=4
component-node name=affine component=affine input={}
component name=last type=TanhComponent dim=4
component-node name=last component=last input=affine
"""


def copied(name: str, descriptor: str, dim: int = 3) -> str:
    return (
        f"component name={name} type=NoOpComponent dim={dim}\n"
        f"component-node name={name} component={name} input={descriptor}\n"
    )


#: By name: lines, and how many of the first and of the last frames nnet3 cannot compute.
NETWORKS = {
    "plain": (AFFINE.format(3, "input"), 0, 0),
    "spliced": (AFFINE.format(9, "Append(Offset(input, -2), input, Offset(input, 1))"), 2, 1),
    "ahead": (AFFINE.format(6, "Append(Offset(input, 1), Offset(input, 3))"), 0, 3),
    "sums": (AFFINE.format(3, "Sum(Scale(0.5, input), Sum(Const(2.0, 3), Scale(0.5, Offset(input, -1))))"), 1, 0),
    "optional": (AFFINE.format(6, "Append(IfDefined(Offset(input, -2)), IfDefined(Offset(input, 1)))"), 0, 0),
    "margins that add up": (
        AFFINE.format(9, "Append(Offset(input, -2), input, Offset(input, 1))").replace("last", "first")
        + """
component name=linear type=LinearComponent input-dim=12 output-dim=3
component-node name=linear component=linear input=Append(Offset(first, -1), first, Offset(first, 3))
component name=last type=NormalizeComponent dim=3
component-node name=last component=last input=linear
""",
        3,
        4,
    ),
    "optional frames that are not computed": (
        AFFINE.format(9, "Append(Offset(input, -2), input, Offset(input, 1))").replace("last", "first")
        + """
component name=linear type=LinearComponent input-dim=15 output-dim=3
component-node name=linear component=linear input=Append(input, IfDefined(Offset(first, -1)), IfDefined(first), \
IfDefined(Offset(first, 3)))
component name=last type=NoOpComponent dim=3
component-node name=last component=last input=linear
""",
        0,
        0,
    ),
    "components with frames of their own": (
        """
component name=tdnn type=TdnnComponent input-dim=3 output-dim=4 time-offsets=-1,0,2
component-node name=tdnn component=tdnn input=input
component name=last type=TdnnComponent input-dim=4 output-dim=2 time-offsets=-2,1
component-node name=last component=last input=tdnn
""",
        3,
        3,
    ),
    "parts and products": (
        """
dim-range-node name=part input-node=input dim-offset=1 dim=2
component name=wide type=LinearComponent input-dim=2 output-dim=6
component-node name=wide component=wide input=part
component name=product type=ElementwiseProductComponent input-dim=6 output-dim=2
component-node name=product component=product input=wide
component name=scales type=PerElementScaleComponent dim=2
component-node name=scales component=scales input=product
component name=last type=LogSoftmaxComponent dim=2
component-node name=last component=last input=scales
""",
        0,
        0,
    ),
    "a product of two parts, and of three": (
        """
component name=two type=ElementwiseProductComponent input-dim=6 output-dim=3
component-node name=two component=two input=Append(input, input)
component name=three type=ElementwiseProductComponent input-dim=9 output-dim=3
component-node name=three component=three input=Append(two, Offset(input, -1), input)
component name=last type=LinearComponent input-dim=3 output-dim=2
component-node name=last component=last input=three
""",
        1,
        0,
    ),
    "one component in two places": (
        """
component name=affine type=AffineComponent input-dim=3 output-dim=3
component-node name=lower component=affine input=input
component name=sigmoid type=SigmoidComponent dim=3
component-node name=sigmoid component=sigmoid input=lower
component-node name=upper component=affine input=Sum(sigmoid, Offset(input, -1))
component name=last type=RectifiedLinearComponent dim=3
component-node name=last component=last input=upper
""",
        1,
        0,
    ),
    "a recurrence": (
        AFFINE.format(7, "Append(input, IfDefined(Offset(last, -2)))"),
        0,
        0,
    ),
    "a recurrence of what is computed later": (
        AFFINE.format(9, "Append(Offset(input, -2), input, Offset(input, 1))").replace("last", "first")
        + """
component name=again type=AffineComponent input-dim=8 output-dim=4
component-node name=again component=again input=Append(Offset(first, -1), IfDefined(Offset(last, -1)))
component name=last type=TanhComponent dim=4
component-node name=last component=last input=again
""",
        3,
        0,
    ),
    "a recurrence of what looks ahead and then back": (
        copied("ahead", "Sum(Offset(input, 1), Offset(input, 3))")
        + AFFINE.format(7, "Append(Offset(ahead, -4), IfDefined(Offset(last, -1)))"),
        3,
        0,
    ),
    "a backward recurrence of what looks back and then ahead": (
        copied("back", "Offset(input, -2)") + AFFINE.format(7, "Append(Offset(back, 3), IfDefined(Offset(last, 1)))"),
        0,
        1,
    ),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_equal_in_the_frames_that_nnet3_can_compute(name) -> None:
    lines, left, right = NETWORKS[name]
    nnet = network_of(lines)
    net = cn.from_nnet(nnet)
    for frames in (left + right + 1, 9):
        x = RANDOM.normal(size=(3, frames)).astype(np.float32)
        expected = in_nnet3(nnet, x, range(left, frames - right))
        (ours,) = net.evaluate("output", {"input": cn.sequences([x])})
        np.testing.assert_allclose(ours[:, left : frames - right], expected, rtol=1e-4, atol=1e-5)


def random_lines(rng: np.random.Generator) -> str:
    """Nodes that look ahead and back in turns, at what must and at what may be there, and recurrences among them."""
    names, lines = ["input"], []
    for number in range(rng.integers(2, 6)):
        name = f"n{number}"
        terms = [f"Offset({rng.choice(names)}, {rng.integers(-3, 4)})" for _ in range(rng.integers(1, 4))]
        if rng.random() < 0.5:
            terms[1:] = [f"IfDefined({term})" for term in terms[1:]]
        if rng.random() < 0.1:
            terms[0] = f"IfDefined({terms[0]})"
        if rng.random() < 0.5:
            terms.append(f"IfDefined(Offset({name}, {rng.choice([-2, -1])}))")
        lines.append(
            f"component name={name} type=AffineComponent input-dim={2 * len(terms)} output-dim=2\n"
            f"component-node name={name} component={name} input=Append({', '.join(terms)})"
        )
        names.append(name)
    kind = rng.choice(["NoOpComponent dim=2", "TdnnComponent input-dim=2 output-dim=2 time-offsets=-1,0,2"])
    lines.append(f"component name=last type={kind}\ncomponent-node name=last component=last input={names[-1]}")
    return "\n".join(lines)


def network_or_none(nnet: nnet3.Nnet) -> cn.Network | None:
    """The CN; None where it is refused for a node that is needed in more frames than the input has."""
    try:
        return cn.from_nnet(nnet)
    except NetworkError as error:
        if "no more frames than its input" not in str(error):
            raise
        return None


@nightly
def test_random_networks_are_equal_in_all_frames_that_nnet3_can_compute_or_refused() -> None:
    """Each frame is asked of nnet3 alone, which says whether it can be computed."""
    frames, compared, refused = 9, 0, 0
    for _ in range(draws(60)):
        lines = random_lines(RANDOM)
        nnet = network_of(lines, dim=2).to(torch.float64)
        net = network_or_none(nnet)
        if net is None:
            refused += 1
            continue
        x = RANDOM.normal(size=(2, frames))
        (ours,) = net.evaluate("output", {"input": cn.sequences([x])})
        for t in range(frames):
            try:
                (expected,) = in_nnet3(nnet, x, range(t, t + 1)).T
            except NotComputableError:
                continue
            np.testing.assert_allclose(ours[:, t], expected, rtol=1e-9, atol=1e-12, err_msg=f"frame {t}:\n{lines}")
            compared += 1
    assert compared > draws(200)
    assert 0 < refused < draws(24)


#: Of each network the types of nodes, besides parameters, that the CN is made of.
TYPES = {
    **dict.fromkeys(
        ("a recurrence of what looks ahead and then back", "a backward recurrence of what looks back and then ahead"),
        "copy delay element_times exp input plus row_slice row_stack scale tanh times",
    ),
    "plain": "input plus tanh times",
    "spliced": "delay input plus row_stack tanh times",
    "ahead": "delay input plus row_stack tanh times",
    "sums": "delay input plus scale tanh times",
    "optional": "delay input plus row_stack tanh times",
    "margins that add up": "component delay input plus row_stack tanh times",
    "optional frames that are not computed": (
        "copy delay element_times exp input plus row_slice row_stack scale tanh times"
    ),
    "components with frames of their own": "component input",
    "parts and products": "diag_times element_times input log_softmax row_slice times",
    "a product of two parts, and of three": "delay element_times input row_slice row_stack times",
    "one component in two places": "delay input plus relu sigmoid times",
    "a recurrence": "delay input plus row_stack tanh times",
    "a recurrence of what is computed later": (
        "delay element_times exp input plus row_slice row_stack scale tanh times"
    ),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_types_of_nodes(name) -> None:
    """Own types where there are any; zeros for missing frames are made only where frames are missing."""
    nodes = cn.from_nnet(network_of(NETWORKS[name][0])).nodes
    assert " ".join(sorted({node.type for node in nodes} - {"parameter"})) == TYPES[name]


def test_names_are_those_of_the_nodes() -> None:
    net = cn.from_nnet(network_of(NETWORKS["parts and products"][0]))
    assert {"part", "wide", "product", "scales", "last", "input"} < set(net.names.values())
    net = cn.from_nnet(network_of(NETWORKS["a product of two parts, and of three"][0]))
    assert {net.find("two").type, net.find("three").type} == {"element_times"}


@pytest.mark.parametrize("name", NETWORKS)
def test_gradients_of_all_parameters(name, capsys) -> None:
    """Those of the network's own components, each once, are what is trained."""
    lines, _, _ = NETWORKS[name]
    nnet = network_of(lines)
    made = cn.from_nnet(nnet)
    net = cn.Network(cn.square_error(made.outputs["output"], cn.input("y", made.outputs["output"].shape.rows)))
    rows = made.outputs["output"].shape.rows
    batch = {n: cn.sequences([RANDOM.normal(size=(r, t)) for t in (9, 8)]) for n, r in (("input", 3), ("y", rows))}
    check = cn.check_gradients(net, batch, max_elements=third(6))
    assert {row.parameter for row in check} == {
        f"{name}.{key}" for name, component in nnet.components.items() for key in component.parameters()
    }
    assert check.worst < 1e-4
    for row in check:
        assert row.gradient != 0
    for name, component in nnet.components.items():
        for key, tensor in component.parameters().items():
            np.testing.assert_array_equal(net.parameters()[f"{name}.{key}"].ravel(), tensor.numpy().ravel())


def test_parameters_that_are_not_trained_in_nnet3_are_not_trained_here() -> None:
    nnet = network_of(
        """
component name=fixed type=FixedAffineComponent input-dim=3 output-dim=3
component-node name=fixed component=fixed input=input
component name=last type=LinearComponent input-dim=3 output-dim=2
component-node name=last component=last input=fixed
"""
    )
    net = cn.from_nnet(nnet)
    x = RANDOM.normal(size=(3, 4)).astype(np.float32)
    expected = in_nnet3(nnet, x, range(4))
    np.testing.assert_allclose(net.evaluate("output", {"input": x}), expected, rtol=1e-4, atol=1e-5)
    assert set(net.tensors()) == {"last.params"}
    assert "fixed.bias_params" in net.parameters()


def test_the_bridge_copies() -> None:
    nnet = network_of(AFFINE.format(3, "input"))
    before = nnet.components["affine"].parameters()["bias_params"].clone()
    net = cn.from_nnet(nnet)
    net.set_parameters({"affine.bias_params": np.zeros((4, 1))})
    assert torch.equal(nnet.components["affine"].parameters()["bias_params"], before)
