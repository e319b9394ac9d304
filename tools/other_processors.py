"""Builds native code and its check in C for other processors, and runs it: `make native-others`.

The compiler is the one in the package ziglang. What this processor cannot run, qemu-user runs.
"""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from nnet3.base.native.library import _FLAGS, _SOURCES

_CHECK = Path(__file__).parent.parent / "tests" / "native" / "check.c"
#: Name, target and processor for the compiler, and the machine that runs it.
_PROCESSORS = (
    ("x86-64", "x86_64-linux-musl", "x86_64", "x86_64"),
    ("x86-64 with AVX2", "x86_64-linux-musl", "x86_64_v3", "x86_64"),
    ("ARM with NEON", "aarch64-linux-musl", "generic", "aarch64"),
)


def main() -> int:
    """Returns the number of processors whose check failed or could not run."""
    failed = 0
    with tempfile.TemporaryDirectory() as place:
        for name, target, cpu, machine in _PROCESSORS:
            program = Path(place) / cpu
            flags = [flag for flag in _FLAGS if flag not in ("-shared", "-fPIC")]
            compiler = [sys.executable, "-m", "ziglang", "cc", "-target", target, f"-mcpu={cpu}", "-static"]
            warnings = ["-Wall", "-Wextra", "-Werror"]
            subprocess.run(
                [*compiler, *warnings, *flags, "-o", str(program), str(_CHECK), *map(str, _SOURCES), "-lm"], check=True
            )
            runner = [] if machine == platform.machine() else [shutil.which(f"qemu-{machine}-static") or ""]
            if runner == [""]:
                print(f"{name}: built, not run, as there is no qemu-{machine}-static (Debian: qemu-user-static)")
                failed += 1
                continue
            done = subprocess.run([*runner, str(program)], capture_output=True, text=True, check=False)
            print(f"{name}: {done.stdout.strip() or f'ended with status {done.returncode}'}")
            failed += done.returncode != 0
    return failed


if __name__ == "__main__":
    sys.exit(main())
