"""Configs of a size that nobody writes by hand: read, or refused in words, with calls in proportion to their size."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nnet3.errors import ConfigError
from nnet3.model.nnet import Nnet, load_nnet
from nnet3.model.structure.cycles import _all_cycles_positive, _Arc
from nnet3.model.structure.normalize import parse_descriptor
from tests.call_count import assert_calls_in_proportion
from tests.effort import EFFORT

HEAD = "input-node name=input dim=1\ncomponent name=k type=NoOpComponent dim=1\n"


def _repeated(operator: str, count: int) -> str:
    return f"{operator}({', '.join(['input'] * count)})"


def _chain(length: int, first: str, backwards: bool = False) -> str:
    inputs = [first, *(f"c{number}" for number in range(length - 1))]
    lines = [f"component-node name=c{number} component=k input={source}\n" for number, source in enumerate(inputs)]
    return HEAD + "".join(reversed(lines) if backwards else lines) + f"output-node name=output input=c{length - 1}\n"


@pytest.mark.parametrize(
    "text_of",
    [
        lambda n: HEAD + "".join(f"output-node name=n{k} input=input\n" for k in range(n)),
        lambda n: HEAD + "".join(f"dim-range-node name=n{k} input-node=input dim-offset=0 dim=1\n" for k in range(n))
        + "output-node name=output input=input",
        lambda n: _chain(n, "input"),
        lambda n: _chain(n, f"Sum(input, IfDefined(Offset(c{n - 1}, -1)))"),
        lambda n: _chain(n, f"Sum(input, IfDefined(Offset(c{n - 1}, 1)))", backwards=True),
        lambda n: HEAD + f"output-node name=output input={_repeated('Append', n)}",
        lambda n: HEAD + f"output-node name=output input=Append({', '.join([_repeated('Sum', 150)] * (n // 80))})",
    ],
    ids=["outputs", "dim ranges", "chain", "ring", "backward ring", "append", "sums"],
)  # fmt: skip
def test_calls_are_in_proportion_to_size(text_of: Callable[[int], str]) -> None:
    def work(size: int) -> Callable[[], object]:
        text = text_of(size)
        return lambda: Nnet.from_config(text)

    assert_calls_in_proportion(work, 100, 500)


@pytest.mark.parametrize("length", [10, 1000])
def test_a_ring_is_gone_round_only_a_few_times(length: int) -> None:
    """To see that its offsets sum to less than zero; not as often as it has nodes."""

    class Arcs(list[_Arc]):
        rounds = 0

        def __iter__(self) -> Iterator[_Arc]:
            self.rounds += 1
            return super().__iter__()

    arcs = Arcs(_Arc(k, (k + 1) % length, (-(k == 0), 0)) for k in range(length))
    assert not _all_cycles_positive(arcs, 1, 0)
    assert arcs.rounds < 10


@pytest.mark.parametrize(
    ("descriptor", "message"),
    [
        ("Round(" * 90 + _repeated("Append", 1000) + ", 2)" * 90, "too large: 1000 nodes, nested 92 deep"),
        ("IfDefined(" * 151 + "input" + ")" * 151, "nested more than 150 deep"),
    ],
)  # fmt: skip
def test_what_is_too_large_is_refused(descriptor: str, message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse_descriptor(descriptor)
    assert message in str(raised.value)


@pytest.mark.parametrize("operator", ["", "Offset", "IfDefined"])
def test_a_sum_of_thousands_can_be_used_written_and_read(operator: str, tmp_path: Path) -> None:
    count = 2000 if EFFORT > 1 else 600
    terms = ", ".join(f"Offset(input, {k})" for k in range(1, count))
    outside = {"": "{}", "Offset": "Offset({}, 3)", "IfDefined": "IfDefined({})"}[operator]
    descriptor = parse_descriptor(f"Append(input, {outside.format(f'Sum({terms})')})")
    assert descriptor.dim(lambda name: 7) == 14
    assert len(descriptor.slots()) == count
    assert str(descriptor).count("Sum(") == count - 2
    assert parse_descriptor(str(descriptor)) == descriptor
    nnet = Nnet.from_config(f"{HEAD}output-node name=output input={descriptor}")
    assert pickle.loads(pickle.dumps(nnet)).config_lines() == nnet.config_lines()
    nnet.save(tmp_path / "sum.raw")
    assert load_nnet(tmp_path / "sum.raw").config_lines() == nnet.config_lines()
    assert nnet.copy().right_context == (0 if operator == "IfDefined" else count - 1 + 3 * (operator == "Offset"))
