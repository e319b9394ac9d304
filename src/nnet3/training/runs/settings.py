"""Reads and checks settings files: every mistake is one error with the place, the expected and the actual value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, get_type_hints

from nnet3.base.options import run
from nnet3.base.options.compiling import DerivTimes
from nnet3.base.options.declaring import Option, Options, declared
from nnet3.base.text import did_you_mean
from nnet3.base.text.values import Number
from nnet3.errors import Nnet3Error, shown
from nnet3.training.runs.settings_text import SettingsText

_PLUGGED = ("data", "objective")  # sections whose keys depend on their `kind`


@dataclass(frozen=True)
class RunSettings:
    """A checked settings file. `data` and `objective` are sections of the kinds named; `text` is the source."""

    model: run.ModelSection
    lda: run.LdaSection
    data_kind: str
    data: Any
    objective_kind: str
    objective: Any
    training: run.TrainingSection
    validation: run.ValidationSection
    combination: run.CombinationSection
    priors: run.PriorsSection
    checkpoints: run.CheckpointsSection
    distributed: run.DistributedSection
    output: run.OutputSection
    text: SettingsText

    def arithmetic(self) -> dict[str, Any]:
        """Returns `section.key` -> value of all settings that the parameters of the trained network depend on."""
        return self._values(lambda item: item.steers)

    def all(self) -> dict[str, Any]:
        """Returns `section.key` -> value of all settings."""
        return self._values(lambda item: True)

    def _values(self, is_wanted: Callable[[Option], bool]) -> dict[str, Any]:
        values: dict[str, Any] = {"data.kind": self.data_kind, "objective.kind": self.objective_kind}
        for section in (*SECTIONS, *_PLUGGED):
            content = getattr(self, section)
            for item in filter(is_wanted, declared(type(content))):
                value = getattr(content, item.name)
                value = item.program_default if value is None else value
                values[f"{section}.{item.key}"] = list(value) if isinstance(value, tuple) else value
        return values


SECTIONS: dict[str, type[Options]] = {
    name: section
    for name, section in get_type_hints(RunSettings).items()
    if isinstance(section, type) and issubclass(section, Options)
}


def read_settings(
    text: SettingsText, data_kinds: Mapping[str, type[Options]], objective_kinds: Mapping[str, type[Options]]
) -> RunSettings:
    """Returns checked settings. Raises ConfigError for unknown or missing sections and keys, and wrong values."""
    known = (*SECTIONS, *_PLUGGED)
    for name in text.sections:
        if name not in known:
            hint = did_you_mean(name, known) or "known: " + ", ".join(known)
            raise text.error(name, "", "there is no such section", hint)
    read = {name: _section(text, name, section) for name, section in SECTIONS.items()}
    data_kind, data = _plugged(text, "data", data_kinds)
    objective_kind, objective = _plugged(text, "objective", objective_kinds)
    settings = RunSettings(
        data_kind=data_kind, data=data, objective_kind=objective_kind, objective=objective, text=text, **read
    )
    for section, key in (("model", "file"), ("output", "folder")):
        if not getattr(read[section], key):
            help = next(item.help for item in declared(SECTIONS[section]) if item.key == key)
            raise text.error(section, "", f"the key '{key}' is missing: expected {help}")
    _check_together(settings)
    return settings


def describe_settings(data_kinds: Mapping[str, type[Options]], objective_kinds: Mapping[str, type[Options]]) -> str:
    """Returns a settings file in TOML with every key, its default and help; all kinds but the first as comments."""
    pages = []
    for name, section in SECTIONS.items():
        pages.append(_describe(name, section))
        if name == "model":
            pages += _describe_kinds("data", data_kinds) + _describe_kinds("objective", objective_kinds)
    return "\n".join(pages)


def _describe_kinds(name: str, kinds: Mapping[str, type[Options]]) -> list[str]:
    """Returns the first kind as it would stand in a file, the others as comments."""
    first, *others = [_describe(name, section, kind) for kind, section in kinds.items()]
    return [first, *("".join(f"# {line}" for line in other.splitlines(keepends=True)) for other in others)]


def _describe(name: str, section: type[Options], kind: str = "") -> str:
    lines = [f"[{name}]  # {(section.__doc__ or '').strip()}"]
    pairs = [("kind", f'"{kind}"', "")] if kind else []
    pairs += [(item.key, _toml(item.program_default), item.help) for item in declared(section)]
    return "\n".join([*lines, *(f"{f'{key} = {value}':<38}# {help}".rstrip("# ") for key, value, help in pairs)]) + "\n"


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    return f'"{value}"' if isinstance(value, str) else repr(value)


def _plugged(text: SettingsText, name: str, kinds: Mapping[str, type[Options]]) -> tuple[str, Any]:
    """Returns the kind named by a section (by default the first), and the section as the kind reads it."""
    kind = text.sections.get(name, {}).get("kind", next(iter(kinds)))
    if not isinstance(kind, str) or kind not in kinds:
        hint = did_you_mean(str(kind), kinds) or "known: " + ", ".join(kinds)
        raise text.error(name, "kind", f"expected a kind of {name}, got {shown(kind)}", hint)
    return kind, _section(text, name, kinds[kind], extra=("kind",))


def _section(text: SettingsText, name: str, section: type[Options], extra: tuple[str, ...] = ()) -> Any:
    items = {item.key: item for item in declared(section)}
    values = {}
    for key, value in text.sections.get(name, {}).items():
        if key in extra:
            continue
        if key not in items:
            known = [*extra, *items]
            hint = did_you_mean(key, known) or "known: " + ", ".join(known)
            raise text.error(name, key, "there is no such key in this section", hint)
        try:
            values[items[key].name] = _value(items[key], value)
        except (ValueError, Nnet3Error) as error:
            hint = str(error) if isinstance(error, Nnet3Error) else ""
            raise text.error(name, key, f"expected {items[key].kind.expected}, got {shown(value)}", hint) from None
    try:
        return section(**values)
    except Nnet3Error as error:
        raise text.error(name, error.option.replace("_", "-"), str(error)) from None


def _value(item: Option, value: Any) -> Any:
    """Returns the value of a key; YAML takes 1e-3 for text."""
    if isinstance(value, str) and isinstance(item.kind, Number):
        value = item.kind.read(value)
    return item.kind.checked(value)


def _check_together(settings: RunSettings) -> None:
    training, text = settings.training, settings.text
    for item in declared(DerivTimes):
        if training.deriv_truncate_margin >= 0 and getattr(training, item.name) is not None:
            raise text.error("training", item.key, "deriv-truncate-margin says it too", "leave one of them out")
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
