"""LSTM layers whose gates are one component: fast-lstm-layer and its family, and lstmb-layer."""

from __future__ import annotations

from nnet3.nnet.xconfig.key import Key, options
from nnet3.nnet.xconfig.layer import Layer, LayerType
from nnet3.nnet.xconfig.layers.common import L2_REGULARIZE_NUMBER, LINEAR, SCALE_AND_OFFSET
from nnet3.nnet.xconfig.layers.lstm import DECAY_TIME, settle_lstm, settle_projected_lstm
from nnet3.nnet.xconfig.layers.recurrent import (
    BACK_KEYS,
    CELL_DIM,
    CELL_READS,
    DROPOUT_PROPORTION,
    PROJECTION_KEYS,
    PROJECTION_READS,
    Cells,
    affine_options,
)
from nnet3.nnet.xconfig.picture import Picture
from nnet3.nnet.xconfig.reads import output_dim, scale_in, setting
from nnet3.nnet.xconfig.statements import Settings, settings
from nnet3.nnet.xconfig.term import Term, if_defined, offset, scale
from nnet3.text.values import above

_NONLINEARITY = "LstmNonlinearityComponent"
_KEYS = (
    *BACK_KEYS,
    DECAY_TIME,
    L2_REGULARIZE_NUMBER,
    affine_options("max-change=1.5"),
    options("lstm-nonlinearity-options", "Further settings of the gates.", "max-change=0.75"),
)


def _nonlinearity(cells: Cells, further: Settings = ()) -> None:
    values = settings(cell_dim=cells.C) + further + cells.layer.options("lstm-nonlinearity-options") + cells.l2
    cells.picture.component("lstm_nonlin", _NONLINEARITY, values)


def _memory(cells: Cells) -> None:
    """Cells and output, together cut off from derivatives that grow on their way back in time."""
    C = cells.C
    cells.columns("m", "lstm_nonlin", C, C)
    cells.node("cm_trunc", "cm_trunc", cells("lstm_nonlin"))
    cells.columns("c_trunc", "cm_trunc", 0, C)
    cells.columns("m_trunc", "cm_trunc", C, C)


def _normalised(cells: Cells) -> Term:
    cells.batch_norm("m_batchnorm", cells.C)
    return cells.node("m_batchnorm", "m_batchnorm", cells("m"))


def _draw_fast_lstm(layer: Layer, picture: Picture) -> None:
    cells = Cells(layer, picture)
    C = cells.C
    cells.affine("W_all", layer.input_dim + C, 4 * C)
    _nonlinearity(cells)
    cells.truncation("cm_trunc", 2 * C)
    cells.node("W_all", "W_all", cells.input, cells.previous("m_trunc"))
    cells.node("lstm_nonlin", "lstm_nonlin", cells("W_all"), cells.previous("c_trunc"))
    _memory(cells)
    output = _normalised(cells) if layer.type.name == "fast-lstm-batchnorm-layer" else cells("m")
    picture.output(output, C)


def _draw_lstmb(layer: Layer, picture: Picture) -> None:
    cells = Cells(layer, picture)
    C, bottleneck_dim = cells.C, layer["bottleneck-dim"]
    trained = layer.options("ng-affine-options")
    first = settings(input_dim=layer.input_dim + C) + layer.given_settings("orthonormal-constraint")
    picture.component("W_all_a", LINEAR, first + settings(output_dim=bottleneck_dim) + trained)
    second = settings(input_dim=bottleneck_dim, output_dim=4 * C)
    picture.component("W_all_b", LINEAR, second + trained + cells.l2)
    picture.component("W_all_b_so", SCALE_AND_OFFSET, settings(dim=4 * C, max_change=0.75))
    _nonlinearity(cells)
    cells.truncation("cm_trunc", 2 * C)
    cells.batch_norm("m_batchnorm", C)
    back = if_defined(offset(scale(layer["self-scale"], cells("m_trunc")), layer["delay"]))
    cells.node("W_all_a", "W_all_a", cells.input, back)
    cells.node("W_all_b", "W_all_b", cells("W_all_a"))
    cells.node("W_all_b_so", "W_all_b_so", cells("W_all_b"))
    cells.node("lstm_nonlin", "lstm_nonlin", cells("W_all_b_so"), cells.previous("c_trunc"))
    _memory(cells)
    picture.output(cells.node("m_batchnorm", "m_batchnorm", cells("m")), C)


def _draw_fast_lstmp(layer: Layer, picture: Picture) -> None:
    cells = Cells(layer, picture)
    C, R, dim = cells.C, cells.R, cells.R + cells.P
    cells.affine("W_all", layer.input_dim + R, 4 * C)
    _nonlinearity(cells, settings(use_dropout=cells.has_dropout))
    cells.truncation("cr_trunc", C + R)
    if cells.has_dropout:
        mask = settings(output_dim=3) + layer.given_settings("dropout-proportion")
        picture.component("dropout_mask", "DropoutMaskComponent", mask)
    cells.affine("W_rp", C, dim)
    cells.node("W_all", "W_all", cells.input, cells.previous("r_trunc"))
    gated = [cells("W_all"), cells.previous("c_trunc")]
    if cells.has_dropout:  # a mask has no use for its input, so it may be itself
        gated.append(cells.node("dropout_mask", "dropout_mask", cells("dropout_mask")))
    cells.node("lstm_nonlin", "lstm_nonlin", *gated)
    cells.columns("c", "lstm_nonlin", 0, C)
    cells.columns("m", "lstm_nonlin", C, C)
    output = cells.node("rp", "W_rp", cells("m"))
    cells.columns("r", "rp", 0, R)
    cells.node("cr_trunc", "cr_trunc", cells("c"), cells("r"))
    cells.columns("c_trunc", "cr_trunc", 0, C)
    cells.columns("r_trunc", "cr_trunc", C, R)
    if layer.type.name == "fast-lstmp-batchnorm-layer":
        cells.batch_norm("rp_batchnorm", dim)
        output = cells.node("rp_batchnorm", "rp_batchnorm", output)
    picture.output(output, dim)


LAYER_TYPES = (
    *(
        LayerType(
            name,
            f"An LSTM with peephole connections{words}.",
            (CELL_DIM, *_KEYS),
            _draw_fast_lstm,
            settle_lstm,
            example="cell-dim=512 delay=-3",
            reads=CELL_READS,
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
        _draw_lstmb,
        settle_lstm,
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
        LayerType(
            name,
            f"An LSTM whose output is projected to fewer columns{words}, part of which are fed back.",
            (*PROJECTION_KEYS, *_KEYS, DROPOUT_PROPORTION),
            _draw_fast_lstmp,
            settle_projected_lstm,
            example="cell-dim=1024 recurrent-projection-dim=256 non-recurrent-projection-dim=256 delay=-3",
            reads=PROJECTION_READS,
        )
        for name, words in (("fast-lstmp-layer", ""), ("fast-lstmp-batchnorm-layer", " and batch-normalised"))
    ),
)
