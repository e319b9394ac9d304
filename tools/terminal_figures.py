"""Draw docs/figures/terminal_*.svg, what commands print as a terminal shows it.

python -m tools.terminal_figures [NAME...]
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

from tools.kill_training_data import write_examples

FIGURES = Path(__file__).resolve().parents[1] / "docs" / "figures"
NETWORK = """\
input name=input dim=5
relu-batchnorm-layer name=tdnn1 dim=16 input=Append(-1,0,1)
tdnnf-layer name=tdnnf2 dim=16 bottleneck-dim=4 time-stride=1
output-layer name=output dim=3
"""
AFFINE = """\
input-node name=input dim=2
component name=affine type=AffineComponent input-dim=4 output-dim=3
component-node name=affine component=affine input=Append(Offset(input, -1), input)
output-node name=output input=affine
"""
LEARNER = "".join(line for line in NETWORK.splitlines(keepends=True) if "tdnnf" not in line)
RUN = """\
[model]
file = "learner.xconfig"
[data]
train = "ark:train.ark"
valid = "ark:valid.ark"
minibatch-size = 8
[training]
epochs = 3
[combination]
models = 4
[output]
folder = "exp"
print-every = 4
curves = false
tensorboard = false
"""
#: Name, command, whether what it prints is the same each time.
COMMANDS = {
    "program": ("nnet3 show-computation --input=input=-1:3 --output=output=0:3 affine.config", False),
    "info": ("nnet3 info net.xconfig", True),
    "profile": ("nnet3 profile --train=true --by=node,kind --limit=10 net.xconfig", False),
    "train": ("nnet3 train-model run.toml", False),
    "error": ("nnet3 info wrong.config", True),
}
_WIDTH = 110
_FONTS = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)  # a picture loads nothing
_CONTROLS = re.compile(r"\x1b\[(?:\?25[lh]|\d*[A-LST])")  # all but colours


def figure(name: str) -> str:
    """The SVG of a command and what it prints."""
    command, _ = COMMANDS[name]
    with tempfile.TemporaryDirectory() as folder:
        write_files(Path(folder))
        printed = _run(command, Path(folder))
    console = Console(record=True, width=_WIDTH, file=io.StringIO(), force_terminal=True, legacy_windows=False)
    console.print(Text.assemble(("$ ", "bold green"), command))
    console.print(Text.from_ansi(printed.rstrip("\n")))
    svg = console.export_svg(title="", unique_id=f"terminal-{name}")
    return _FONTS.sub("", svg).replace("Fira Code, monospace", "monospace")


def write_files(folder: Path) -> None:
    """Write configs, examples and the settings of a run."""
    (folder / "net.xconfig").write_text(NETWORK)
    (folder / "learner.xconfig").write_text(LEARNER)
    (folder / "affine.config").write_text(AFFINE)
    (folder / "wrong.config").write_text(AFFINE.replace("input=affine", "input=afine"))
    (folder / "run.toml").write_text(RUN)
    write_examples(folder / "train.ark", 100, 1)
    write_examples(folder / "valid.ark", 20, 2)


def _run(command: str, folder: Path) -> str:
    environment = {**os.environ, "FORCE_COLOR": "1", "COLUMNS": str(_WIDTH), "OMP_NUM_THREADS": "1"}
    words = [sys.executable, "-m", *command.split()]
    done = subprocess.run(
        words, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    lines = [_CONTROLS.sub("", line).rpartition("\r")[2].rstrip() for line in done.stdout.split("\n")]
    return "\n".join(line for line in lines if "frames/s" not in line and "starting" not in line).strip("\n")


if __name__ == "__main__":
    for chosen in sys.argv[1:] or COMMANDS:
        (FIGURES / f"terminal_{chosen}.svg").write_text(figure(chosen))
