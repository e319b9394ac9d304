"""Write docs/components.md: what of each component type works when it is tried, and in which golden cases it occurs."""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch

import nnet3
from nnet3.components import COMPONENT_TYPES, Component, Properties
from tools.component_samples import SAMPLES

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "components.md"
TRIED = ("config", "forward", "backward", "update", "text", "binary")
GOLDEN_SETS = {
    "component": "component.bin",
    "random": "model.raw",
    "recipe": "model.raw",
    "mdl": "final.mdl",
    "decode": "model.raw",
    "train": "start.raw",
}
"""Folder of golden cases, and the file in each case that says which types it has."""

NOT_APPLICABLE = ""


@dataclass
class Trial:
    """One type: `cells` holds yes, NOT_APPLICABLE or what went wrong for each of TRIED."""

    type_name: str
    cells: dict[str, str] = field(default_factory=dict)

    def attempt(self, what: str, action: Callable[[], str | None]) -> None:
        """Do it; the cell is what it returns, by default yes."""
        try:
            result = action()
            self.cells[what] = "yes" if result is None else result
        except Exception as error:  # every kind of failure belongs in the table
            self.cells[what] = f"no: {type(error).__name__}"


def try_type(type_name: str) -> Trial:
    """Make a sample of the type, run it in a network of its own, write and read it."""
    trial = Trial(type_name)
    trial.attempt("config", lambda: _config(type_name))
    if trial.cells["config"] != "yes":
        return trial
    component = nnet3.components.create(type_name, SAMPLES[type_name], seed=1)
    try:
        network = TinyNetwork(component)
    except Exception as error:
        trial.cells["forward"] = f"no: {type(error).__name__}"
        return trial
    for what in ("forward", "backward", "update"):
        trial.attempt(what, getattr(network, what))
    trial.attempt("text", lambda: _round_trip(component, binary=False))
    trial.attempt("binary", lambda: _round_trip(component, binary=True))
    return trial


class TinyNetwork:
    """input -> the component -> output, over two sequences of some frames, with gradients collected."""

    def __init__(self, component: Component):
        type_name, dim = component.type_name, max(component.input_dim, 1)
        lines = (
            f"input-node name=input dim={dim}",
            f"component name=tried type={type_name} {SAMPLES[type_name]}",
            "component-node name=tried component=tried input=input",
            "output-node name=output input=tried",
        )
        self.component = component
        self.nnet = nnet3.Nnet.from_config("\n".join(lines), seed=1)
        self.gradient = self.nnet.gradient_copy()
        x_values = range(2) if type_name == "DistributeComponent" else range(1)
        self.needs_input = component.wanted_inputs(_table(range(1))).shape[1] > 0
        inputs = [nnet3.IoSpecification("input", _table(range(-4, 8)), has_deriv=self.needs_input)]
        outputs = [nnet3.IoSpecification("output", _table(range(0, 4), x_values), has_deriv=True)]
        request = nnet3.ComputationRequest(inputs, outputs, need_model_derivative=True, store_component_stats=True)
        self.computer = nnet3.NnetComputer(
            nnet3.compile(self.nnet, request, nnet3.CompileOptions(check=True)), self.nnet, nnet_to_update=self.gradient
        )
        generator = torch.Generator().manual_seed(1)
        self.x = torch.rand(len(inputs[0].indexes), dim, generator=generator) + 0.1
        self.y_deriv = torch.randn(len(outputs[0].indexes), component.output_dim, generator=generator)

    def forward(self) -> None:
        self.computer.accept_input("input", self.x)
        self.computer.run()
        y = self.computer.get_output("output")
        assert y.shape == self.y_deriv.shape
        assert y.isfinite().all()

    def backward(self) -> str | None:
        self.computer.accept_input("output", self.y_deriv)
        self.computer.run()
        if not self.needs_input:
            return NOT_APPLICABLE
        x_deriv = self.computer.get_output("input")
        assert x_deriv.shape == self.x.shape
        assert x_deriv.isfinite().all()
        return None

    def update(self) -> str | None:
        """After `backward`: the gradient copy has a gradient in every parameter."""
        if not self.component.properties & Properties.UPDATABLE:
            return NOT_APPLICABLE
        parameters = self.gradient.components["tried"].parameters()
        assert parameters
        assert all(bool(tensor.isfinite().all()) and bool(tensor.any()) for tensor in parameters.values())
        return None


def _table(times: range, x_values: range = range(1)) -> np.ndarray:
    return np.array([(n, t, x) for n in range(2) for t in times for x in x_values], np.int32)


def _config(type_name: str) -> None:
    component = nnet3.components.create(type_name, SAMPLES[type_name], seed=1)
    assert component.info().startswith(type_name)


def _round_trip(component: Component, *, binary: bool) -> None:
    """Write, read, write again: the same bytes and the same description."""
    with tempfile.TemporaryDirectory() as folder:
        first, second = Path(folder) / "first", Path(folder) / "second"
        component.write(str(first), binary=binary)
        again = nnet3.components.read(first)
        again.write(str(second), binary=binary)
        assert first.read_bytes() == second.read_bytes()
        assert again.info() == component.info()


def count_golden_cases(golden: Path) -> dict[str, dict[str, int]]:
    """For each golden set, in how many of its cases each type occurs."""
    counts: dict[str, dict[str, int]] = {}
    for name, file in GOLDEN_SETS.items():
        counts[name] = {}
        for path in sorted((golden / name).glob(f"*/{file}")):
            for type_name in set(re.findall(r"<(\w+Component)>", path.read_bytes().decode("latin-1"))):
                counts[name][type_name] = counts[name].get(type_name, 0) + 1
    return counts


def page(golden: Path) -> str:
    """The whole of docs/components.md."""
    counts = count_golden_cases(golden)
    header = ["type", *TRIED, *GOLDEN_SETS]
    rows = []
    for type_name in sorted(COMPONENT_TYPES):
        cells = try_type(type_name).cells
        module = COMPONENT_TYPES[type_name].__module__.rpartition(".")[2]
        link = f"[{type_name.removesuffix('Component')}](../src/nnet3/model/components/{module}.py)"
        golden_cells = [str(counts[name].get(type_name, "")) for name in GOLDEN_SETS]
        rows.append([link, *(cells.get(what, "no") for what in TRIED), *golden_cells])
    lines = [_line(header), _line(["---"] * len(header)), *map(_line, rows)]
    return _INTRODUCTION.format(count=len(rows)) + "\n".join(lines) + "\n"


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


_INTRODUCTION = """# Component types

Made by `make components`; do not edit. A test sees to it that the table is up to date.

All {count} types, without the word Component. The columns from config to binary were tried when the table was made,
with the sample configs in `tools/component_samples.py`. *config*: made from a config line and described. *forward* and
*backward*: run in a network of its own; values and input derivatives are finite. *update*: a gradient copy has a
gradient in every parameter. *text* and *binary*: written, read and written again, the same bytes. An empty cell means
that there is nothing to do: no input, or no parameters. The last columns count Kaldi's own results in which the type
occurs and with which the tests compare: components alone, random networks, recipes, acoustic models, decoding and
training. `tests/components` compares derivatives with finite differences or a slow formula.

"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shared", type=Path, required=True, help="the shared folder, which holds golden/")
    arguments = parser.parse_args()
    golden = arguments.shared / "golden"
    if not golden.is_dir():
        parser.error(f"{golden} is not there")
    text = page(golden)
    PAGE.write_text(text)
    failures = len(re.findall(r"\| no", text))
    print(f"{PAGE.relative_to(ROOT)}: {text.count('| [')} types, {failures} failures")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
