"""Networks from config text: what is refused and where the caret points, and how later configs change a network."""

from __future__ import annotations

import pytest
import torch

import nnet3
from nnet3.errors import ArgumentError, ConfigError

BASE = """\
input-node name=input dim=3
component name=affine type=AffineComponent input-dim=3 output-dim=4
component name=tanh type=TanhComponent dim=4
component name=noop type=NoOpComponent dim=3
component-node name=a component=affine input=input
component-node name=b component=tanh input=a
output-node name=output input=b
"""
LOOP = "input-node name=input dim=3\ncomponent name=noop type=NoOpComponent dim=3\n"


def failure(text: str) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        nnet3.Nnet.from_config(text, source="net.config")
    return caught.value


def marked(error: ConfigError) -> str:
    assert error.span is not None
    return error.span.text[error.span.column - 1 : error.span.column - 1 + error.span.length]


@pytest.mark.parametrize(
    ("line", "message", "mark", "hint"),
    [
        # lines
        ("node name=a", "unknown line type, got 'node'", "node", ""),
        ("component-from name=a", "unknown line type, got 'component-from'", "component-from", ""),
        ("name=a dim=3", "unknown line type, got a line that begins with key=value", "name=a dim=3", "known: "),
        ("input-nod name=z dim=3", "unknown line type, got 'input-nod'", "input-nod", "did you mean 'input-node'?"),
        ("input-node dim=3", "'name=' is missing", "input-node", ""),
        ("input-node nam=z dim=3", "'name=' is missing", "input-node", "is it the misspelt 'nam'?"),
        ("input-node name=z dm=3", "input-node 'z': 'dim=' is missing", "input-node", "is it the misspelt 'dm'?"),
        ("dim-range-node name=z input-node=input dim=1 dimoffset=1", "dim-range-node 'z': 'dim-offset=' is missing",
         "dim-range-node", "is it the misspelt 'dimoffset'?"),
        ("component-node name=z component=noop inpt=input", "component-node 'z': 'input=' is missing",
         "component-node", "is it the misspelt 'inpt'?"),
        ("input-node name=1z dim=3", "'1z' is not a valid name", "1z", "a letter or '_'"),
        ("input-node name=z", "input-node 'z': 'dim=' is missing", "input-node", ""),
        ("input-node name=z dim=0", "input-node 'z': 'dim' must be >= 1, got 0", "0", ""),
        ("input-node name=z dim=x", "input-node 'z': 'dim' must be an integer, got 'x'", "x", ""),
        ("input-node name=z dim=3 input-dim=3", "input-node 'z': unknown key 'input-dim'", "input-dim", ""),
        # names
        ("input-node name=input dim=3", "input-node 'input': the node name 'input' is already taken in line 1",
         "input", ""),
        ("input-node name=a_input dim=3", "input-node 'a_input': the node name 'a_input' is already taken in line 5",
         "a_input", ""),
        ("component name=tanh type=TanhComponent dim=4",
         "component 'tanh': the component name 'tanh' is already taken in line 3", "tanh", ""),
        # components
        ("component name=z type=TanhComponen dim=4", "component 'z': unknown component type 'TanhComponen'",
         "TanhComponen", "did you mean 'TanhComponent'?"),
        ("component name=z type=Tanh dim=4", "component 'z': unknown component type 'Tanh'", "Tanh", ""),
        ("component name=z dim=4", "component 'z': 'type=' is missing", "component", ""),
        ("component name=z type=TanhComponent dimm=4", "component 'z': 'dim=' is missing", "component",
         "is it the misspelt 'dimm'?"),
        ("component name=z type=TanhComponent dim=4 bias=1", "component 'z': unknown key 'bias'", "bias", ""),
        ("component name=z type=TanhComponent dim=-4", "component 'z': 'dim' must be >= 1, got -4", "-4", ""),
        # component nodes
        ("component-node name=z component=noop", "component-node 'z': 'input=' is missing", "component-node", ""),
        ("component-node name=z input=input", "component-node 'z': 'component=' is missing", "component-node", ""),
        ("component-node name=z component=nop input=input", "component-node 'z': unknown component 'nop'", "nop",
         "did you mean 'noop'?"),
        ("component-node name=z component=noop input=input dim=3", "component-node 'z': unknown key 'dim'", "dim", ""),
        ("component-node name=z component=noop input=Append(input, inpt)", "unknown node 'inpt'", "inpt",
         "did you mean 'input'?"),
        ("component-node name=z component=noop input=output", "'output' is an output node and cannot be an input",
         "output", "refer to an input, component or dim-range node"),
        ("component-node name=z component=noop input=Offset(a_input, 1)",
         "'a_input' is the hidden input of a component node and cannot be an input", "a_input", "refer to"),
        ("component-node name=z component=noop input=a",
         "component-node 'z': its input has dimension 4, but component 'noop' (NoOpComponent) takes 3", "a", ""),
        ("component-node name=z component=noop input=Append(input, a)",
         "component-node 'z': its input has dimension 7, but component 'noop' (NoOpComponent) takes 3",
         "Append(input, a)", ""),
        ("component-node name=z component=noop input=Sum(input, a)",
         "Sum of different dimensions: input has 3, a has 4", "Sum(input, a)", ""),
        ("component-node name=z component=noop input=Switch(input, a)",
         "the arguments of Switch have different dimensions: 'input' has 3, 'a' has 4", "a", ""),
        ("component-node name=z component=noop input=Ofset(input, 1)", "unknown descriptor type 'Ofset'", "Ofset",
         "did you mean 'Offset'?"),
        # output nodes
        ("output-node name=z", "output-node 'z': 'input=' is missing", "output-node", ""),
        ("output-node name=z input=a objective=linea", "output-node 'z': objective must be linear or quadratic",
         "linea", ""),
        ("output-node name=z input=a dim=4", "output-node 'z': unknown key 'dim'", "dim", ""),
        ("output-node name=z input=Sum(a, input)", "Sum of different dimensions: a has 4, input has 3",
         "Sum(a, input)", ""),
        # dim-range nodes
        ("dim-range-node name=z input-node=a dim=2", "dim-range-node 'z': 'dim-offset=' is missing",
         "dim-range-node", ""),
        ("dim-range-node name=z input-node=a dim=0 dim-offset=0", "dim-range-node 'z': 'dim' must be >= 1", "0", ""),
        ("dim-range-node name=z input-node=a dim=1 dim-offset=-1", "dim-range-node 'z': 'dim-offset' must be >= 0",
         "-1", ""),
        ("dim-range-node name=z input-node=a dim=3 dim-offset=2",
         "dim-range-node 'z': columns 2 to 4 of 'a', which has only 4", "a", ""),
        ("dim-range-node name=z input-node=aa dim=3 dim-offset=0", "dim-range-node 'z': unknown node 'aa'", "aa",
         "did you mean 'a'?"),
        ("dim-range-node name=z input-node=output dim=1 dim-offset=0",
         "dim-range-node 'z': 'output' must be an input or component node", "output", ""),
        ("dim-range-node name=z input-node=a_input dim=1 dim-offset=0",
         "dim-range-node 'z': 'a_input' must be an input or component node", "a_input", ""),
        ("dim-range-node name=z input-node=z dim=1 dim-offset=0",
         "dim-range-node 'z': 'z' must be an input or component node", "z", ""),
    ],
)  # fmt: skip
def test_a_bad_line(line: str, message: str, mark: str, hint: str) -> None:
    error = failure(BASE + line)
    assert error.message.startswith(message)
    assert marked(error) == mark
    assert error.span is not None
    assert str(error).startswith(f"net.config:8:{error.span.column}: {message}")
    assert error.hint.startswith(hint)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the config defines no nodes"),
        ("# only a comment", "the config defines no nodes"),
        ("component name=noop type=NoOpComponent dim=3", "the config defines no nodes"),
        ("input-node name=input dim=3", "the network has no output-node"),
        ("output-node name=output input=Const(1, 3)", "the network has no input-node"),
    ],
)
def test_something_is_missing(text: str, message: str) -> None:
    assert str(failure(text)) == message


@pytest.mark.parametrize(
    ("nodes", "cycle", "mark"),
    [
        ("component-node name=a component=noop input=Sum(input, IfDefined(a))", "a <- a", "Sum(input, IfDefined(a))"),
        ("component-node name=a component=noop input=Failover(a, input)", "a <- a", "Failover(a, input)"),
        ("component-node name=a component=noop input=Offset(Offset(a, 1), -1)", "a <- a", "Offset(Offset(a, 1), -1)"),
        ("component-node name=a component=noop input=b\ncomponent-node name=b component=noop input=a",
         "b <- a <- b", "b"),
        ("component-node name=a component=noop input=Sum(input, IfDefined(Offset(b, -1)))\n"
         "component-node name=b component=noop input=Offset(a, 1)", "b <- a <- b",
         "Sum(input, IfDefined(Offset(b, -1)))"),
        ("component-node name=a component=noop input=Sum(IfDefined(Offset(a, -1)), IfDefined(Offset(a, 1)))",
         "a <- a <- a", "Sum(IfDefined(Offset(a, -1)), IfDefined(Offset(a, 1)))"),
        ("component-node name=a component=noop input=Sum(IfDefined(Offset(a, 0, 1)), IfDefined(Offset(a, 0, -1)))",
         "a <- a <- a", "Sum(IfDefined(Offset(a, 0, 1)), IfDefined(Offset(a, 0, -1)))"),
        ("component-node name=a component=noop input=Append(r, r, r)\n"
         "dim-range-node name=r input-node=a dim=1 dim-offset=2", "r <- a <- r", "Append(r, r, r)"),
        ("component name=tdnn type=TdnnComponent input-dim=3 output-dim=3 time-offsets=-1,0\n"
         "component-node name=a component=tdnn input=Sum(input, IfDefined(a))", "a <- a", "Sum(input, IfDefined(a))"),
        ("component name=tdnn type=TdnnComponent input-dim=3 output-dim=3 time-offsets=1,2\n"
         "component-node name=a component=tdnn input=Sum(input, IfDefined(Offset(a, -1)))", "a <- a",
         "Sum(input, IfDefined(Offset(a, -1)))"),
        # one cycle moves, another one does not
        ("component-node name=a component=noop input=Sum(IfDefined(Offset(b, -1)), IfDefined(Offset(c, -1)))\n"
         "component-node name=b component=noop input=Offset(a, -1)\n"
         "component-node name=c component=noop input=Offset(a, 1)", "c <- a <- c",
         "Sum(IfDefined(Offset(b, -1)), IfDefined(Offset(c, -1)))"),
        ("component-node name=a component=noop input=Sum(b, IfDefined(a))\n"
         "component-node name=b component=noop input=Offset(a, -1)", "a <- a", "Sum(b, IfDefined(a))"),
        # it takes thousands of rounds to come back
        ("component-node name=a component=noop input=Sum(IfDefined(Offset(a, -1999)), IfDefined(Offset(a, 2003)))",
         "a <- a", "Sum(IfDefined(Offset(a, -1999)), IfDefined(Offset(a, 2003)))"),
    ],
)  # fmt: skip
def test_cycles_that_never_move(nodes: str, cycle: str, mark: str) -> None:
    error = failure(f"{LOOP}{nodes}\noutput-node name=output input=a")
    assert error.message == f"a cycle that never moves in time: {cycle}"
    assert marked(error) == mark
    assert "Offset" in error.hint


@pytest.mark.parametrize(
    ("nodes", "why"),
    [
        ("component-node name=a component=noop input=Sum(input, IfDefined(Offset(b, -1)))\n"
         "component-node name=b component=noop input=Offset(a, 1)", "('a' takes 'b' at t-1, 'b' takes 'a' at t+1)"),
        ("component-node name=a component=noop input=Sum(IfDefined(Offset(a, -1)), IfDefined(Offset(a, 1)))",
         "('a' takes 'a' at t-1, 'a' takes 'a' at t+1)"),
        ("component-node name=a component=noop input=Sum(IfDefined(Offset(a, -2)), IfDefined(Offset(a, 4)))",
         "('a' takes 'a' at t-2, 'a' takes 'a' at t-2, 'a' takes 'a' at t+4)"),
        ("component-node name=a component=noop input=Sum(IfDefined(Offset(a, 0, -2)), IfDefined(Offset(a, 0, 4)))",
         "('a' takes 'a' at x-2, 'a' takes 'a' at x-2, 'a' takes 'a' at x+4)"),
        ("component-node name=a component=noop input=Sum(IfDefined(Offset(a, 1, -2)), IfDefined(Offset(a, -1, 2)), "
         "IfDefined(Offset(a, -1, 3)))", "('a' takes 'a' at t+1, x-2, 'a' takes 'a' at t-1, x+2)"),
        # a small cycle at the end of a long one, which moves
        ("".join(f"component-node name=b{k} component=noop input=b{k + 1}\n" for k in range(30))
         + "component-node name=b30 component=noop input=Sum(IfDefined(Offset(b0, -1)), IfDefined(Offset(a, -1)))\n"
         "component-node name=a component=noop input=Offset(b30, 1)",
         "('b30' takes 'a' at t-1, 'a' takes 'b30' at t+1)"),
        ("component name=tdnn type=TdnnComponent input-dim=3 output-dim=3 time-offsets=1,2\n"
         "component-node name=a component=tdnn input=Sum(input, IfDefined(Offset(a, -1)))",
         "('a' takes 'a' at t-1, 'a' takes its input at t+1)"),
    ],
)  # fmt: skip
def test_offsets_that_cancel_are_told(nodes: str, why: str) -> None:
    error = failure(f"{LOOP}{nodes}\noutput-node name=output input=a")
    assert error.hint == f"its offsets cancel {why}: let every Offset on it point the same way"


@pytest.mark.parametrize(
    "nodes",
    [
        "component-node name=a component=noop input=Sum(input, IfDefined(Offset(a, -1)))",
        "component-node name=a component=noop input=Sum(input, IfDefined(Offset(a, -1)), IfDefined(Offset(a, -2)))",
        "component-node name=a component=noop input=Sum(input, IfDefined(Offset(a, 3)))",
        "component-node name=a component=noop input=Sum(input, IfDefined(Offset(a, 0, -1)))",
        "component-node name=a component=noop input=Sum(input, IfDefined(Offset(a, -1)), IfDefined(Offset(a, 0, 1)))",
        "component-node name=a component=noop input=Sum(IfDefined(Offset(a, -1, 1)), IfDefined(Offset(a, 1, 1)))",
        "component-node name=a component=noop input=Sum(input, IfDefined(Offset(b, -2)))\n"
        "component-node name=b component=noop input=Offset(a, 1)",
        "component name=tdnn type=TdnnComponent input-dim=3 output-dim=3 time-offsets=-1,0\n"
        "component-node name=a component=tdnn input=Sum(input, IfDefined(Offset(a, -1)))",
        # what is not the same for every t is looked at when a request is compiled
        "component-node name=a component=noop input=Sum(input, IfDefined(Round(a, 3)))",
        "component-node name=a component=noop input=Sum(input, IfDefined(ReplaceIndex(a, t, 0)))",
        "component-node name=a component=noop input=Sum(input, IfDefined(Switch(Offset(a, -1), a)))",
    ],
)
def test_cycles_that_move(nodes: str) -> None:
    nnet = nnet3.Nnet.from_config(f"{LOOP}{nodes}\noutput-node name=output input=a")
    assert {"a_input", "a", "output"} <= {node.name for node in nnet.nodes}


def test_names_of_nodes_and_components_are_apart() -> None:
    nnet = nnet3.Nnet.from_config(
        "component name=x type=NoOpComponent dim=3\ninput-node name=input dim=3\n"
        "component-node name=x component=x input=input\noutput-node name=output input=x objective=quadratic"
    )
    assert [node.name for node in nnet.nodes] == ["input", "x_input", "x", "output"]
    assert nnet.config_lines()[-1] == "output-node name=output input=x objective=quadratic"


def test_a_keyword_wins_over_a_node_of_that_name() -> None:
    error = failure(BASE + "input-node name=Sum dim=3\noutput-node name=z input=Sum")
    assert error.message.startswith("expected '('")


# ---- several configs ----


def names(nnet: nnet3.Nnet) -> list[str]:
    return [node.name for node in nnet.nodes]


def test_a_replaced_node_moves_to_the_new_part() -> None:
    nnet = nnet3.Nnet.from_config(BASE)
    nnet.apply_config("component-node name=a component=affine input=Offset(input, -1)")
    assert names(nnet) == ["input", "b_input", "b", "output", "a_input", "a"]
    assert nnet.config_lines()[-1] == "component-node name=a component=affine input=Offset(input, -1)"


def test_a_node_may_change_its_type() -> None:
    nnet = nnet3.Nnet.from_config(BASE)
    nnet.apply_config("input-node name=a dim=4")
    assert names(nnet) == ["input", "b_input", "b", "output", "a"]
    assert nnet.input_names == ["input", "a"]
    assert nnet.warnings == [
        "node 'input' is never used to compute any output",
        "component 'affine' is never used by any node",
        "component 'noop' is never used by any node",
    ]
    nnet.apply_config("component-node name=a component=affine input=input")
    assert names(nnet) == ["input", "b_input", "b", "output", "a_input", "a"]


def test_a_replaced_component_keeps_its_place_and_its_users() -> None:
    nnet = nnet3.Nnet.from_config(BASE)
    old = nnet.components["tanh"]
    nnet.apply_config("component name=affine type=LinearComponent input-dim=3 output-dim=4\ninput-node name=iv dim=1")
    assert list(nnet.components) == ["affine", "tanh", "noop"]
    assert nnet.components["affine"].type_name == "LinearComponent"
    assert nnet.components["tanh"] is old


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("component name=affine type=AffineComponent input-dim=2 output-dim=4",
         "component-node 'a': its input has dimension 3, but component 'affine' (AffineComponent) takes 2"),
        ("input-node name=a dim=3", "component-node 'b': its input has dimension 3, but component 'tanh'"),
        ("output-node name=a input=input", "'a' is an output node and cannot be an input"),
        ("input-node name=a_input dim=3",
         "input-node 'a_input': the name 'a_input' is taken by the hidden input of an existing node"),
        ("input-node name=z dim=3\ninput-node name=z dim=3", "input-node 'z': the node name 'z' is already taken"),
        ("input-node name=output dim=3", "the network has no output-node"),
        ("output-node name=input input=b", "the network has no input-node"),
    ],
)  # fmt: skip
def test_a_config_that_does_not_fit_changes_nothing(text: str, message: str) -> None:
    nnet = nnet3.Nnet.from_config(BASE)
    before, components = nnet.config_lines(), dict(nnet.components)
    with pytest.raises(ConfigError) as caught:
        nnet.apply_config(text)
    assert caught.value.message.startswith(message)
    assert nnet.config_lines() == before
    assert nnet.components == components


def test_a_hidden_input_does_not_displace_a_node() -> None:
    nnet = nnet3.Nnet.from_config(BASE + "input-node name=z_input dim=3")
    with pytest.raises(ConfigError, match="the name 'z_input' is taken by an existing node"):
        nnet.apply_config("component-node name=z component=noop input=input")


def test_the_printed_nodes_read_back() -> None:
    nnet = nnet3.Nnet.from_config(BASE + "dim-range-node name=r input-node=b dim=2 dim-offset=1")
    components = "\n".join(line for line in BASE.split("\n") if line.startswith("component "))
    again = nnet3.Nnet.from_config(components + "\n" + "\n".join(nnet.config_lines()))
    assert again.config_lines() == nnet.config_lines()


def test_orphans_are_warned_about() -> None:
    nnet = nnet3.Nnet.from_config(BASE + "component-node name=z component=noop input=input")
    assert nnet.warnings == ["node 'z' is never used to compute any output"]
    assert nnet3.Nnet.from_config(BASE).warnings == ["component 'noop' is never used by any node"]


def test_parameters_are_floats() -> None:
    nnet = nnet3.Nnet.from_config(BASE)
    with pytest.raises(ArgumentError, match=r"cannot be converted to torch\.int32: its parameters are floats"):
        nnet.to(dtype=torch.int32)


def test_the_seed_decides_the_parameters() -> None:
    first, same, other = (nnet3.Nnet.from_config(BASE, seed=seed) for seed in (1, 1, 2))
    params = [net.components["affine"].parameters()["linear_params"] for net in (first, same, other)]
    assert (params[0] == params[1]).all()
    assert (params[0] != params[2]).any()


def test_a_key_given_twice_is_warned_about() -> None:
    text = "input-node name=input dim=3 dim=4\noutput-node name=output input=input"
    nnet = nnet3.Nnet.from_config(text, source="my.config")
    assert nnet.node_dim("output") == 3
    assert nnet.warnings == [
        "my.config:1:29: 'dim' is given twice on this line\n"
        "  input-node name=input dim=3 dim=4\n"
        "                              ^^^ the first one counts"
    ]
    nested = "input-node name=input dim=3\ncomponent name=c type=CompositeComponent num-components=1 "
    nested += "component1='type=NoOpComponent dim=3 dim=5'\ncomponent-node name=c component=c input=input\n"
    (warning,) = nnet3.Nnet.from_config(f"{nested}output-node name=output input=c").warnings
    assert warning.startswith("<config>:2:96: 'dim' is given twice on this line")


@pytest.mark.parametrize(
    ("nodes", "place", "advice"),
    [
        ("component-node name=a component=noop input=Sum(input, Offset(a, -1))", "4:62", "IfDefined(Offset(a, -1))"),
        ("component-node name=a component=noop input=b\ncomponent-node name=b component=noop input=Offset(a, -3)",
         "5:51", "IfDefined(Offset(a, -3))"),
        ("component-node name=a component=noop input=Sum(Scale(2, input), Scale(2, Offset(a, 2)))",
         "4:81", "IfDefined(Offset(Scale(2, a), 2))"),
        ("component-node name=a component=noop input=Failover(Offset(a, -1), Offset(a, -2))",
         "4:60", "IfDefined(Offset(a, -1))"),
        ("component-node name=a component=noop input=Append(r, r, r)\n"
         "dim-range-node name=r input-node=b dim=1 dim-offset=2\n"
         "component-node name=b component=noop input=Offset(a, -1)", "6:51", "IfDefined(Offset(a, -1))"),
    ],
)  # fmt: skip
def test_a_recurrence_without_a_start_is_warned_about(nodes: str, place: str, advice: str) -> None:
    text = f"input-node name=input dim=3\ncomponent name=noop type=NoOpComponent dim=3\n\n{nodes}\n"
    warning, *others = nnet3.Nnet.from_config(f"{text}output-node name=output input=a").warnings
    assert all("is never used" in other for other in others)
    assert warning.startswith(f"<config>:{place}: the recurrence through ")
    assert "has no way to start" in warning
    assert f"write {advice}, which is zero" in warning
    started = text.replace("Offset(a, -", "Offset(input, -").replace("Offset(a, 2", "Offset(input, 2")
    others = nnet3.Nnet.from_config(f"{started}output-node name=output input=a").warnings
    assert not any("recurrence" in other for other in others)


def test_what_waits_for_a_recurrence_without_a_start_is_not_blamed() -> None:
    text = """
        input-node name=input dim=3
        component name=noop type=NoOpComponent dim=3
        component-node name=a component=noop input=Sum(input, Offset(a, -1))
        component-node name=b component=noop input=Sum(a, IfDefined(Offset(b, -1)))
        output-node name=output input=b
        output-node name=other input=input
    """
    (warning,) = nnet3.Nnet.from_config(text).warnings
    assert "the recurrence through 'a'" in warning


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("Affine", "AffineComponent"),
        ("affine", "AffineComponent"),
        ("NaturalGradientAffine", "NaturalGradientAffineComponent"),
        ("Tdnn", "TdnnComponent"),
        ("AfineComponent", "AffineComponent"),
        ("RectifiedLinar", "RectifiedLinearComponent"),
    ],
)
def test_a_type_without_its_component_is_understood(written: str, meant: str) -> None:
    error = failure(f"component name=a type={written} dim=3")
    assert error.hint == f"did you mean '{meant}'?"
