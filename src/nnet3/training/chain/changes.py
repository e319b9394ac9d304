"""Changes single chain examples: shifts times, cuts context, names languages."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nnet3.errors import TrainingError
from nnet3.training.chain.example import ChainExample, renamed
from nnet3.training.examples.copying import ContextChanges, filter_times, shift_times
from nnet3.training.examples.sequence_example import E

_OUTPUT, _LANG = "output", "lang="


@dataclass(frozen=True)
class ChainChanges(ContextChanges):
    """Changes of examples; the default changes nothing.

    `frame_shift` is added to every t of inputs but the ivector's. Outputs move by the nearest multiple of their step (a
    half upwards): between multiples the network sees the same outputs with its input moved. Then rows of `input` more
    than `left_context`, `right_context` frames away from the outputs are left out, in examples that are not merged.
    """

    def apply(self, example: E) -> E:
        """Returns the changed example. TrainingError if it is merged and its context is to be cut."""
        if self.frame_shift:
            inputs = tuple(shift_times(io, self.frame_shift) for io in example.inputs)
            outputs = tuple(_shifted(target, self.frame_shift) for target in example.outputs)
            example = replace(example, inputs=inputs, outputs=outputs)
        if self.left_context is None and self.right_context is None:
            return example
        rows = [io.indexes for io in example.inputs] + [target.indexes for target in example.outputs]
        if any(indexes[:, 0].any() for indexes in rows):
            raise TrainingError("context can be cut in single examples only: this one is merged")
        times = np.concatenate([target.indexes[:, 1] for target in example.outputs])
        kept = self.kept(int(times.min()), int(times.max()))
        inputs = tuple(filter_times(io, *kept) if io.name == "input" else io for io in example.inputs)
        return replace(example, inputs=inputs)


def _shifted(target: Any, shift: int) -> Any:
    """Moves a target by the multiple of its step that is nearest to `shift`."""
    rows = target.indexes.astype(np.int64)
    step = int(rows[target.supervision.num_sequences, 1] - rows[0, 1])
    rows[:, 1] += step * ((2 * shift + step) // (2 * step))
    if abs(rows[:, 1]).max() >= 2**31:
        raise TrainingError(f"shifted by {shift} frames, '{target.name}' would have t beyond 32 bits")
    return replace(target, indexes=rows.astype(np.int32))


def language_of_key(key: str, default: str = "default") -> str:
    """Returns fr of a key such as merged-1-64?lang=fr, and `default` of a key without a language (as in Kaldi)."""
    _, mark, query = key.rpartition("?")
    found = [value.removeprefix(_LANG) for value in query.split("&") if value.startswith(_LANG)] if mark else []
    return found[0] if found else default


def key_with_language(key: str, example: ChainExample) -> str:
    """Returns the key with the language of the first output behind it, ?lang=fr for output-fr; `output` has none."""
    _, dash, language = example.outputs[0].name.partition("-")
    return f"{key}?{_LANG}{language}" if dash else key


def named_by_key(key: str, example: ChainExample) -> ChainExample:
    """Returns the example with its first output named for the language in the key; unchanged without a language."""
    language = language_of_key(key, "")
    if not language:
        return example
    first, *others = example.outputs
    return replace(example, outputs=(replace(first, name=f"{_OUTPUT}-{language}"), *others))


def in_language(example: ChainExample, language: str) -> ChainExample:
    """Returns the example with `output`, if present, renamed to the output of a language, output-LANG."""
    if all(target.name != _OUTPUT for target in example.outputs):
        return example
    return renamed(example, f"{_OUTPUT}-{language}")
