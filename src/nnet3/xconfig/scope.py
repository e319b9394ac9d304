"""The scope of a layer's input: the nodes of an existing model and the layers above."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from nnet3.errors import ConfigError, Span
from nnet3.text import did_you_mean
from nnet3.xconfig.expansion import Expansion, Output
from nnet3.xconfig.term import OPERATORS, Term, name


@dataclass(frozen=True)
class Known:
    """A layer or node of the scope; auxiliary outputs are called `name.suffix`."""

    name: str
    output: Output | None
    auxiliary: Mapping[str, Output] = field(default_factory=dict)


@dataclass
class Scope:
    """`existing`: nodes of a model that the new layers are put on; `layers`: those above; `below`: lines by name."""

    existing: list[Known] = field(default_factory=list)
    layers: list[Known] = field(default_factory=list)
    below: dict[str, int] = field(default_factory=dict)

    def add(self, layer_name: str, expansion: Expansion) -> None:
        """Let later layers refer to a layer."""
        self.layers.append(Known(layer_name, expansion.output, expansion.auxiliary))

    def previous(self, distance: int, span: Span | None) -> str:
        """The name of the layer `distance` layers above. Raises ConfigError if there are not so many."""
        if not self.layers:
            raise ConfigError("there is no layer above this one to take the input from", span, "say input=...")
        if distance > len(self.layers):
            raise ConfigError(f"[-{distance}]: there are only {len(self.layers)} layers above", span)
        return self.layers[-distance].name

    def resolve(self, word: str, span: Span | None) -> Output:
        """Returns the output of a name. Raises ConfigError for unknown names and for outputs that cannot be used."""
        base, _, rest = word.partition(".")
        owner = None
        for known in (*self.existing, *self.layers):
            if known.name == word:
                if known.output is None:
                    hint = "refer to " + ", ".join(f"'{word}.{suffix}'" for suffix in known.auxiliary)
                    raise ConfigError(
                        f"'{word}' is an output: nothing can follow it", span, hint if known.auxiliary else ""
                    )
                return known.output
            if known.name == base and rest:
                if rest in known.auxiliary:
                    return known.auxiliary[rest]
                owner = known
        raise self._unknown(word, span, owner)

    def _unknown(self, word: str, span: Span | None, owner: Known | None) -> ConfigError:
        if word in self.below:
            hint = "an input can only refer to layers above"
            return ConfigError(f"layer '{word}' comes only below, in line {self.below[word]}", span, hint)
        if owner is not None:
            names = [f"{owner.name}.{suffix}" for suffix in owner.auxiliary]
            hint = "it has " + ", ".join(f"'{n}'" for n in names) if names else f"say '{owner.name}', its one output"
            return ConfigError(f"layer '{owner.name}' has no output '{word}'", span, hint)
        names = [known.name for known in (*self.existing, *self.layers) if known.output is not None]
        hint = did_you_mean(word, names) or ("known: " + ", ".join(names[-12:]) if names else "")
        return ConfigError(f"unknown layer '{word}'", span, hint)


def layer_term(word: str, span: Span | None) -> Term:
    """The name of a layer as a term. Raises ConfigError if it is the name of an operator too."""
    if word in OPERATORS:
        raise ConfigError(f"a layer named '{word}' cannot be referred to: this is the name of an operator", span)
    return name(word)
