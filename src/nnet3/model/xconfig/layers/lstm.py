"""LSTM layers: of single gates (lstm-layer ...), and with one component for all (fast-lstm-layer ..., lstmb-layer)."""

from __future__ import annotations

from functools import partial

from nnet3.base.text.values import above
from nnet3.model.xconfig.expansion import Expander
from nnet3.model.xconfig.found import output_dim, scale_in, setting
from nnet3.model.xconfig.layer import Key, Layer, LayerType, options
from nnet3.model.xconfig.layers.common import L2_REGULARIZE_NUMBER, LINEAR, SCALE_AND_OFFSET
from nnet3.model.xconfig.layers.recurrent import (
    BACK_KEYS,
    CELL_DIM,
    CELL_READS,
    DROPOUT_PER_FRAME,
    DROPOUT_PROPORTION,
    PER_ELEMENT_OPTIONS,
    SELF_REPAIR_NONLINEARITY,
    RecurrentUnit,
    affine_options,
    cell_type,
    projected_type,
    settle_cells,
)
from nnet3.model.xconfig.statements import Settings, settings
from nnet3.model.xconfig.term import Term, add, if_defined, offset, scale

_DECAY_TIME = Key.of(
    "decay-time",
    -1.0,
    "Frames in which the memory of a cell decays; it must be longer than the delay.",
    absent="no decay",
)
_KEYS = (
    *BACK_KEYS,
    _DECAY_TIME,
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
    """Adds the nodes of a gate, which reads the input, the last output and the cells."""
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


def _end(unit: RecurrentUnit, suffix: str, dim: int, *, normalised: bool) -> None:
    """Adds the output of the layer, batch-normalised in the batch-normalised types."""
    output = unit(suffix)
    if normalised:
        name = f"{suffix}_batchnorm"
        unit.batch_norm(name, dim)
        output = unit.node(name, name, output)
    unit.expander.output(output, dim)


def _expand_lstmp(layer: Layer, expander: Expander, *, normalised: bool) -> None:
    unit = RecurrentUnit(layer, expander)
    C, R, dim = unit.C, unit.R, unit.R + unit.P
    _gates(unit, R)
    unit.affine("W_rp.m", C, dim)
    unit.truncation("r", R)
    unit.node("rp_t", "W_rp.m", unit("m_t"))
    unit.columns("r_t_preclip", "rp_t", 0, R)
    unit.node("r_t", "r", unit("r_t_preclip"))
    _end(unit, "rp_t", dim, normalised=normalised)


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


_NONLINEARITY = "LstmNonlinearityComponent"
_FAST_KEYS = (
    *BACK_KEYS,
    _DECAY_TIME,
    L2_REGULARIZE_NUMBER,
    affine_options("max-change=1.5"),
    options("lstm-nonlinearity-options", "Further settings of the gates.", "max-change=0.75"),
)


def _nonlinearity(unit: RecurrentUnit, further: Settings = ()) -> None:
    values = settings(cell_dim=unit.C) + further + unit.layer.options("lstm-nonlinearity-options") + unit.l2
    unit.expander.component("lstm_nonlin", _NONLINEARITY, values)


def _memory(unit: RecurrentUnit) -> None:
    """Expands cells and output, and both with derivatives cut where they grow on their way back in time."""
    C = unit.C
    unit.columns("m", "lstm_nonlin", C, C)
    unit.node("cm_trunc", "cm_trunc", unit("lstm_nonlin"))
    unit.columns("c_trunc", "cm_trunc", 0, C)
    unit.columns("m_trunc", "cm_trunc", C, C)


def _expand_fast_lstm(layer: Layer, expander: Expander, *, normalised: bool) -> None:
    unit = RecurrentUnit(layer, expander)
    C = unit.C
    unit.affine("W_all", layer.input_dim + C, 4 * C)
    _nonlinearity(unit)
    unit.truncation("cm_trunc", 2 * C)
    unit.node("W_all", "W_all", unit.input, unit.previous("m_trunc"))
    unit.node("lstm_nonlin", "lstm_nonlin", unit("W_all"), unit.previous("c_trunc"))
    _memory(unit)
    _end(unit, "m", C, normalised=normalised)


def _expand_lstmb(layer: Layer, expander: Expander) -> None:
    unit = RecurrentUnit(layer, expander)
    C, bottleneck_dim = unit.C, layer["bottleneck-dim"]
    trained = layer.options("ng-affine-options")
    first = settings(input_dim=layer.input_dim + C) + layer.given_settings("orthonormal-constraint")
    expander.component("W_all_a", LINEAR, first + settings(output_dim=bottleneck_dim) + trained)
    second = settings(input_dim=bottleneck_dim, output_dim=4 * C)
    expander.component("W_all_b", LINEAR, second + trained + unit.l2)
    expander.component("W_all_b_so", SCALE_AND_OFFSET, settings(dim=4 * C, max_change=0.75))
    _nonlinearity(unit)
    unit.truncation("cm_trunc", 2 * C)
    unit.batch_norm("m_batchnorm", C)
    back = if_defined(offset(scale(layer["self-scale"], unit("m_trunc")), layer["delay"]))
    unit.node("W_all_a", "W_all_a", unit.input, back)
    unit.node("W_all_b", "W_all_b", unit("W_all_a"))
    unit.node("W_all_b_so", "W_all_b_so", unit("W_all_b"))
    unit.node("lstm_nonlin", "lstm_nonlin", unit("W_all_b_so"), unit.previous("c_trunc"))
    _memory(unit)
    expander.output(unit.node("m_batchnorm", "m_batchnorm", unit("m")), C)


def _expand_fast_lstmp(layer: Layer, expander: Expander, *, normalised: bool) -> None:
    unit = RecurrentUnit(layer, expander)
    C, R, dim = unit.C, unit.R, unit.R + unit.P
    unit.affine("W_all", layer.input_dim + R, 4 * C)
    _nonlinearity(unit, settings(use_dropout=unit.has_dropout))
    unit.truncation("cr_trunc", C + R)
    if unit.has_dropout:
        mask = settings(output_dim=3) + layer.given_settings("dropout-proportion")
        expander.component("dropout_mask", "DropoutMaskComponent", mask)
    unit.affine("W_rp", C, dim)
    unit.node("W_all", "W_all", unit.input, unit.previous("r_trunc"))
    gated = [unit("W_all"), unit.previous("c_trunc")]
    if unit.has_dropout:  # a mask has no use for its input, so it may be itself
        gated.append(unit.node("dropout_mask", "dropout_mask", unit("dropout_mask")))
    unit.node("lstm_nonlin", "lstm_nonlin", *gated)
    unit.columns("c", "lstm_nonlin", 0, C)
    unit.columns("m", "lstm_nonlin", C, C)
    unit.node("rp", "W_rp", unit("m"))
    unit.columns("r", "rp", 0, R)
    unit.node("cr_trunc", "cr_trunc", unit("c"), unit("r"))
    unit.columns("c_trunc", "cr_trunc", 0, C)
    unit.columns("r_trunc", "cr_trunc", C, R)
    _end(unit, "rp", dim, normalised=normalised)


FAST_LAYER_TYPES = (
    *(
        cell_type(
            name,
            f"An LSTM with peephole connections{words}.",
            _FAST_KEYS,
            partial(_expand_fast_lstm, normalised=bool(words)),
        )
        for name, words in (
            ("fast-lstm-layer", ""),
            ("fast-lstm-batchnorm-layer", ", whose output is batch-normalised"),
        )
    ),
    LayerType(
        "lstmb-layer",
        "An LSTM whose matrix is a product of two, the first with orthonormal rows, and whose output is "
        "batch-normalised.",
        (
            CELL_DIM,
            Key.of("bottleneck-dim", -1, "Dimension between the two matrices.", above(0)),
            *_FAST_KEYS,
            Key.of("orthonormal-constraint", 1.0, "Scale of the orthonormal rows of the first matrix."),
            Key.of("self-scale", 1.0, "What the output is multiplied by when it is fed back."),
        ),
        _expand_lstmb,
        settle_cells,
        example="cell-dim=512 bottleneck-dim=128 delay=-3",
        reads={
            **CELL_READS,
            "bottleneck-dim": output_dim("W_all_a"),
            "orthonormal-constraint": setting("orthonormal-constraint", "W_all_a"),
            "l2-regularize": setting("l2-regularize", "W_all_b"),
            "self-scale": scale_in("W_all_a", of_layer=True),
        },
    ),
    *(
        projected_type(
            name,
            f"An LSTM whose output is projected to fewer columns{words}, part of which are fed back.",
            (*_FAST_KEYS, DROPOUT_PROPORTION),
            partial(_expand_fast_lstmp, normalised=bool(words)),
        )
        for name, words in (("fast-lstmp-layer", ""), ("fast-lstmp-batchnorm-layer", " and batch-normalised"))
    ),
)
