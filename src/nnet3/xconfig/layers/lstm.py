"""LSTM layers of single gates: lstm-layer, and with projections lstmp-layer and lstmp-batchnorm-layer."""

from __future__ import annotations

from functools import partial

from nnet3.xconfig.expansion import Expander
from nnet3.xconfig.key import Key
from nnet3.xconfig.layer import Layer
from nnet3.xconfig.layers.common import L2_REGULARIZE_NUMBER
from nnet3.xconfig.layers.recurrent import (
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
from nnet3.xconfig.term import Term, add

DECAY_TIME = Key(
    "decay-time",
    -1.0,
    "Frames in which the memory of a cell decays; it must be longer than the delay.",
    absent="no decay",
)
_KEYS = (
    *BACK_KEYS,
    DECAY_TIME,
    L2_REGULARIZE_NUMBER,
    affine_options("max-change=0.75"),
    PER_ELEMENT_OPTIONS,
    SELF_REPAIR_NONLINEARITY,
)


def _gates(unit: RecurrentUnit, recurrent_dim: int) -> None:
    """Components and nodes of input, forget and output gate and of the cells, up to `m_t`."""
    C, input_dim = unit.C, unit.layer.input_dim
    for gate in "ifo":
        unit.affine(f"W_{gate}.xr", input_dim + recurrent_dim, C)
        unit.per_element_scale(f"w_{gate}.c", unit.l2)
    unit.affine("W_c.xr", input_dim + recurrent_dim, C)
    for gate in "ifo":
        unit.gate(gate)
    unit.tanh("g")
    unit.tanh("h")
    if unit.has_dropout:
        unit.dropout("dropout", C)
    for product in ("c1", "c2", "m"):
        unit.product(product)
    unit.truncation("c", C)

    unit.node("c_t", "c", add(unit("c1_t"), unit("c2_t")))
    _gate_nodes(unit, "i", unit.previous("c_t"))
    _gate_nodes(unit, "f", unit.previous("c_t"))
    _gate_nodes(unit, "o", unit("c_t"))
    unit.node("h_t", "h", unit("c_t"))
    unit.node("g1_t", "W_c.xr", unit.input, unit.previous("r_t"))
    unit.node("g_t", "g", unit("g1_t"))
    unit.node("c1_t", "c1", unit("f_t"), unit.previous("c_t"))
    unit.node("c2_t", "c2", unit("i_t"), unit("g_t"))
    unit.node("m_t", "m", unit("o_t"), unit("h_t"))


def _gate_nodes(unit: RecurrentUnit, gate: str, peephole: Term) -> None:
    """A gate looks at the input, at the last output and at the cells."""
    from_input = unit.node(f"{gate}1_t", f"W_{gate}.xr", unit.input, unit.previous("r_t"))
    from_cells = unit.node(f"{gate}2_t", f"w_{gate}.c", peephole)
    if unit.has_dropout:
        kept = unit.node(f"{gate}_t_predrop", gate, add(from_input, from_cells))
        unit.node(f"{gate}_t", "dropout", kept)
    else:
        unit.node(f"{gate}_t", gate, add(from_input, from_cells))


def _expand_lstm(layer: Layer, expander: Expander) -> None:
    unit = RecurrentUnit(layer, expander)
    _gates(unit, unit.C)
    unit.truncation("r", unit.C)
    unit.node("r_t", "r", unit("m_t"))
    expander.output(unit("m_t"), unit.C)


def _expand_lstmp(layer: Layer, expander: Expander, *, normalised: bool) -> None:
    unit = RecurrentUnit(layer, expander)
    C, R, dim = unit.C, unit.R, unit.R + unit.P
    _gates(unit, R)
    unit.affine("W_rp.m", C, dim)
    unit.truncation("r", R)
    output = unit.node("rp_t", "W_rp.m", unit("m_t"))
    unit.columns("r_t_preclip", "rp_t", 0, R)
    unit.node("r_t", "r", unit("r_t_preclip"))
    if normalised:
        unit.batch_norm("rp_t_batchnorm", dim)
        output = unit.node("rp_t_batchnorm", "rp_t_batchnorm", output)
    expander.output(output, dim)


LAYER_TYPES = (
    cell_type(
        "lstm-layer",
        "An LSTM with peephole connections, a component for each of its parts; fast-lstm-layer is quicker.",
        _KEYS,
        _expand_lstm,
    ),
    *(
        projected_type(
            name,
            f"An LSTM whose output is projected to fewer columns{words}, part of which are fed back; a component for "
            "each of its parts.",
            (*_KEYS, DROPOUT_PROPORTION, DROPOUT_PER_FRAME),
            partial(_expand_lstmp, normalised=bool(words)),
        )
        for name, words in (("lstmp-layer", ""), ("lstmp-batchnorm-layer", " and batch-normalised"))
    ),
)
