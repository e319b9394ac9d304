"""Edits: what is refused and how, that a refused text changes nothing, and what only warns."""

from __future__ import annotations

import pytest
import torch

from nnet3 import Nnet
from nnet3.errors import ConfigError
from nnet3.model.edits.edits import DIRECTIVES, apply_edits, edits_from_option
from tests.edits.edited_network import edited_network, node_names
from tests.nnet.run_network import simple_output

# ---- what is refused ----

BAD = [
    (
        "set-lerning-rate learning-rate=1",
        "unknown directive, got 'set-lerning-rate'",
        "did you mean 'set-learning-rate'",
    ),
    ("frobnicate", "unknown directive, got 'frobnicate'", "known: convert-to-fixed-affine, "),
    ("name=x", "a line that begins with key=value", "known: "),
    ("set-learning-rate", "set-learning-rate: 'learning-rate=' is missing", ""),
    ("set-learning-rate lerning-rate=0.1", "'learning-rate=' is missing", "is it the misspelt 'lerning-rate'"),
    ("set-learning-rate learning-rate=fast", "'learning-rate' must be a number, got 'fast'", "^^^^"),
    ("set-learning-rate learning-rate=-1", "'learning-rate' must be >= 0", "^^"),
    ("set-learning-rate learning-rate=1 nmae=x", "unknown key 'nmae'", "did you mean 'name'"),
    ("set-learning-rate-factor name=*", "'learning-rate-factor=' is missing", ""),
    ("set-learning-rate-factor learning-rate-factor=nan", "must be a finite number", ""),
    (
        "set-dropout-proportion proportion=1.5",
        "'proportion' must be within [0, 1], got 1.5",
        "^^^",
    ),
    ("set-dropout-proportion proportion=-0.5", "'proportion' must be within [0, 1]", ""),
    ("set-dropout-proportion", "'proportion=' is missing", ""),
    ("convert-to-fixed-affine names=x", "unknown key 'names'", "did you mean 'name'"),
    ("remove-orphans name=x", "unknown key 'name'", ""),
    ("remove-orphan-components remove-orphan-inputs=true", "unknown key 'remove-orphan-inputs'", ""),
    ("remove-orphan-nodes remove-orphan-inputs=maybe", "must be true or false, got 'maybe'", ""),
    ("rename-node old-name=tdnn1.afine new-name=x", "no node 'tdnn1.afine'", "did you mean 'tdnn1.affine'"),
    ("rename-node old-name=final_input new-name=x", "no node 'final_input' that can be renamed", ""),
    ("rename-node old-name=final new-name=2nd", "'2nd' is not a valid name", "^^^"),
    ("rename-node old-name=final new-name=half", "the node name 'half' is already taken", "^^^^"),
    ("rename-node old-name=half new-name=half", "the node name 'half' is already taken", "^^^^"),
    ("rename-node old-name=half new-name=final_input", "the node name 'final_input' is already taken", ""),
    ("rename-node old-name=final", "'new-name=' is missing", ""),
    ("remove-output-nodes", "'name=' is missing", ""),
    ("remove-output-nodes name=out*", "no output node would remain: 'out*' matches output, output-xent", "^^^^"),
    ("apply-svd bottleneck-dim=3", "'name=' is missing", ""),
    ("apply-svd name=*", "give bottleneck-dim > 0 or energy-threshold > 0", ""),
    ("apply-svd name=* bottleneck-dim=0", "give bottleneck-dim > 0 or energy-threshold > 0", ""),
    ("apply-svd name=* energy-threshold=1", "'energy-threshold' must be < 1", ""),
    ("apply-svd name=* bottleneck-dim=3 shrinkage-threshold=0", "'shrinkage-threshold' must be > 0", ""),
    ("reduce-rank name=*", "'rank=' is missing", ""),
    ("reduce-rank name=* rank=0", "'rank' must be >= 1, got 0", "^"),
]


@pytest.mark.parametrize(("edit", "message", "note"), BAD, ids=[bad[0] for bad in BAD])
def test_refused_edit_says_why_and_changes_nothing(edit: str, message: str, note: str) -> None:
    nnet = edited_network()
    before, parts = nnet.info(), nnet.parts
    first = (
        "set-learning-rate learning-rate=7\nreduce-rank name=tdnn2* rank=2\nrename-node old-name=tdnn1.relu new-name=r"
    )
    text = f"{first}\n{edit}"
    with pytest.raises(ConfigError) as raised:
        apply_edits(nnet, text, source="my.edits")
    assert str(raised.value).startswith("my.edits:4:")
    assert message in str(raised.value)
    assert note in str(raised.value)
    assert nnet.info() == before
    assert nnet.parts is parts


def test_refused_edit_restores_the_parameters() -> None:
    nnet = edited_network()
    before = simple_output(nnet)
    with pytest.raises(ConfigError):
        apply_edits(nnet, "reduce-rank name=tdnn* rank=1\napply-svd name=tdnn2.affine bottleneck-dim=3\nnonsense")
    assert torch.equal(simple_output(nnet), before)


def test_refused_edit_restores_settings_inside_a_composite() -> None:
    parts = "num-components=1 component1='type=AffineComponent input-dim=3 output-dim=3 learning-rate=0.5'"
    nnet = Nnet.from_config(
        f"input-node name=input dim=3\ncomponent name=c type=CompositeComponent {parts}\n"
        "component-node name=c component=c input=input\noutput-node name=output input=c"
    )
    before = nnet.info()
    with pytest.raises(ConfigError):
        apply_edits(nnet, "set-learning-rate learning-rate=7\nnonsense")
    assert nnet.info() == before


# ---- warnings ----

UNMATCHED = [
    (
        "set-learning-rate name=tdnn1.afine learning-rate=1",
        "no updatable component matches 'tdnn1.afine'; did you mean 'tdnn1.affine'?",
    ),
    ("set-learning-rate name=tdnn1.relu learning-rate=1", "no updatable component matches 'tdnn1.relu'"),
    ("set-learning-rate-factor name=tdnn learning-rate-factor=1", "no updatable component matches 'tdnn'"),
    ("set-dropout-proportion name=*affine proportion=0", "no dropout component matches '*affine'"),
    ("convert-to-fixed-affine name=final", "no affine component matches 'final'"),
    ("remove-output-nodes name=final*", "no output node matches 'final*'"),
    ("apply-svd name=tdnn3* bottleneck-dim=2", "no component matches 'tdnn3*'"),
    ("reduce-rank name=nothing rank=2", "no component matches 'nothing'"),
    ("reduce-rank name=final rank=2", "passed over, being no affine component: final (LinearComponent)"),
    (
        "reduce-rank name=tdnn2.affine rank=10",
        "'tdnn2.affine' is left as it is: it is 10 -> 10, so its rank is at most 10",
    ),
    (
        "apply-svd name=tdnn2.affine bottleneck-dim=10",
        "'tdnn2.affine' is left as it is: it is 10 -> 10, the bottleneck has 10",
    ),
    (
        "apply-svd name=tdnn2.affine bottleneck-dim=6",
        "'tdnn2.affine' is left as it is: factors of dimension 6 would have 1.2 times its parameters, more than",
    ),
]


@pytest.mark.parametrize(("edit", "warning"), UNMATCHED, ids=[case[0] for case in UNMATCHED])
def test_edit_without_effect_warns(edit: str, warning: str) -> None:
    nnet = edited_network()
    before = nnet.info()
    (got,) = apply_edits(nnet, f"# a comment\n{edit}", source="my.edits")
    assert got.startswith(f"my.edits:2: {edit.split()[0]}: {warning}")
    assert nnet.info() == before


def test_types_passed_over_are_shown_in_one_short_warning() -> None:
    (warning,) = apply_edits(edited_network(), "reduce-rank name=* rank=5")
    assert warning.endswith(
        "tdnn1.relu (RectifiedLinearComponent), tdnn1.dropout (DropoutComponent), final (LinearComponent)"
    )


def test_warnings_of_all_lines_are_given() -> None:
    lines = "set-learning-rate name=nobody learning-rate=1\nremove-orphans\nset-learning-rate name=nix learning-rate=1"
    warnings = apply_edits(edited_network(), lines, source="my.edits")
    assert [warning.split(":")[1] for warning in warnings] == ["1", "3"]


# ---- the text ----


def test_lines_are_applied_in_order() -> None:
    nnet = edited_network()
    apply_edits(nnet, edits_from_option("rename-node old-name=final new-name=f; rename-node old-name=f new-name=g ;;"))
    assert "g" in node_names(nnet)


@pytest.mark.parametrize("text", ["", "\n\n# nothing\n", ";"])
def test_nothing_to_do(text: str) -> None:
    nnet = edited_network()
    before = nnet.info()
    assert apply_edits(nnet, edits_from_option(text)) == []
    assert nnet.info() == before


@pytest.mark.parametrize("directive", DIRECTIVES)
def test_every_directive_refuses_an_unknown_key(directive: str) -> None:
    keys = "learning-rate=1 learning-rate-factor=1 old-name=half new-name=x name=output proportion=0 rank=2"
    keys += " energy-threshold=0.5"
    with pytest.raises(ConfigError, match=f"{directive}: unknown key"):
        apply_edits(edited_network(), f"{directive} {keys}")


def test_a_key_given_twice_is_warned_about() -> None:
    nnet = edited_network()
    (warning,) = apply_edits(nnet, "set-learning-rate learning-rate=7 learning-rate=8", source="my.edits")
    assert warning.startswith("my.edits:1:35: 'learning-rate' is given twice on this line\n")
    assert warning.endswith("^^^^^^^^^^^^^ the first one counts")
