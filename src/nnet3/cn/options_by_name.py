"""The options by which each parameter of a computational network learns, given for patterns of names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

from nnet3.base.options.network_training import ParameterOptions
from nnet3.errors import TrainingError, check_kind


class OptionsByName:
    """The options of a parameter: the common options, then changes by every pattern that fits the name, in order."""

    def __init__(self, of_all: ParameterOptions, by_pattern: Mapping[str, Mapping[str, Any]]):
        check_kind(by_pattern, Mapping, "parameters", "a mapping from names or patterns to options")
        self._of_all, self._known = of_all, dict[str, ParameterOptions]()
        self.by_pattern = {pattern: _checked(pattern, options) for pattern, options in by_pattern.items()}

    def check(self, names: list[str]) -> None:
        """Raises TrainingError for a pattern that fits no parameter."""
        for pattern in self.by_pattern:
            if not any(fnmatchcase(name, pattern) for name in names):
                raise TrainingError(f"no parameter has a name such as '{pattern}'; there is: {', '.join(names)}")

    @property
    def has_natural_gradients(self) -> bool:
        """True if some parameter may learn by natural gradient."""
        said = [options.get("natural_gradient", False) for options in self.by_pattern.values()]
        return self._of_all.natural_gradient or any(said)

    def has_natural_gradient(self, name: str) -> bool:
        """Returns true if a parameter with a natural gradient learns by it."""
        return self.of(name).natural_gradient

    def of(self, name: str) -> ParameterOptions:
        """Returns the options of a parameter."""
        if name not in self._known:
            found = self._of_all
            for pattern, options in self.by_pattern.items():
                if fnmatchcase(name, pattern):
                    found = replace(found, **options)
            self._known[name] = found
        return self._known[name]


def _checked(pattern: str, options: Mapping[str, Any]) -> dict[str, Any]:
    check_kind(pattern, str, "what options of parameters are for", "a name or a pattern")
    check_kind(options, Mapping, f"the options of parameters '{pattern}'", "a mapping from names of options to values")
    taken = ParameterOptions.named(**options)
    return {name: getattr(taken, name) for name in options}
