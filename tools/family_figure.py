"""Draw the figure of program families in docs/architecture.md: python -m tools.family_figure [folder]."""

from __future__ import annotations

import sys
from pathlib import Path

import nnet3
from nnet3.base.drawing import Arc, Box, Graph, to_svg
from nnet3.engine.driver import compile_task
from tools.lowering_figure import FIGURES

CONFIG = """
input-node name=x dim=2
component name=affine type=AffineComponent input-dim=4 output-dim=2
component name=tanh type=TanhComponent dim=2
component-node name=affine component=affine input=Append(x, IfDefined(Offset(h, -1)))
component-node name=h component=tanh input=affine
output-node name=output input=h
"""


def figure() -> str:
    """Two short programs of a recurrence, the family that continues them, and two of its members."""
    nnet = nnet3.Nnet.from_config(CONFIG, seed=0)
    family = nnet3.compile_family(nnet, _request(40))
    short, long = family.frames, family.frames + family.step
    boxes = [
        Box("short", (f"compiled: T = {short}", *_written_out(nnet, short)), "memory"),
        Box("long", (f"compiled: T = {long}", *_written_out(nnet, long)), "memory"),
        Box(
            "proof",
            ("lowering/continuation", "what sweeps know of each node and time", "goes on alike: no frame is missing"),
            "function",
        ),
        Box("tables", ("families/continued: tables", *_tables(nnet, short, long)), "function"),
        Box("family", ("families/rolled, family: a program of T", *_recurrence(str(family))), "memory"),
        Box("third", ("compiled before: longer", "must be that of the family,", "command by command"), "input"),
        *(
            Box(f"T{frames}", (f"member: T = {frames}", *_recurrence(str(family.at(frames)))), "output")
            for frames in (100, 5000)
        ),
    ]
    arcs = [
        *(Arc("short", "proof"), Arc("long", "proof"), Arc("short", "tables"), Arc("long", "tables")),
        *(Arc("proof", "family"), Arc("tables", "family"), Arc("third", "family", "check")),
        *(Arc("family", "T100", "at(100)"), Arc("family", "T5000", "at(5000)")),
    ]
    return to_svg(Graph(boxes, arcs, "h(t) = tanh(W [x(t), h(t-1)] + b), T frames of one sequence"), use_graphviz=False)


def _request(frames: int) -> nnet3.ComputationRequest:
    times = [(0, t) for t in range(frames)]
    return nnet3.ComputationRequest([nnet3.IoSpecification("x", times)], [nnet3.IoSpecification("output", times)])


def _written_out(nnet: nnet3.Nnet, frames: int) -> list[str]:
    """The commands of the first two frames after the beginning, and the last of all frames."""
    commands = _commands(str(compile_task(_request(frames).task(nnet))))
    steps = [number for number, line in enumerate(commands) if "tanh" in line]
    return [*commands[steps[0] + 1 : steps[2] + 1], "...", commands[steps[-1]], f"{len(commands)} commands"]


def _tables(nnet: nnet3.Nnet, short: int, long: int) -> list[str]:
    programs = [compile_task(_request(frames).task(nnet)) for frames in (short, long)]
    counts = [[matrix.num_rows for matrix in program.matrices] for program in programs]
    rows = [f"m{number}: {few} and {more} rows" for number, (few, more) in enumerate(zip(*counts, strict=True))]
    return [*rows[1:], "three commands once more,", "their rows one further on"]


def _recurrence(program: str) -> list[str]:
    """The Repeat with its body, and how many commands there are."""
    commands = _commands(program)
    first = next(number for number, line in enumerate(commands) if ": repeat" in line)
    return [*commands[first : first + 4], f"{len(commands)} commands"]


def _commands(program: str) -> list[str]:
    return [line for line in program.splitlines() if line.lstrip().startswith("c")]


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FIGURES
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "family.svg").write_text(figure())


if __name__ == "__main__":
    main()
