"""A whole settings file, checked: every mistake is one error that says where, what was expected and what was got."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nnet3.compiler import NO_DERIV_TIMES
from nnet3.errors import Nnet3Error
from nnet3.text import did_you_mean
from nnet3.train.run.sections import (
    SECTIONS,
    CheckpointsSection,
    CombinationSection,
    DistributedSection,
    ModelSection,
    OutputSection,
    TrainingSection,
    ValidationSection,
)
from nnet3.train.run.settings_text import SettingsText

_WIDEST_VALUE = 60
_PLUGGED = ("data", "objective")  # sections whose keys depend on their `kind`


@dataclass(frozen=True)
class RunSettings:
    """`data` and `objective` are sections of the kinds that they name; `text` is where all this comes from."""

    model: ModelSection
    data_kind: str
    data: Any
    objective_kind: str
    objective: Any
    training: TrainingSection
    validation: ValidationSection
    combination: CombinationSection
    checkpoints: CheckpointsSection
    distributed: DistributedSection
    output: OutputSection
    text: SettingsText

    def arithmetic(self) -> dict[str, Any]:
        """`section.key` -> value of all settings that the parameters of the trained network depend on."""
        values: dict[str, Any] = {"data.kind": self.data_kind, "objective.kind": self.objective_kind}
        for section in (*SECTIONS, *_PLUGGED):
            content = getattr(self, section)
            for field in dataclasses.fields(content):
                if field.metadata["arithmetic"]:
                    value = getattr(content, field.name)
                    values[f"{section}.{_key(field)}"] = list(value) if isinstance(value, tuple) else value
        return values


def read_settings(
    text: SettingsText, data_kinds: Mapping[str, type], objective_kinds: Mapping[str, type]
) -> RunSettings:
    """Raises ConfigError for unknown sections and keys, values of the wrong kind, and what is missing."""
    known = (*SECTIONS, *_PLUGGED)
    for name in text.sections:
        if name not in known:
            hint = did_you_mean(name, known) or "known: " + ", ".join(known)
            raise text.error(name, "", "there is no such section", hint)
    sections = {name: _section(text, name, section) for name, section in SECTIONS.items()}
    data_kind, data = _plugged(text, "data", data_kinds)
    objective_kind, objective = _plugged(text, "objective", objective_kinds)
    settings = RunSettings(
        data_kind=data_kind, data=data, objective_kind=objective_kind, objective=objective, text=text, **sections
    )
    for section, key in (("model", "file"), ("output", "folder")):
        if not getattr(sections[section], key):
            raise text.error(section, "", f"the key '{key}' is missing: expected {_help(SECTIONS[section], key)}")
    _check_together(settings)
    return settings


def describe_settings(data_kinds: Mapping[str, type], objective_kinds: Mapping[str, type]) -> str:
    """A settings file in TOML with every key, its default and what it is for; all kinds but the first as comments."""
    pages = []
    for name, section in SECTIONS.items():
        pages.append(_describe(name, section))
        if name == "model":
            pages += _describe_kinds("data", data_kinds) + _describe_kinds("objective", objective_kinds)
    return "\n".join(pages)


def _describe_kinds(name: str, kinds: Mapping[str, type]) -> list[str]:
    """The first kind as it would stand in a file, the others as comments."""
    first, *others = [_describe(name, section, kind) for kind, section in kinds.items()]
    return [first, *("".join(f"# {line}" for line in other.splitlines(keepends=True)) for other in others)]


def _describe(name: str, section: type, kind: str = "") -> str:
    lines = [f"[{name}]  # {(section.__doc__ or '').strip()}"]
    pairs = [("kind", f'"{kind}"', "")] if kind else []
    for field in dataclasses.fields(section):
        pairs.append((_key(field), _toml(field.default), field.metadata["help"]))
    return "\n".join([*lines, *(f"{f'{key} = {value}':<38}# {help}".rstrip("# ") for key, value, help in pairs)]) + "\n"


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    return f'"{value}"' if isinstance(value, str) else repr(value)


def _plugged(text: SettingsText, name: str, kinds: Mapping[str, type]) -> tuple[str, Any]:
    """The kind that a section names (the first known one by default), and the section as that kind reads it."""
    kind = text.sections.get(name, {}).get("kind", next(iter(kinds)))
    if kind not in kinds:
        hint = did_you_mean(str(kind), kinds) or "known: " + ", ".join(kinds)
        raise text.error(name, "kind", f"expected a kind of {name}, got {_shown(kind)}", hint)
    return kind, _section(text, name, kinds[kind], extra=("kind",))


def _section(text: SettingsText, name: str, section: type, extra: tuple[str, ...] = ()) -> Any:
    fields = {_key(field): field for field in dataclasses.fields(section)}
    values = {}
    for key, value in text.sections.get(name, {}).items():
        if key in extra:
            continue
        if key not in fields:
            known = [*extra, *fields]
            hint = did_you_mean(key, known) or "known: " + ", ".join(known)
            raise text.error(name, key, "there is no such key in this section", hint)
        kind = fields[key].metadata["kind"]
        try:
            values[fields[key].name] = kind.convert(value)
        except (ValueError, TypeError, OverflowError, Nnet3Error) as error:
            own = isinstance(error, Nnet3Error)
            raise text.error(
                name, key, f"expected {kind.expected}, got {_shown(value)}", str(error) if own else ""
            ) from None
    return section(**values)


def _check_together(settings: RunSettings) -> None:
    training, text = settings.training, settings.text
    if training.backstitch_training_scale > 0 and training.momentum > 0:
        raise text.error("training", "momentum", f"backstitch needs momentum 0, got {training.momentum:g}")
    for name, no_limit in NO_DERIV_TIMES.items():
        if training.deriv_truncate_margin >= 0 and getattr(training, name) != no_limit:
            key = name.replace("_", "-")
            raise text.error("training", key, "deriv-truncate-margin says it too", "leave one of them out")
    if training.min_deriv_time > training.max_deriv_time:
        found = f"expected at most max-deriv-time, {training.max_deriv_time}, got {training.min_deriv_time}"
        raise text.error("training", "min-deriv-time", found)
    if training.final_learning_rate > training.initial_learning_rate and ("training", "final-learning-rate") not in (
        text.places
    ):
        raise text.error(
            "training",
            "initial-learning-rate",
            f"expected at least final-learning-rate, which is {training.final_learning_rate:g} by default, "
            f"got {training.initial_learning_rate:g}",
            "give final-learning-rate too",
        )


def _help(section: type, key: str) -> str:
    return str(next(field.metadata["help"] for field in dataclasses.fields(section) if _key(field) == key))


def _key(field: dataclasses.Field[Any]) -> str:
    return field.name.replace("_", "-")


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _WIDEST_VALUE else f"{text[:_WIDEST_VALUE]}..."
