"""LSTM layers whose gates are one component: fast-lstm-layer and its family, and lstmb-layer."""

from __future__ import annotations

from functools import partial

from nnet3.text.values import above
from nnet3.xconfig.expansion import Expander
from nnet3.xconfig.key import Key, options
from nnet3.xconfig.layer import Layer, LayerType
from nnet3.xconfig.layers.common import L2_REGULARIZE_NUMBER, LINEAR, SCALE_AND_OFFSET
from nnet3.xconfig.layers.lstm import DECAY_TIME
from nnet3.xconfig.layers.recurrent import (
    BACK_KEYS,
    CELL_DIM,
    CELL_READS,
    DROPOUT_PROPORTION,
    RecurrentUnit,
    affine_options,
    cell_type,
    projected_type,
    settle_cells,
)
from nnet3.xconfig.reads import output_dim, scale_in, setting
from nnet3.xconfig.statements import Settings, settings
from nnet3.xconfig.term import Term, if_defined, offset, scale

_NONLINEARITY = "LstmNonlinearityComponent"
_KEYS = (
    *BACK_KEYS,
    DECAY_TIME,
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


def _normalised(unit: RecurrentUnit) -> Term:
    unit.batch_norm("m_batchnorm", unit.C)
    return unit.node("m_batchnorm", "m_batchnorm", unit("m"))


def _expand_fast_lstm(layer: Layer, expander: Expander, *, normalised: bool) -> None:
    unit = RecurrentUnit(layer, expander)
    C = unit.C
    unit.affine("W_all", layer.input_dim + C, 4 * C)
    _nonlinearity(unit)
    unit.truncation("cm_trunc", 2 * C)
    unit.node("W_all", "W_all", unit.input, unit.previous("m_trunc"))
    unit.node("lstm_nonlin", "lstm_nonlin", unit("W_all"), unit.previous("c_trunc"))
    _memory(unit)
    output = _normalised(unit) if normalised else unit("m")
    expander.output(output, C)


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
    output = unit.node("rp", "W_rp", unit("m"))
    unit.columns("r", "rp", 0, R)
    unit.node("cr_trunc", "cr_trunc", unit("c"), unit("r"))
    unit.columns("c_trunc", "cr_trunc", 0, C)
    unit.columns("r_trunc", "cr_trunc", C, R)
    if normalised:
        unit.batch_norm("rp_batchnorm", dim)
        output = unit.node("rp_batchnorm", "rp_batchnorm", output)
    expander.output(output, dim)


LAYER_TYPES = (
    *(
        cell_type(
            name,
            f"An LSTM with peephole connections{words}.",
            _KEYS,
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
            Key("bottleneck-dim", -1, "Dimension between the two matrices.", above(0)),
            *_KEYS,
            Key("orthonormal-constraint", 1.0, "Scale of the orthonormal rows of the first matrix."),
            Key("self-scale", 1.0, "What the output is multiplied by when it is fed back."),
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
            (*_KEYS, DROPOUT_PROPORTION),
            partial(_expand_fast_lstmp, normalised=bool(words)),
        )
        for name, words in (("fast-lstmp-layer", ""), ("fast-lstmp-batchnorm-layer", " and batch-normalised"))
    ),
)
