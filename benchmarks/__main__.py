"""What single parts cost, one after another: `make bench-parts`. The page of benchmarks is `benchmarks.page`."""

from __future__ import annotations

import subprocess
import sys

BENCHMARKS = (
    "compile",
    "lengths",
    "tdnnf",
    "precision",
    "decoding",
    "streams",
    "natural_gradient",
    "startup",
    "model_files",
    "cn_lstm",
    "cn_stepping",
    "cn_training",
    "cn_asynchronous",
    "torch_module",
    "export",
    "chain",
    "examples",
    "training",
)

if __name__ == "__main__":
    failed = [name for name in BENCHMARKS if subprocess.run([sys.executable, "-m", f"benchmarks.{name}"]).returncode]
    sys.exit(f"failed: {', '.join(failed)}" if failed else 0)
