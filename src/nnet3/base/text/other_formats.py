"""Names of widespread file formats, for messages: such files are given by mistake for models, archives and texts."""

from __future__ import annotations

import mmap
import re

_FORMATS = {
    re.compile(rb"RIFF.{4}WAVE", re.DOTALL): "a recording (WAV)",
    re.compile(rb"\x1f\x8b"): "packed by gzip (gunzip unpacks it)",
    re.compile(rb"PK\x03\x04"): "a ZIP file, such as torch.save writes",
}


def other_format(contents: bytes | bytearray | memoryview | mmap.mmap) -> str:
    """Returns "this is a recording (WAV)" and the like for a file in such a format, else ""."""
    return next((f"this is {name}" for pattern, name in _FORMATS.items() if pattern.match(contents)), "")
