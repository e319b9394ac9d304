"""Left and right context of networks that look at thousands of frames (golden networks: test_info.py)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nnet3.errors import NetworkError
from nnet3.model.edits.edits import apply_edits
from nnet3.model.nnet import Nnet
from nnet3.model.structure import context
from nnet3.model.structure.context import compute_context, node_contexts
from tests.call_count import assert_calls_in_proportion, count_calls

X_VECTOR = """
input-node name=input dim=24
component name=extract type=StatisticsExtractionComponent input-dim=72 input-period=1 output-period=1
component name=pool type=StatisticsPoolingComponent input-dim=145 left-context=0 right-context={}
component-node name=extract component=extract input=Append(Offset(input, -2), input, Offset(input, 2))
component-node name=pool component=pool input=extract
output-node name=output input=pool
"""


def test_many_inputs_of_one_output_take_no_more_calls_than_some() -> None:
    """An x-vector network pools over up to 10001 frames of which any number may be missing."""
    some, many = (Nnet.from_config(X_VECTOR.format(right_context)) for right_context in (1000, 10_000))
    assert compute_context(many.parts) == (0, 2)
    assert count_calls(compute_context, many.parts) == count_calls(compute_context, some.parts)


RECURRENT = """
input-node name=input dim=1
component name=noop type=NoOpComponent dim=1
component-node name=a component=noop input=Sum(input, {})
output-node name=output input=a
"""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("input-node name=input dim=1\noutput-node name=output input=Round(input, 1001)",
         "repeats after 1001 frames only"),
        (RECURRENT.format("ReplaceIndex(input, t, 0)"), "no output is computable, however much input is given"),
        (RECURRENT.format("Offset(a, -1)"), r"no output is computable, .*\n.*the recurrence through 'a' has no way to"),
        (RECURRENT.format("Switch(Offset(a, -1), Offset(a, -2))"), "the recurrence through 'a' has no way to start"),
        (RECURRENT.format("Switch(Offset(input, 10000000), Offset(input, -10000000))"),
         "no output is computable from [0-9]"),
    ],
)  # fmt: skip
def test_a_context_that_cannot_be_found(text: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context, "_MOST_TRIED", 200_000)
    nnet = Nnet.from_config(text)
    with pytest.raises(NetworkError, match=message):
        _ = nnet.left_context


def test_what_is_known_of_a_network_follows_its_changes() -> None:
    text = "input-node name=input dim=1\noutput-node name=output input={}"
    nnet = Nnet.from_config(text.format("Offset(input, -2)"))
    copied = nnet.copy()
    assert (nnet.left_context, nnet.right_context, nnet.modulus) == (2, 0, 1)
    before = nnet.fingerprint()
    nnet.apply_config("output-node name=output input=Round(Offset(input, 5), 3)")
    assert (nnet.left_context, nnet.right_context, nnet.modulus) == (0, 5, 3)
    assert nnet.fingerprint() != before
    apply_edits(nnet, "rename-node old-name=input new-name=features")
    assert nnet.node("features").name == "features"
    assert not nnet.is_simple
    assert (copied.left_context, copied.right_context, copied.modulus) == (2, 0, 1)
    assert copied.fingerprint() == before


def _deep(count: int) -> Nnet:
    lines = ["input-node name=input dim=1", "component name=k type=NoOpComponent dim=1"]
    lines += [
        f"component-node name=n{k} component=k input=Offset({f'n{k - 1}' if k else 'input'}, {k % 3 - 1})"
        for k in range(count)
    ]
    return Nnet.from_config("\n".join([*lines, f"output-node name=output input=Append(n{count - 1}, n10)"]))


def test_thousands_of_nodes() -> None:
    assert compute_context(_deep(5_000).parts) == (1, 0)


def test_calls_are_in_proportion_to_the_number_of_nodes() -> None:
    def work(count: int) -> Callable[[], object]:
        parts = _deep(count).parts
        return lambda: compute_context(parts)

    assert_calls_in_proportion(work, 300, 1200)


LAYERS = """
input-node name=input dim=2
input-node name=ivector dim=1
component name=noop type=NoOpComponent dim=2
component name=three type=NoOpComponent dim=3
component-node name=later component=noop input=Offset(input, 3)
component-node name=memory component=noop input=Sum(Scale(0.5, input), IfDefined(Offset(memory, -1)))
component-node name=speaker component=three input=Append(later, ReplaceIndex(ivector, t, 0))
component-node name=coarse component=noop input=Round(Sum(later, Offset(memory, -4)), 3)
component-node name=unneeded component=noop input=input
output-node name=output input=Append(coarse, speaker)
output-node name=other input=Offset(coarse, 1)
"""


def test_the_context_of_each_node() -> None:
    """Each is the context of a network whose output is that node."""
    nnet = Nnet.from_config(LAYERS)
    contexts = node_contexts(nnet.parts)
    assert contexts["input"] == (0, 0)
    assert contexts["later"] == (-3, 3)
    assert contexts["memory"] == (0, 0)
    assert contexts["coarse"] == (6, 3)
    assert not {"unneeded", "ivector"} & set(contexts)
    for name, (left, right) in contexts.items():
        nnet.apply_config(f"output-node name=output input={nnet_source(name)}")
        assert compute_context(nnet.parts) == (max(left, 0), max(right, 0)), name


def nnet_source(name: str) -> str:
    return {"output": "Append(coarse, speaker)", "other": "Offset(coarse, 1)"}.get(name, name)


def test_nodes_have_no_context_where_a_recurrence_may_start_in_two_ways() -> None:
    nnet = Nnet.from_config(RECURRENT.format("Switch(Offset(input, -1), Offset(input, -2))"))
    assert node_contexts(nnet.parts) == {}
    assert compute_context(nnet.parts) == (2, 0)
