"""Collapsing random chains of layers and whole recipes: the output stays the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from nnet3 import Nnet
from nnet3.model.edits.collapse import collapse_model, prepare_for_test
from nnet3.model.nnet.load import load_nnet
from nnet3.options import CollapseOptions
from tests.effort import EFFORT, draws
from tests.nnet.run_network import frames, relative_error, run_network, simple_output
from tests.nnet.short_network import add_statistics, short_network
from tests.shared_data import golden_cases


@st.composite
def _chains(draw: st.DrawFn) -> str:
    """Layers one after the other, each of which sees its predecessor, spliced or not, and sometimes one before that."""
    lines: list[str] = []
    dims = {"input": 4}
    for number in range(draw(st.integers(1, 5))):
        name, names = f"n{number}", list(dims)
        source = names[-1] if draw(st.integers(0, 4)) else draw(st.sampled_from(names))
        offsets = draw(st.lists(st.integers(-2, 2), min_size=1, max_size=3))
        descriptor = f"Append({', '.join(f'Offset({source}, {offset})' for offset in offsets)})"
        dim, out = dims[source] * len(offsets), draw(st.integers(1, 12))
        kind, keys = draw(
            st.sampled_from(
                [
                    ("Affine", f"{dim}->{out}"),
                    ("NaturalGradientAffine", f"{dim}->{out}"),
                    ("Linear", f"{dim}->{out}"),
                    ("Tdnn", f"{dim}->{out} time-offsets=-1,1"),
                    ("Tdnn", f"{dim}->{out} time-offsets=0,2 use-bias=false"),
                    ("FixedAffine", f"{dim}->{out}"),
                    ("FixedScale", f"dim={dim}"),
                    ("BatchNorm", f"dim={dim} block-dim={dims[source]}"),
                    ("Dropout", f"dim={dim} dropout-proportion=0.25"),
                    ("Tanh", f"dim={dim}"),
                ]
            )
        )
        dims[name] = out if "->" in keys else dim
        lines.append(f"{name} {kind} {keys} < {descriptor}")
    return "\n".join(lines)


@given(lines=_chains(), options=st.builds(CollapseOptions))
@settings(max_examples=draws(25))
def test_random_chains_keep_their_output(lines: str, options: CollapseOptions) -> None:
    nnet = short_network(lines)
    nnet.set_test_mode(True)
    collapsed = nnet.copy()
    collapse_model(collapsed, options)
    assert relative_error(simple_output(collapsed, torch.float64), simple_output(nnet, torch.float64)) < 1e-12
    assert len(collapsed.components) <= len(nnet.components)
    again = collapsed.copy()
    collapse_model(again, options)
    assert again.config_lines() == collapsed.config_lines()
    assert nnet.left_context == collapsed.left_context
    assert nnet.right_context == collapsed.right_context


def _frames_for(nnet: Nnet, num_frames: int) -> dict[str, np.ndarray]:
    """What all inputs need to be given for outputs 0 .. num_frames - 1."""
    given = frames(-nnet.left_context, nnet.right_context + num_frames) if nnet.is_simple else frames(-30, 31)
    return dict.fromkeys(nnet.input_names, given)


@pytest.mark.parametrize("folder", golden_cases("recipe")[:: 3 if EFFORT == 1 else 1], ids=lambda folder: folder.name)
def test_recipes_keep_their_output(folder: Path) -> None:
    nnet = load_nnet(folder / "model.raw").to(dtype=torch.float64)
    add_statistics(nnet)
    nnet.set_test_mode(True)
    inputs, outputs = _frames_for(nnet, 1), dict.fromkeys(nnet.output_names, frames(0, 1))
    exact = run_network(nnet, inputs, outputs, torch.float64)
    prepare_for_test(nnet)
    collapsed = run_network(nnet, inputs, outputs, torch.float64)
    for name in outputs:
        assert relative_error(collapsed[name], exact[name]) < 1e-11


@pytest.mark.parametrize("folder", golden_cases("decode"), ids=lambda folder: folder.name)
def test_trained_statistics_in_float32(folder: Path) -> None:
    """Merging rounds no more than running does."""
    nnet = load_nnet(folder / "model.raw")
    nnet.set_test_mode(True)
    inputs, outputs = _frames_for(nnet, 10), dict.fromkeys(nnet.output_names, frames(0, 10, 3))
    exact = run_network(nnet.copy().to(dtype=torch.float64), inputs, outputs, torch.float64)
    prepare_for_test(nnet)
    collapsed = run_network(nnet, inputs, outputs)
    for name in outputs:
        assert relative_error(collapsed[name], exact[name]) < 1e-5
