"""Build wheel and sdist, look at them, install the wheel in a clean environment and try it.

Without extras the package reads, computes and shows, and what needs an extra says which. Then each extra is tried
alone, in an environment that has it and nothing else besides. Nothing is uploaded.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CONFIG = """
input-node name=input dim=2
component name=affine type=AffineComponent input-dim=4 output-dim=3
component-node name=affine component=affine input=Append(Offset(input, -1), input)
output-node name=output input=affine
"""
IMPORTS = "import numpy as np, torch, nnet3; from nnet3 import cn; nnet = nnet3.load_nnet('net.raw'); "
GRAPH = "cn.Network(outputs={'y': cn.tanh(cn.input('x', 2))})"
#: What works without any extra.
ALONE = (
    "nnet3 --version",
    "nnet3 init net.config net.raw",
    "nnet3 info net.raw",
    "nnet3 explore net.raw net.html",
    "nnet3 show-computation net.raw",
    "nnet3-copy --binary=false net.raw net.txt",
    f'python -c "{IMPORTS} print(nnet.compute(torch.ones(4, 2)).shape)"',
    f"python -c \"{IMPORTS} print({GRAPH}.evaluate('y', dict(x=np.ones((2, 3)))).shape)\"",
)
#: For each extra a command that needs it, and what the command says without it.
EXTRAS = {
    "safetensors": (f"python -c \"{IMPORTS} cn.save({GRAPH}, 'net.cn')\"", "pip install safetensors"),
    "drawing": ("nnet3 draw --graphviz=false net.config net.svg", "nnet3[drawing]"),
    "onnx": ("nnet3 export-onnx net.raw net.onnx", "nnet3[onnx]"),
    "training": ("nnet3 train-model run.yaml", "pip install pyyaml"),
    "demo": ('python -c "import sklearn, matplotlib"', "No module named"),
    "asr": ('python -c "import kaldi_native_fbank, kaldifst, kaldi_decoder; from nnet3.asr import Model"', "No module"),
    "chain": ('python -c "import kaldifst, kaldi_decoder; from nnet3.chain import graphs"', "No module named"),
    "native": (
        'PATH=$(dirname "$(command -v python)") XDG_CACHE_HOME=$PWD/cache '
        'python -c "from nnet3.base.native.library import library; assert library()"',
        "nnet3[native]",
    ),
    "serve": ('python -c "from nnet3.serve import Server"', "nnet3[serve]"),
}


def build(folder: Path) -> Path:
    """Returns the wheel, built and looked at together with the sdist."""
    _run([sys.executable, "-m", "build", "--outdir", str(folder), str(ROOT)], ROOT)
    made = sorted(map(str, folder.iterdir()))
    _run([sys.executable, "-m", "twine", "check", "--strict", *made], ROOT)
    (wheel,) = folder.glob("*.whl")
    _run([sys.executable, "-m", "check_wheel_contents", str(wheel)], ROOT)
    return wheel


def try_alone(wheel: Path, folder: Path) -> Path:
    """Returns the folder of packages of an environment that has the wheel and what it requires, and nothing else."""
    environment = _environment(folder / "alone", [str(wheel)])
    (folder / "net.config").write_text(CONFIG)
    (folder / "run.yaml").write_text("model:\n  file: net.config\n")
    for command in ALONE:
        _in(environment, command, folder)
        print(f"works: {command}")
    for extra, (command, said) in EXTRAS.items():
        done = _in(environment, command, folder, may_fail=True)
        assert done.returncode, f"{command} works without {extra}"
        assert said in done.stdout, f"{command} says {done.stdout!r}, not {said}"
        print(f"without {extra}: {done.stdout.strip().splitlines()[-1]}")
    (packages,) = (environment / "lib").glob("python*/site-packages")
    return packages


def try_extra(extra: str, wheel: Path, packages: Path, folder: Path) -> None:
    """Try one extra alone, on top of what the wheel requires."""
    environment = _environment(folder / extra, [f"{wheel}[{extra}]"], packages)
    command, said = EXTRAS[extra]
    done = _in(environment, command, folder, may_fail=True)
    assert said not in done.stdout, done.stdout
    print(f"with {extra}: {command.partition(chr(59))[0]} goes on")


def _environment(path: Path, wanted: list[str], packages: Path | None = None) -> Path:
    venv.create(path, with_pip=True)
    if packages is not None:
        (own,) = (path / "lib").glob("python*/site-packages")
        (own / "alone.pth").write_text(f"{packages}\n")
    constraints = ["-c", str(ROOT / "constraints.txt")]
    _run([str(path / "bin" / "python"), "-m", "pip", "install", "--quiet", *constraints, *wanted], path)
    return path


def _in(environment: Path, command: str, folder: Path, may_fail: bool = False) -> subprocess.CompletedProcess[str]:
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    variables["PATH"] = f"{environment / 'bin'}:{variables['PATH']}"
    done = subprocess.run(
        ["sh", "-c", command], cwd=folder, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert may_fail or done.returncode == 0, f"{command}: {done.stdout}"
    return done


def _run(command: list[str], folder: Path) -> None:
    subprocess.run(command, cwd=folder, check=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where all of it goes: a folder that is empty or not there")
    parser.add_argument("--extras", nargs="*", default=list(EXTRAS), help="the extras to try")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    the_wheel = build(given.folder.resolve() / "dist")
    installed = try_alone(the_wheel, given.folder.resolve())
    for each in given.extras:
        try_extra(each, the_wheel, installed, given.folder.resolve())
