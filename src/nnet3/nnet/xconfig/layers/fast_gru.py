"""GRU layers whose nonlinearity is one component: fast-gru-layer and its family."""

from __future__ import annotations

from nnet3.nnet.xconfig.key import options
from nnet3.nnet.xconfig.layer import Layer, LayerType
from nnet3.nnet.xconfig.layers.gru import COMMON_KEYS, DROPOUT_KEYS, PROJECTED_EXAMPLE, gate_node
from nnet3.nnet.xconfig.layers.recurrent import (
    CELL_DIM,
    CELL_READS,
    PROJECTION_KEYS,
    PROJECTION_READS,
    Cells,
    settle_cells,
    settle_projection,
)
from nnet3.nnet.xconfig.picture import Picture
from nnet3.nnet.xconfig.statements import settings
from nnet3.nnet.xconfig.term import Term

_KEYS = (*COMMON_KEYS, options("gru-nonlinearity-options", "Further settings of the nonlinearity.", "max-change=0.75"))


def _gate(cells: Cells, gate: str, component: str, dropout: str) -> Term:
    """A gate over input and state."""
    before = cells.node(f"{gate}_t_pre", component, cells.input, cells.previous("s_t"))
    return gate_node(cells, gate, before, dropout, f"{gate}_t_predrop")


def _draw_fast_gru(layer: Layer, picture: Picture) -> None:
    cells = Cells(layer, picture)
    C, input_dim = cells.C, layer.input_dim
    cells.affine("W_z.xh", input_dim + C, C)
    cells.affine("W_r.xh", input_dim + C, C)
    cells.affine("W_hpart.x", input_dim, C)
    cells.gate("z")
    cells.gate("r")
    gates = [_gate(cells, "z", "W_z.xh", ""), _gate(cells, "r", "W_r.xh", "")]
    part = cells.node("hpart_t", "W_hpart.x", cells.input)
    nonlinearity = settings(cell_dim=C) + layer.options("gru-nonlinearity-options")
    picture.component("gru_nonlin", "GruNonlinearityComponent", nonlinearity)
    cells.node("gru_nonlin_t", "gru_nonlin", *gates, part, cells.previous("s_t"))
    output = cells.columns("y_t", "gru_nonlin_t", C, C)
    cells.truncation("s_r", C)
    cells.node("s_t", "s_r", output)
    picture.output(output, C)


def _draw_fast_pgru(layer: Layer, picture: Picture) -> None:
    """fast-pgru-layer, fast-norm-pgru-layer."""
    cells = Cells(layer, picture)
    C, R, input_dim = cells.C, cells.R, layer.input_dim
    cells.affine("W_z.xs", input_dim + R, C)
    cells.affine("W_r.xs", input_dim + R, R)
    cells.affine("W_hpart.x", input_dim, C)
    cells.gate("z")
    cells.gate("r", dim=R)
    if cells.has_dropout:
        cells.dropout("dropout_z", C)
        cells.dropout("dropout_r", R)
    gates = [_gate(cells, "z", "W_z.xs", "dropout_z"), _gate(cells, "r", "W_r.xs", "dropout_r")]
    part = cells.node("hpart_t", "W_hpart.x", cells.input)
    nonlinearity = settings(cell_dim=C, recurrent_dim=R) + layer.options("gru-nonlinearity-options")
    picture.component("gru_nonlin", "GruNonlinearityComponent", nonlinearity)
    cells.node("gru_nonlin_t", "gru_nonlin", *gates, part, cells.previous("c_t"), cells.previous("s_t"))
    cells.columns("c_t", "gru_nonlin_t", C, C)
    cells.affine("W_y.c", C, R + cells.P)
    if layer.type.name == "fast-pgru-layer":
        _plain_end(cells, "W_y.c", cells("c_t"), "s_t_pre")
    else:
        _normalised_end(cells, "W_y.c", cells("c_t"))


def _draw_fast_opgru(layer: Layer, picture: Picture) -> None:
    """fast-opgru-layer, fast-norm-opgru-layer: the gate is at the output instead of the state."""
    cells = Cells(layer, picture)
    C, R, input_dim = cells.C, cells.R, layer.input_dim
    cells.affine("W_z.xs", input_dim + R, C)
    cells.affine("W_o.xs", input_dim + R, C)
    cells.affine("W_hpart.x", input_dim, C)
    cells.gate("z")
    cells.gate("o")
    if cells.has_dropout:
        cells.dropout("dropout", C)
    update_gate = _gate(cells, "z", "W_z.xs", "dropout")
    output_gate = _gate(cells, "o", "W_o.xs", "dropout")
    part = cells.node("hpart_t", "W_hpart.x", cells.input)
    nonlinearity = settings(cell_dim=C) + layer.options("gru-nonlinearity-options")
    picture.component("gru_nonlin", "OutputGruNonlinearityComponent", nonlinearity)
    cells.node("gru_nonlin_t", "gru_nonlin", update_gate, part, cells.previous("c_t"))
    cells.columns("c_t", "gru_nonlin_t", C, C)
    cells.product("cdoto")
    gated = cells.node("cdoto", "cdoto", cells("c_t"), output_gate)
    cells.affine("W_y.cdoto", C, R + cells.P)
    if layer.type.name == "fast-opgru-layer":
        _plain_end(cells, "W_y.cdoto", gated, "s_t_preclip")
    else:
        _normalised_end(cells, "W_y.cdoto", gated)


def _plain_end(cells: Cells, component: str, cell: Term, before_state: str) -> None:
    """The projection, part of which is the state."""
    output = cells.node("y_t", component, cell)
    cells.truncation("s_r", cells.R)
    cells.node("s_t", "s_r", cells.columns(before_state, "y_t", 0, cells.R))
    cells.picture.output(output, cells.R + cells.P)


def _normalised_end(cells: Cells, component: str, cell: Term) -> None:
    """The same with a normalised state and a batch-normalised output."""
    R, dim = cells.R, cells.R + cells.P
    projected = cells.node("y_t_tmp", component, cell)
    cells.renorm("renorm", R)
    cells.truncation("s_r", R)
    before_state = cells.columns("s_t_pre", "y_t_tmp", 0, R)
    cells.node("s_t", "s_r", cells.node("s_t_renorm", "renorm", before_state))
    cells.batch_norm("batchnorm", dim, target_rms=1.0)
    cells.picture.output(cells.node("y_t", "batchnorm", projected), dim)


LAYER_TYPES = (
    LayerType(
        "fast-gru-layer",
        "A gated recurrent unit.",
        (CELL_DIM, *_KEYS),
        _draw_fast_gru,
        settle_cells,
        example="cell-dim=512 delay=-3",
        reads=CELL_READS,
    ),
    LayerType(
        "fast-pgru-layer",
        "A gated recurrent unit whose output is projected to fewer columns, part of which are fed back.",
        (*PROJECTION_KEYS, *_KEYS),
        _draw_fast_pgru,
        settle_projection,
        example=PROJECTED_EXAMPLE,
        reads=PROJECTION_READS,
    ),
    LayerType(
        "fast-norm-pgru-layer",
        "A fast-pgru-layer whose output is batch-normalised and whose state is normalised, with dropout of the gates.",
        (*PROJECTION_KEYS, *_KEYS, *DROPOUT_KEYS),
        _draw_fast_pgru,
        settle_projection,
        example=PROJECTED_EXAMPLE,
        reads=PROJECTION_READS,
    ),
    LayerType(
        "fast-opgru-layer",
        "A projected gated recurrent unit with an output gate instead of a reset gate.",
        (*PROJECTION_KEYS, *_KEYS),
        _draw_fast_opgru,
        settle_projection,
        example=PROJECTED_EXAMPLE,
        reads=PROJECTION_READS,
    ),
    LayerType(
        "fast-norm-opgru-layer",
        "A fast-opgru-layer whose output is batch-normalised and whose state is normalised, with dropout of the gates.",
        (*PROJECTION_KEYS, *_KEYS, *DROPOUT_KEYS),
        _draw_fast_opgru,
        settle_projection,
        example=PROJECTED_EXAMPLE,
        reads=PROJECTION_READS,
    ),
)
