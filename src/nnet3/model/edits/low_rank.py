"""The directives apply-svd and reduce-rank, which lower the rank of affine components."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from nnet3.base.text import ConfigLine
from nnet3.engine.ir.matrices import is_finite
from nnet3.model.components.affine import low_rank_pair
from nnet3.model.components.base import Component
from nnet3.model.edits.edit_directives import matching, nothing_matched
from nnet3.model.nnet.network import Nnet
from nnet3.model.structure.descriptor import Descriptor, Simple
from nnet3.model.structure.forwarding import NodeReference
from nnet3.model.structure.nodes import ComponentNode, DescriptorNode, NnetNode
from nnet3.model.structure.parts import without_orphans

_MATRIX = "linear_params"  # of an affine component
_MOST_SHOWN = 3


def apply_svd(nnet: Nnet, line: ConfigLine) -> list[str]:
    """Factors each matching affine component NAME into a linear NAME_a to few dimensions and an affine NAME_b."""
    pattern = line.string("name")
    options = _read_svd_options(line)
    affine, warnings = _matching_affine(nnet, pattern)
    factors: dict[str, tuple[Component, Component]] = {}
    bottleneck_dim = options.bottleneck_dim
    for name, component in affine.items():
        if min(component.input_dim, component.output_dim) <= bottleneck_dim:
            warnings.append(f"'{name}' is left as it is: {_size(component)}, the bottleneck has {bottleneck_dim}")
            continue
        u, s, v = _svd(component, name, line)
        if options.energy_threshold > 0:
            # as in Kaldi, later components are compared with the dimension found for this one
            bottleneck_dim = _dim_of_energy(s, options.energy_threshold)
        size = component.input_dim * component.output_dim
        ratio = bottleneck_dim * (component.input_dim + component.output_dim) / size
        if ratio > options.shrinkage_threshold:
            what = f"factors of dimension {bottleneck_dim} would have {ratio:.3g} times its parameters"
            most = f"more than shrinkage-threshold={options.shrinkage_threshold:g}"
            warnings.append(f"'{name}' is left as it is: {what}, {most}")
            continue
        factors[name] = low_rank_pair(component, u[:, :bottleneck_dim], s[:bottleneck_dim], v[:, :bottleneck_dim])
    if factors:
        _insert_factors(nnet, factors, line)
    return warnings


def reduce_rank(nnet: Nnet, line: ConfigLine) -> list[str]:
    """Replaces W by the nearest matrix of the given rank: the sum of its largest singular components."""
    pattern = line.string("name")
    rank = line.integer("rank", minimum=1)
    affine, warnings = _matching_affine(nnet, pattern)
    for name, component in affine.items():
        if min(component.input_dim, component.output_dim) <= rank:
            warnings.append(f"'{name}' is left as it is: {_size(component)}, so its rank is at most {rank} already")
            continue
        u, s, v = _svd(component, name, line)
        linear = component.parameters()[_MATRIX]
        setattr(component, _MATRIX, ((u[:, :rank] * s[:rank]) @ v[:, :rank].t()).to(linear))
    return warnings


@dataclass(frozen=True)
class _SvdOptions:
    bottleneck_dim: int
    energy_threshold: float
    shrinkage_threshold: float


def _read_svd_options(line: ConfigLine) -> _SvdOptions:
    options = _SvdOptions(
        line.integer("bottleneck-dim", -1),
        line.number("energy-threshold", -1.0, below=1.0),
        line.number("shrinkage-threshold", 1.0, above=0.0),  # 1: factor only what then has fewer parameters
    )
    if options.bottleneck_dim <= 0 and options.energy_threshold <= 0:
        raise line.error("give bottleneck-dim > 0 or energy-threshold > 0: how small is the bottleneck to be?")
    return options


def _matching_affine(nnet: Nnet, pattern: str) -> tuple[dict[str, Component], list[str]]:
    """Returns the affine components that match the pattern; warns of no match and of matches of other types."""
    found = matching(nnet.components, pattern)
    if not found:
        return {}, nothing_matched("component", pattern, nnet.components)
    affine, others = {}, []
    for name in found:
        component = nnet.components[name]
        if component.is_affine:
            affine[name] = component
        else:
            others.append(f"{name} ({component.type_name})")
    if not others:
        return affine, []
    more = f" and {len(others) - _MOST_SHOWN} more" if len(others) > _MOST_SHOWN else ""
    return affine, [f"passed over, being no affine component: {', '.join(others[:_MOST_SHOWN])}{more}"]


def _size(component: Component) -> str:
    return f"it is {component.input_dim} -> {component.output_dim}"


def _svd(component: Component, name: str, line: ConfigLine) -> tuple[Tensor, Tensor, Tensor]:
    """W = U diag(s) V^T in float64, singular values in decreasing order."""
    matrix = component.parameters()[_MATRIX].double()
    if not is_finite(matrix):
        raise line.error(f"component '{name}' has a NaN or an infinity in its parameters", "name")
    u, s, vt = torch.linalg.svd(matrix, full_matrices=False)
    return u, s, vt.t()


def _dim_of_energy(s: Tensor, threshold: float) -> int:
    """Returns the smallest k with s_1^2 + ... + s_k^2 >= threshold * sum of all s_i^2."""
    energy = s.square().cumsum(0)
    return int((energy < threshold * energy[-1]).sum()) + 1


def _insert_factors(nnet: Nnet, factors: dict[str, tuple[Component, Component]], line: ConfigLine) -> None:
    """Puts the nodes N_a and N_b in the place of each node N whose component is factored; orphans are removed."""
    components = dict(nnet.components)
    for name, pair in factors.items():
        for new, component in zip((f"{name}_a", f"{name}_b"), pair, strict=True):
            if new in components:
                raise line.error(f"the component name '{new}' is already taken", "name")
            components[new] = component
    nodes: list[NnetNode] = []
    names: dict[str, str] = {}
    for node in nnet.nodes:
        if not isinstance(node, ComponentNode) or node.component not in factors:
            nodes.append(node)
            continue
        hidden = nodes.pop()
        nodes += _factor_nodes(node, hidden)
        names[node.name] = f"{node.name}_b"
    name, count = Counter(node.name for node in nodes).most_common(1)[0]
    if count > 1:
        raise line.error(f"the node name '{name}' is already taken", "name")
    renamed = tuple(node.with_sources(names) for node in nodes)
    nnet.replace_parts(without_orphans(replace(nnet.parts, nodes=renamed, components=components)))


def _factor_nodes(node: ComponentNode, hidden: NnetNode) -> list[NnetNode]:
    first, second = f"{node.name}_a", f"{node.name}_b"
    return [
        replace(hidden, name=f"{first}_input"),
        ComponentNode(first, f"{node.component}_a", span=node.span),
        DescriptorNode(f"{second}_input", Descriptor((Simple(NodeReference(first)),)), span=node.span),
        ComponentNode(second, f"{node.component}_b", span=node.span),
    ]
