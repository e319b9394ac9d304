"""GRU layers whose nonlinearity is one component: fast-gru-layer and its family."""

from __future__ import annotations

from functools import partial

from nnet3.xconfig.expansion import Expander
from nnet3.xconfig.key import options
from nnet3.xconfig.layer import Layer
from nnet3.xconfig.layers.gru import COMMON_KEYS, OUTPUT_GATE, PROJECTED, both_types, gate_node
from nnet3.xconfig.layers.recurrent import RecurrentUnit, cell_type
from nnet3.xconfig.statements import settings
from nnet3.xconfig.term import Term

_KEYS = (*COMMON_KEYS, options("gru-nonlinearity-options", "Further settings of the nonlinearity.", "max-change=0.75"))


_gate = partial(gate_node, kept="t_predrop")


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
    """fast-pgru-layer, fast-norm-pgru-layer."""
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
    if not normalised:
        _plain_end(unit, "W_y.c", unit("c_t"), "s_t_pre")
    else:
        _normalised_end(unit, "W_y.c", unit("c_t"))


def _expand_fast_opgru(layer: Layer, expander: Expander, *, normalised: bool = False) -> None:
    """fast-opgru-layer, fast-norm-opgru-layer: the gate is at the output instead of the state."""
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
    if not normalised:
        _plain_end(unit, "W_y.cdoto", gated, "s_t_preclip")
    else:
        _normalised_end(unit, "W_y.cdoto", gated)


def _plain_end(unit: RecurrentUnit, component: str, cell: Term, before_state: str) -> None:
    """Expands the projection, part of which is the state."""
    output = unit.node("y_t", component, cell)
    unit.truncation("s_r", unit.R)
    unit.node("s_t", "s_r", unit.columns(before_state, "y_t", 0, unit.R))
    unit.expander.output(output, unit.R + unit.P)


def _normalised_end(unit: RecurrentUnit, component: str, cell: Term) -> None:
    """Expands the projection with a normalised state and a batch-normalised output."""
    R, dim = unit.R, unit.R + unit.P
    projected = unit.node("y_t_tmp", component, cell)
    unit.renorm("renorm", R)
    unit.truncation("s_r", R)
    before_state = unit.columns("s_t_pre", "y_t_tmp", 0, R)
    unit.node("s_t", "s_r", unit.node("s_t_renorm", "renorm", before_state))
    unit.batch_norm("batchnorm", dim, target_rms=1.0)
    unit.expander.output(unit.node("y_t", "batchnorm", projected), dim)


LAYER_TYPES = (
    cell_type("fast-gru-layer", "A gated recurrent unit.", _KEYS, _expand_fast_gru),
    *both_types("fast-", "pgru-layer", PROJECTED, _KEYS, _expand_fast_pgru),
    *both_types("fast-", "opgru-layer", OUTPUT_GATE, _KEYS, _expand_fast_opgru),
)
