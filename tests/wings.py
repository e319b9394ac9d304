"""The wings of the package and their rooms, in the order in which they may import each other."""

from __future__ import annotations

from collections.abc import Sequence

#: Each wing with its rooms; a wing without rooms is a room itself.
WINGS = {
    "base": ("text", "options", "index", "native", "kaldi_io", "drawing"),
    "engine": ("ir", "schedule", "lowering", "families", "driver", "runtime"),
    "model": ("components", "hmm", "structure", "xconfig", "nnet", "edits", "requests"),
    "inference": (),
    "training": ("examples", "train", "chain", "discriminative", "rnnlm", "runs"),
    "speech": (
        "arrays",
        "features",
        "language_models",
        "lattices",
        "search",
        "asr",
        "speaker",
        "tuning",
        "serve",
    ),
    "export": (),
    "cn": (),
    "explore": (),
    "cli": (),
}
FOR_ALL = ("stubs", "errors", "version")  # files beside the wings that every file may import
ROOMS = [*FOR_ALL, *(room for wing, rooms in WINGS.items() for room in rooms or (wing,))]


def room_of(parts: Sequence[str]) -> str:
    """Returns the room of a module of the package, given by the parts of its name; "" for a public file or a wing."""
    if parts[0] in FOR_ALL:
        return parts[0]
    rooms = WINGS.get(parts[0])
    if rooms is None:
        return ""
    return parts[0] if not rooms else parts[1] if len(parts) > 1 else ""
