"""Requests that do not fit, outputs out of reach, and recurrences that cannot be ordered or never end."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import nnet3
from nnet3.errors import NotComputableError, RequestError

HEAD = "input-node name=input dim=2\ncomponent name=noop type=NoOpComponent dim=2\n"
Rows = list[tuple[int, int]] | list[tuple[int, int, int]]


def frames(first: int, end: int) -> list[tuple[int, int]]:
    return [(0, t) for t in range(first, end)]


def compile_net(nodes: str, given: dict[str, Rows], wanted: dict[str, Rows]) -> nnet3.NnetComputation:
    nnet = nnet3.Nnet.from_config(HEAD + nodes)
    request = nnet3.ComputationRequest(
        [nnet3.IoSpecification(name, rows) for name, rows in given.items()],
        [nnet3.IoSpecification(name, rows) for name, rows in wanted.items()],
    )
    return nnet3.compile(nnet, request, nnet3.CompileOptions(check=True))


SPLICE = "output-node name=output input=Append(Offset(input, -2), input, Offset(input, 3))"
RNN = "component-node name=a component=noop input=Sum(input, Offset(a, -1))\noutput-node name=output input=a"


@pytest.mark.parametrize(
    ("nodes", "given", "wanted", "message"),
    [
        (SPLICE, {"input": frames(0, 15)}, {"output": frames(0, 15)},
         "not computable: output (0:1, 12:14) needs input t=-2..17; given 0..14"),
        (SPLICE, {"input": frames(0, 3)}, {"output": frames(0, 3)},
         "not computable: output all needs input t=-2..5; given 0..2"),
        ("output-node name=output input=input", {"input": frames(0, 5)}, {"output": frames(0, 6)},
         "not computable: output (5) needs input t=5; given 0..4"),
        ("output-node name=output input=input", {"input": frames(1, 6)}, {"output": frames(0, 6)},
         "not computable: output (0) needs input t=0; given 1..5"),
        ("output-node name=output input=input", {"input": frames(0, 3)},
         {"output": [(0, t, x) for t in range(3) for x in range(2)]},
         "not computable: output (0:2) needs input t=0..2; given 0..2, but 3 of these are missing, "
         "first (n, t, x) = (0, 0, 1), (0, 1, 1), (0, 2, 1)"),
        ("output-node name=output input=input", {"input": [(0, 0, 0), (0, 1, 0), (0, 1, 1)]},
         {"output": [(0, t, x) for t in range(2) for x in range(2)]},
         "not computable: output (0) needs input t=0; given 0..1, but 1 of these are missing, "
         "first (n, t, x) = (0, 0, 1)"),
        ("output-node name=output input=input", {"input": [(0, 0, 0), (0, 1, 0), (0, 0, 1)]},
         {"output": [(0, t, x) for t in range(2) for x in range(2)]},
         "not computable: output (1) needs input t=1; given 0..1, but 1 of these are missing, "
         "first (n, t, x) = (0, 1, 1)"),
        ("output-node name=output input=input", {"input": [(0, t) for t in (0, 1, 2, 4, 5)]}, {"output": frames(0, 6)},
         "not computable: output (3) needs input t=3; given 0..5, but 1 of these are missing, "
         "first (n, t, x) = (0, 3, 0)"),
        ("output-node name=output input=input", {"input": frames(0, 4)}, {"output": [(1, t) for t in range(4)]},
         "not computable: output all needs input t=0..3; given 0..3, but 4 of these are missing, "
         "first (n, t, x) = (1, 0, 0), (1, 1, 0), (1, 2, 0)"),
        ("input-node name=iv dim=1\noutput-node name=output input=Append(input, ReplaceIndex(iv, t, 0))",
         {"input": frames(0, 4)}, {"output": frames(0, 4)}, "not computable: output all needs iv t=0; none is given"),
        (RNN, {"input": frames(0, 4)}, {"output": frames(0, 4)},
         "not computable: output all needs input t=-1..3; given 0..3"),
        (RNN, {}, {"output": frames(0, 4)}, "not computable: output all needs input t=0..3; none is given"),
        (RNN.replace("input,", "Round(input, 2),"), {"input": frames(0, 4)}, {"output": frames(0, 4)},
         "not computable: output all needs input t=-2..2; given 0..3"),
    ],
)  # fmt: skip
def test_outputs_out_of_reach(nodes: str, given: dict[str, Rows], wanted: dict[str, Rows], message: str) -> None:
    with pytest.raises(NotComputableError) as caught:
        compile_net(nodes, given, wanted)
    assert str(caught.value) == message


def test_each_output_out_of_reach_is_named() -> None:
    nodes = "output-node name=output input=Offset(input, 1)\noutput-node name=second input=Offset(input, -1)"
    with pytest.raises(NotComputableError) as caught:
        compile_net(nodes, {"input": frames(0, 4)}, {"output": frames(0, 4), "second": frames(0, 4)})
    assert "output (3) needs input t=4; given 0..3" in str(caught.value)
    assert "second (0) needs input t=-1; given 0..3" in str(caught.value)


@pytest.mark.parametrize(
    ("given", "wanted", "message"),
    [
        ({"input": frames(0, 2)}, {}, "the request asks for no output"),
        ({"inpt": frames(0, 2)}, {"output": frames(0, 2)}, "the network has no input 'inpt'; did you mean 'input'?"),
        ({"input": frames(0, 2)}, {"a": frames(0, 2)}, "the network has no output 'a'; it has output"),
        ({"output": frames(0, 2)}, {"output": frames(0, 2)}, "the network has no input 'output'"),
        ({"input": []}, {"output": frames(0, 2)}, "input 'input' has no indexes"),
        ({"input": frames(0, 2)}, {"output": [(0, 1), (0, 0), (0, 1)]},
         "output 'output' has index (n, t, x) = (0, 1, 0) twice (again in row 2)"),
    ],
)  # fmt: skip
def test_requests_that_do_not_fit(given: dict[str, Rows], wanted: dict[str, Rows], message: str) -> None:
    with pytest.raises(RequestError) as caught:
        compile_net(RNN, given, wanted)
    assert str(caught.value).startswith(message)


def test_what_is_not_a_network() -> None:
    request = nnet3.ComputationRequest([nnet3.IoSpecification("input", frames(0, 1))], [])
    with pytest.raises(RequestError, match="expected a network to compile, got str"):
        nnet3.compile(HEAD, request)  # type: ignore[arg-type]
    model = SimpleNamespace(nnet=nnet3.Nnet.from_config(HEAD + SPLICE))
    with pytest.raises(RequestError, match=r"got SimpleNamespace: give its \.nnet"):
        nnet3.compile(model, request)  # type: ignore[arg-type]


def test_a_name_may_occur_once() -> None:
    nnet = nnet3.Nnet.from_config(HEAD + "output-node name=output input=input")
    io = nnet3.IoSpecification("input", frames(0, 2))
    with pytest.raises(RequestError, match="input 'input' occurs twice"):
        nnet3.compile(nnet, nnet3.ComputationRequest([io, io], [nnet3.IoSpecification("output", frames(0, 2))]))


def test_a_derivative_needs_one_to_start_from() -> None:
    nnet = nnet3.Nnet.from_config(HEAD + "output-node name=output input=input")
    request = nnet3.ComputationRequest(
        [nnet3.IoSpecification("input", frames(0, 2), has_deriv=True)], [nnet3.IoSpecification("output", frames(0, 2))]
    )
    with pytest.raises(RequestError, match="no output has has_deriv=True"):
        nnet3.compile(nnet, request)


@pytest.mark.parametrize(
    ("back", "message"),
    [
        ("Round(a, 3)", "a value depends on itself: a at t=0;"),
        ("ReplaceIndex(a, t, 2)", "a value depends on itself: a at t=2;"),
        ("Switch(Offset(a, 1), Offset(a, -1))", "a value depends on itself: a at t=1 <- a at t=0;"),
        ("Switch(Offset(a, -1), a)", "a value depends on itself: a at t=1;"),
    ],
)
def test_cycles_that_only_a_request_shows(back: str, message: str) -> None:
    nodes = f"component-node name=a component=noop input=Sum(input, IfDefined({back}))\noutput-node name=output input=a"
    with pytest.raises(RequestError) as caught:
        compile_net(nodes, {"input": frames(0, 6)}, {"output": frames(0, 6)})
    assert str(caught.value).startswith(message)


def test_such_a_cycle_may_be_out_of_the_requests_way() -> None:
    nodes = (
        "component-node name=a component=noop input=Sum(input, IfDefined(Switch(Offset(a, -1), a)))\n"
        "output-node name=output input=a"
    )
    even = [(0, t) for t in range(0, 6, 2)]
    computation = compile_net(nodes, {"input": even}, {"output": even})
    assert [io.name for io in computation.outputs] == ["output"]


@pytest.mark.parametrize(
    "start", ["Const(1, 2)", "ReplaceIndex(input, t, 0)", "ReplaceIndex(ReplaceIndex(input, t, 0), x, 0)"]
)
@pytest.mark.parametrize("move", ["-1", "2", "-1000", "0, -1", "0, 1"])
def test_recurrences_without_end(start: str, move: str) -> None:
    nodes = (
        f"component-node name=a component=noop input=Sum({start}, IfDefined(Offset(a, {move})))\n"
        "output-node name=output input=a"
    )
    if start == "ReplaceIndex(input, t, 0)" and move.startswith("0"):
        compile_net(nodes, {"input": frames(0, 4)}, {"output": frames(0, 4)})  # there is no input at another x
        return
    with pytest.raises(RequestError, match="the recurrence through 'a' never ends"):
        compile_net(nodes, {"input": frames(0, 4)}, {"output": frames(0, 4)})


@pytest.mark.parametrize("end", ["a", "Round(b, 2)"])
def test_a_recurrence_that_starts_nowhere(end: str) -> None:
    nodes = "component-node name=a component=noop input=Sum(Round(a, 2), input)\n"
    nodes += f"component-node name=b component=noop input=a\noutput-node name=output input={end}"
    with pytest.raises(NotComputableError) as caught:
        compile_net(nodes, {"input": frames(0, 4)}, {"output": frames(0, 4)})
    assert str(caught.value) == (
        "not computable: output all depends on itself: a recurrence with no way to start, 'a' at t=0 <- 'a_input' at "
        "t=0 <- 'a' at t=0 (IfDefined or Failover lets it begin)"
    )


def test_a_recurrence_that_starts_nowhere_at_some_x() -> None:
    nodes = "component-node name=a component=noop input=Sum(Round(a, 2), input)\noutput-node name=output input=a"
    given = [(0, t, x) for t in range(6) for x in range(3)]
    with pytest.raises(NotComputableError) as caught:
        compile_net(nodes, {"input": given}, {"output": [(0, 5, 2)]})
    assert str(caught.value) == (
        "not computable: output all depends on itself: a recurrence with no way to start, 'a' at t=4, x=2 <- "
        "'a_input' at t=4, x=2 <- 'a' at t=4, x=2 (IfDefined or Failover lets it begin)"
    )
    with pytest.raises(NotComputableError, match="'a' at t=2, x=1 <- "):
        compile_net(nodes, {"input": given}, {"output": [(0, 3, 1), (0, 4, 0), (0, 4, 2)]})
    nodes = nodes.replace("output input=a", "output input=Switch(input, a)")
    with pytest.raises(NotComputableError, match=r"output \(3, 5\) depends on itself: .* 'a' at t=2, x=1 <- "):
        compile_net(nodes, {"input": given}, {"output": [(0, t, x) for t in range(2, 6) for x in (1, 2)]})


POOLING = """
component name=extract type=StatisticsExtractionComponent input-dim=2 input-period=1 output-period=2
component name=pool type=StatisticsPoolingComponent input-dim=5 input-period=2 left-context=4 right-context=0
component-node name=extract component=extract input=input
component-node name=pool component=pool input=extract
output-node name=output input="""


def test_statistics_at_times_that_they_do_not_have() -> None:
    with pytest.raises(NotComputableError) as caught:
        compile_net(POOLING + "pool", {"input": frames(-10, 4)}, {"output": frames(0, 4)})
    assert str(caught.value) == (
        "not computable: output (1, 3) needs pool [ (0, 1) (0, 3) ], which nothing can make computable "
        "(it is there for multiples of 2 only: ask for Round(pool, 2))"
    )
    compile_net(POOLING + "Round(pool, 2)", {"input": frames(-10, 4)}, {"output": frames(0, 4)})


def test_times_near_the_limits_of_int32() -> None:
    far = [(0, 2**31 - 1)]
    with pytest.raises(RequestError, match=r"index \(n, t, x\) = \(0, 2147483647, 0\): t and x must be from"):
        compile_net("output-node name=output input=input", {"input": far}, {"output": far})
    for offset, needed in ((1073741823, 1073741827), (-1073741823, -1073741827)):
        nodes = f"output-node name=output input=Offset(input, {offset})"
        with pytest.raises(RequestError, match=f"t = {needed} would be needed, which is too near the limits of int32"):
            compile_net(nodes, {"input": frames(-4, 5)}, {"output": frames(-4, 5)})


def test_times_far_apart() -> None:
    """Nothing is laid out between them."""
    nodes = "output-node name=output input=Append(Offset(input, -1), ReplaceIndex(input, t, 0))"
    computation = compile_net(nodes, {"input": [(0, 0), (0, 10**9)]}, {"output": [(0, 10**9 + 1)]})
    assert max(matrix.num_rows for matrix in computation.matrices) == 2


def test_a_component_node_may_be_provided() -> None:
    """A recurrence goes on from the value that the request gives it."""
    nnet = nnet3.Nnet.from_config(HEAD + RNN)
    request = nnet3.ComputationRequest(
        [nnet3.IoSpecification("input", frames(0, 4)), nnet3.IoSpecification("a", [(0, -1)])],
        [nnet3.IoSpecification("output", frames(0, 4))],
    )
    computer = nnet3.NnetComputer(nnet3.compile(nnet, request), nnet)
    computer.accept_input("input", np.arange(8.0).reshape(4, 2))
    computer.accept_input("a", np.array([[100.0, 200.0]]))
    computer.run()
    assert computer.get_output("output").tolist() == [[100, 201], [102, 204], [106, 209], [112, 216]]
