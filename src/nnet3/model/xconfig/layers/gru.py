"""GRU layers: of single gates (gru-layer and its family), and with one component for all gates (fast-gru-layer ...)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from nnet3.model.xconfig.expansion import Expander
from nnet3.model.xconfig.layer import Key, Layer, LayerType, options
from nnet3.model.xconfig.layers.common import L2_REGULARIZE_NUMBER, NO_OP
from nnet3.model.xconfig.layers.recurrent import (
    BACK_KEYS,
    DROPOUT_PER_FRAME,
    DROPOUT_PROPORTION,
    PER_ELEMENT_OPTIONS,
    SELF_REPAIR_NONLINEARITY,
    RecurrentUnit,
    affine_options,
    cell_type,
    projected_type,
)
from nnet3.model.xconfig.statements import settings
from nnet3.model.xconfig.term import Term, add

_BEFORE_OPTIONS = (*BACK_KEYS, affine_options("max-change=0.75"))
_UNUSED_OPTIONS = replace(PER_ELEMENT_OPTIONS, help="Not used, as in Kaldi.")
_COMMON_KEYS = (*_BEFORE_OPTIONS, _UNUSED_OPTIONS, SELF_REPAIR_NONLINEARITY)
_OUTPUT_GATE_KEYS = (*_BEFORE_OPTIONS, PER_ELEMENT_OPTIONS, SELF_REPAIR_NONLINEARITY)
_DROPOUT_KEYS = (DROPOUT_PROPORTION, replace(DROPOUT_PER_FRAME, default=True))


def _gate_node(unit: RecurrentUnit, gate: str, component: str, dropout: str, kept: str = "predrop_t") -> Term:
    """Expands the node `GATE_t` of a gate over input and state; with dropout a node `GATE_<kept>` comes before it."""
    before = unit.node(f"{gate}_t_pre", component, unit.input, unit.previous("s_t"))
    if not unit.has_dropout:
        return unit.node(f"{gate}_t", gate, before)
    return unit.node(f"{gate}_t", dropout, unit.node(f"{gate}_{kept}", gate, before))


def _mixed(unit: RecurrentUnit, old: Term) -> None:
    """Adds `y_t`: new and old values, mixed by the update gate z."""
    unit.node("y1_t", "y1", unit("h_t"), unit.one_minus("z_t"))
    unit.node("y2_t", "y2", old, unit("z_t"))
    unit.node("y_t", "y", add(unit("y1_t"), unit("y2_t")))


def _expand_gru(layer: Layer, expander: Expander, *, projected: bool = True, normalised: bool = False) -> None:
    """Expands gru-layer, pgru-layer and norm-pgru-layer."""
    unit = RecurrentUnit(layer, expander)
    C, R, input_dim = unit.C, unit.R, layer.input_dim
    unit.affine("W_z.xs_z", input_dim + R, C)
    unit.affine("W_z.xs_r", input_dim + R, R)
    unit.affine("W_h.UW", input_dim + R, C)
    if unit.has_dropout:
        unit.dropout("dropout_z", C)
        unit.dropout("dropout_r", R)
    unit.gate("z")
    unit.gate("r", dim=R)
    unit.tanh("h")
    unit.product("h1", R)
    unit.product("y1")
    unit.product("y2")
    expander.component("y", NO_OP, settings(dim=C))
    _gate_node(unit, "z", "W_z.xs_z", "dropout_z")
    _gate_node(unit, "r", "W_z.xs_r", "dropout_r")
    unit.node("h1_t", "h1", unit("r_t"), unit.previous("s_t"))
    unit.node("h_t_pre", "W_h.UW", unit.input, unit("h1_t"))
    unit.node("h_t", "h", unit("h_t_pre"))
    _mixed(unit, unit.previous("y_t" if projected else "s_t"))
    if not projected:
        unit.truncation("s_r", C)
        expander.output(unit.node("s_t", "s_r", unit("y_t")), C)
        return
    unit.affine("W_s.ys", C, R + unit.P)
    unit.truncation("s_r", R)
    if not normalised:
        _project(unit, unit("y_t"))
    else:
        _norms(unit)
        unit.node("sn_nobatchnorm_t", "W_s.ys", unit("y_t"))
        unit.columns("s_t_preclip", "sn_nobatchnorm_t", 0, R)
        unit.node("sn_t", "batchnorm", unit("sn_nobatchnorm_t"))
        unit.node("s_t", "s_r", unit.node("s_renorm_t", "renorm", unit("s_t_preclip")))
    expander.output(unit("sn_t"), R + unit.P)


def _project(unit: RecurrentUnit, output: Term) -> None:
    """Adds the projection, part of which is the state."""
    unit.node("sn_t", "W_s.ys", output)
    unit.columns("s_t_preclip", "sn_t", 0, unit.R)
    unit.node("s_t", "s_r", unit("s_t_preclip"))


def _norms(unit: RecurrentUnit) -> None:
    unit.batch_norm("batchnorm", unit.R + unit.P, target_rms=1.0)
    unit.renorm("renorm", unit.R)


def _expand_opgru(layer: Layer, expander: Expander, *, normalised: bool = False) -> None:
    """Expands opgru-layer and norm-opgru-layer: the gate is at the output instead of the state."""
    unit = RecurrentUnit(layer, expander)
    C, R, input_dim = unit.C, unit.R, layer.input_dim
    unit.affine("W_z.xs_z", input_dim + R, C)
    unit.affine("W_z.xs_o", input_dim + R, C)
    unit.affine("W_h.UW", input_dim, C)
    unit.per_element_scale("W_h.UW_elementwise")
    unit.gate("z")
    unit.gate("o")
    unit.tanh("h")
    for product in ("o1", "y1", "y2"):
        unit.product(product)
    expander.component("y", NO_OP, settings(dim=C))
    if unit.has_dropout:
        unit.dropout("dropout", C)
    _gate_node(unit, "z", "W_z.xs_z", "dropout")
    _gate_node(unit, "o", "W_z.xs_o", "dropout")
    unit.node("h_t_pre", "W_h.UW", unit.input)
    unit.node("h_t_pre2", "W_h.UW_elementwise", unit.previous("y_t"))
    unit.node("h_t", "h", add(unit("h_t_pre"), unit("h_t_pre2")))
    _mixed(unit, unit.previous("y_t"))
    gated = unit.node("y_o_t", "o1", unit("o_t"), unit("y_t"))
    unit.affine("W_s.ys", C, R + unit.P)
    unit.truncation("s_r", R)
    if not normalised:
        _project(unit, gated)
    else:
        _norms(unit)
        unit.node("sn_nobatchnorm_t", "W_s.ys", gated)
        unit.node("sn_t", "batchnorm", unit("sn_nobatchnorm_t"))
        unit.columns("s_t_preclip", "sn_nobatchnorm_t", 0, R)
        unit.node("s_t", "s_r", unit.node("s_t_preclip_renorm", "renorm", unit("s_t_preclip")))
    expander.output(unit("sn_t"), R + unit.P)


PROJECTED = "A gated recurrent unit whose output is projected to fewer columns, part of which are fed back."
OUTPUT_GATE = "A projected gated recurrent unit with an output gate instead of a reset gate."


def _both_types(
    prefix: str,
    name: str,
    summary: str,
    keys: tuple[Key, ...],
    expand: Callable[..., None],
    normalised_keys: tuple[Key, ...] = (),
) -> tuple[LayerType, LayerType]:
    """Declares a projected type and the normalised form, with dropout and further keys."""
    article = "An" if f"{prefix}{name}".startswith("o") else "A"
    normalised = f"{article} {prefix}{name} whose output is batch-normalised and whose state is normalised"
    return (
        projected_type(f"{prefix}{name}", summary, keys, expand),
        projected_type(
            f"{prefix}norm-{name}",
            f"{normalised}, with dropout of the gates.",
            (*keys, *_DROPOUT_KEYS, *normalised_keys),
            partial(expand, normalised=True),
        ),
    )


LAYER_TYPES = (
    cell_type(
        "gru-layer",
        "A gated recurrent unit, a component for each of its parts; fast-gru-layer is quicker.",
        _COMMON_KEYS,
        partial(_expand_gru, projected=False),
    ),
    *_both_types("", "pgru-layer", PROJECTED, _COMMON_KEYS, _expand_gru),
    *_both_types("", "opgru-layer", OUTPUT_GATE, _OUTPUT_GATE_KEYS, _expand_opgru, (L2_REGULARIZE_NUMBER,)),
)


_FAST_KEYS = (
    *_COMMON_KEYS,
    options("gru-nonlinearity-options", "Further settings of the nonlinearity.", "max-change=0.75"),
)


_gate = partial(_gate_node, kept="t_predrop")


def _expand_fast_gru(layer: Layer, expander: Expander) -> None:
    unit = RecurrentUnit(layer, expander)
    C, input_dim = unit.C, layer.input_dim
    unit.affine("W_z.xh", input_dim + C, C)
    unit.affine("W_r.xh", input_dim + C, C)
    unit.affine("W_hpart.x", input_dim, C)
    unit.gate("z")
    unit.gate("r")
    gates = [_gate(unit, "z", "W_z.xh", ""), _gate(unit, "r", "W_r.xh", "")]
    part = unit.node("hpart_t", "W_hpart.x", unit.input)
    nonlinearity = settings(cell_dim=C) + layer.options("gru-nonlinearity-options")
    expander.component("gru_nonlin", "GruNonlinearityComponent", nonlinearity)
    unit.node("gru_nonlin_t", "gru_nonlin", *gates, part, unit.previous("s_t"))
    output = unit.columns("y_t", "gru_nonlin_t", C, C)
    unit.truncation("s_r", C)
    unit.node("s_t", "s_r", output)
    expander.output(output, C)


def _expand_fast_pgru(layer: Layer, expander: Expander, *, normalised: bool = False) -> None:
    """Expands fast-pgru-layer and fast-norm-pgru-layer."""
    unit = RecurrentUnit(layer, expander)
    C, R, input_dim = unit.C, unit.R, layer.input_dim
    unit.affine("W_z.xs", input_dim + R, C)
    unit.affine("W_r.xs", input_dim + R, R)
    unit.affine("W_hpart.x", input_dim, C)
    unit.gate("z")
    unit.gate("r", dim=R)
    if unit.has_dropout:
        unit.dropout("dropout_z", C)
        unit.dropout("dropout_r", R)
    gates = [_gate(unit, "z", "W_z.xs", "dropout_z"), _gate(unit, "r", "W_r.xs", "dropout_r")]
    part = unit.node("hpart_t", "W_hpart.x", unit.input)
    nonlinearity = settings(cell_dim=C, recurrent_dim=R) + layer.options("gru-nonlinearity-options")
    expander.component("gru_nonlin", "GruNonlinearityComponent", nonlinearity)
    unit.node("gru_nonlin_t", "gru_nonlin", *gates, part, unit.previous("c_t"), unit.previous("s_t"))
    unit.columns("c_t", "gru_nonlin_t", C, C)
    unit.affine("W_y.c", C, R + unit.P)
    _end(unit, "W_y.c", unit("c_t"), "s_t_pre", normalised=normalised)


def _expand_fast_opgru(layer: Layer, expander: Expander, *, normalised: bool = False) -> None:
    """Expands fast-opgru-layer and fast-norm-opgru-layer: the gate is at the output instead of the state."""
    unit = RecurrentUnit(layer, expander)
    C, R, input_dim = unit.C, unit.R, layer.input_dim
    unit.affine("W_z.xs", input_dim + R, C)
    unit.affine("W_o.xs", input_dim + R, C)
    unit.affine("W_hpart.x", input_dim, C)
    unit.gate("z")
    unit.gate("o")
    if unit.has_dropout:
        unit.dropout("dropout", C)
    update_gate = _gate(unit, "z", "W_z.xs", "dropout")
    output_gate = _gate(unit, "o", "W_o.xs", "dropout")
    part = unit.node("hpart_t", "W_hpart.x", unit.input)
    nonlinearity = settings(cell_dim=C) + layer.options("gru-nonlinearity-options")
    expander.component("gru_nonlin", "OutputGruNonlinearityComponent", nonlinearity)
    unit.node("gru_nonlin_t", "gru_nonlin", update_gate, part, unit.previous("c_t"))
    unit.columns("c_t", "gru_nonlin_t", C, C)
    unit.product("cdoto")
    gated = unit.node("cdoto", "cdoto", unit("c_t"), output_gate)
    unit.affine("W_y.cdoto", C, R + unit.P)
    _end(unit, "W_y.cdoto", gated, "s_t_preclip", normalised=normalised)


def _end(unit: RecurrentUnit, component: str, cell: Term, before_state: str, *, normalised: bool) -> None:
    """Expands the projection, part of which is the state; or with a normalised state and a batch-normalised output."""
    R, dim = unit.R, unit.R + unit.P
    projected = unit.node("y_t_tmp" if normalised else "y_t", component, cell)
    if not normalised:
        unit.truncation("s_r", R)
        unit.node("s_t", "s_r", unit.columns(before_state, "y_t", 0, R))
        unit.expander.output(projected, dim)
        return
    unit.renorm("renorm", R)
    unit.truncation("s_r", R)
    before_norm = unit.columns("s_t_pre", "y_t_tmp", 0, R)
    unit.node("s_t", "s_r", unit.node("s_t_renorm", "renorm", before_norm))
    unit.batch_norm("batchnorm", dim, target_rms=1.0)
    unit.expander.output(unit.node("y_t", "batchnorm", projected), dim)


FAST_LAYER_TYPES = (
    cell_type("fast-gru-layer", "A gated recurrent unit.", _FAST_KEYS, _expand_fast_gru),
    *_both_types("fast-", "pgru-layer", PROJECTED, _FAST_KEYS, _expand_fast_pgru),
    *_both_types("fast-", "opgru-layer", OUTPUT_GATE, _FAST_KEYS, _expand_fast_opgru),
)
