"""LSTM layers of single gates: lstm-layer, and with projections lstmp-layer and lstmp-batchnorm-layer."""

from __future__ import annotations

from nnet3.nnet.xconfig.key import Key
from nnet3.nnet.xconfig.layer import Layer, LayerType
from nnet3.nnet.xconfig.layers.common import L2_REGULARIZE_NUMBER
from nnet3.nnet.xconfig.layers.recurrent import (
    BACK_KEYS,
    CELL_DIM,
    CELL_READS,
    DROPOUT_PER_FRAME,
    DROPOUT_PROPORTION,
    PER_ELEMENT_OPTIONS,
    PROJECTION_KEYS,
    PROJECTION_READS,
    SELF_REPAIR_NONLINEARITY,
    Cells,
    affine_options,
    decay_scale,
    settle_cells,
    settle_projection,
)
from nnet3.nnet.xconfig.picture import Picture
from nnet3.nnet.xconfig.term import Term, add

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


def settle_lstm(layer: Layer) -> None:
    settle_cells(layer)
    decay_scale(layer)


def settle_projected_lstm(layer: Layer) -> None:
    settle_projection(layer)
    decay_scale(layer)


def _gates(cells: Cells, recurrent_dim: int) -> None:
    """Components and nodes of input, forget and output gate and of the cells, up to `m_t`."""
    C, input_dim = cells.C, cells.layer.input_dim
    for gate in "ifo":
        cells.affine(f"W_{gate}.xr", input_dim + recurrent_dim, C)
        cells.per_element_scale(f"w_{gate}.c", cells.l2)
    cells.affine("W_c.xr", input_dim + recurrent_dim, C)
    for gate in "ifo":
        cells.gate(gate)
    cells.tanh("g")
    cells.tanh("h")
    if cells.has_dropout:
        cells.dropout("dropout", C)
    for product in ("c1", "c2", "m"):
        cells.product(product)
    cells.truncation("c", C)

    cells.node("c_t", "c", add(cells("c1_t"), cells("c2_t")))
    _gate_nodes(cells, "i", cells.previous("c_t"))
    _gate_nodes(cells, "f", cells.previous("c_t"))
    _gate_nodes(cells, "o", cells("c_t"))
    cells.node("h_t", "h", cells("c_t"))
    cells.node("g1_t", "W_c.xr", cells.input, cells.previous("r_t"))
    cells.node("g_t", "g", cells("g1_t"))
    cells.node("c1_t", "c1", cells("f_t"), cells.previous("c_t"))
    cells.node("c2_t", "c2", cells("i_t"), cells("g_t"))
    cells.node("m_t", "m", cells("o_t"), cells("h_t"))


def _gate_nodes(cells: Cells, gate: str, peephole: Term) -> None:
    """A gate looks at the input, at the last output and at the cells."""
    from_input = cells.node(f"{gate}1_t", f"W_{gate}.xr", cells.input, cells.previous("r_t"))
    from_cells = cells.node(f"{gate}2_t", f"w_{gate}.c", peephole)
    if cells.has_dropout:
        kept = cells.node(f"{gate}_t_predrop", gate, add(from_input, from_cells))
        cells.node(f"{gate}_t", "dropout", kept)
    else:
        cells.node(f"{gate}_t", gate, add(from_input, from_cells))


def _draw_lstm(layer: Layer, picture: Picture) -> None:
    cells = Cells(layer, picture)
    _gates(cells, cells.C)
    cells.truncation("r", cells.C)
    cells.node("r_t", "r", cells("m_t"))
    picture.output(cells("m_t"), cells.C)


def _draw_lstmp(layer: Layer, picture: Picture) -> None:
    cells = Cells(layer, picture)
    C, R, dim = cells.C, cells.R, cells.R + cells.P
    _gates(cells, R)
    cells.affine("W_rp.m", C, dim)
    cells.truncation("r", R)
    output = cells.node("rp_t", "W_rp.m", cells("m_t"))
    cells.columns("r_t_preclip", "rp_t", 0, R)
    cells.node("r_t", "r", cells("r_t_preclip"))
    if layer.type.name == "lstmp-batchnorm-layer":
        cells.batch_norm("rp_t_batchnorm", dim)
        output = cells.node("rp_t_batchnorm", "rp_t_batchnorm", output)
    picture.output(output, dim)


LAYER_TYPES = (
    LayerType(
        "lstm-layer",
        "An LSTM with peephole connections, a component for each of its parts; fast-lstm-layer is quicker.",
        (CELL_DIM, *_KEYS),
        _draw_lstm,
        settle_lstm,
        example="cell-dim=512 delay=-3",
        reads=CELL_READS,
    ),
    *(
        LayerType(
            name,
            f"An LSTM whose output is projected to fewer columns{words}, part of which are fed back; a component for "
            "each of its parts.",
            (*PROJECTION_KEYS, *_KEYS, DROPOUT_PROPORTION, DROPOUT_PER_FRAME),
            _draw_lstmp,
            settle_projected_lstm,
            example="cell-dim=1024 recurrent-projection-dim=256 non-recurrent-projection-dim=256 delay=-3",
            reads=PROJECTION_READS,
        )
        for name, words in (("lstmp-layer", ""), ("lstmp-batchnorm-layer", " and batch-normalised"))
    ),
)
