"""GRU layers of single gates: gru-layer, pgru-layer, opgru-layer and their normalised forms."""

from __future__ import annotations

from dataclasses import replace

from nnet3.nnet.xconfig.layer import Layer, LayerType
from nnet3.nnet.xconfig.layers.common import L2_REGULARIZE_NUMBER, NO_OP
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
    settle_cells,
    settle_projection,
    without_use,
)
from nnet3.nnet.xconfig.picture import Picture
from nnet3.nnet.xconfig.statements import settings
from nnet3.nnet.xconfig.term import Term, add

_BEFORE_OPTIONS = (*BACK_KEYS, affine_options("max-change=0.75"))
COMMON_KEYS = (*_BEFORE_OPTIONS, without_use(PER_ELEMENT_OPTIONS), SELF_REPAIR_NONLINEARITY)
_OUTPUT_GATE_KEYS = (*_BEFORE_OPTIONS, PER_ELEMENT_OPTIONS, SELF_REPAIR_NONLINEARITY)
DROPOUT_KEYS = (DROPOUT_PROPORTION, replace(DROPOUT_PER_FRAME, default=True))


def gate_node(cells: Cells, gate: str, before: Term, dropout: str, kept: str) -> Term:
    """The node `GATE_t` of a gate over its sum; with dropout there is one, named `kept`, before it."""
    if not cells.has_dropout:
        return cells.node(f"{gate}_t", gate, before)
    return cells.node(f"{gate}_t", dropout, cells.node(kept, gate, before))


def _sum_and_gate(cells: Cells, gate: str, component: str, dropout: str) -> Term:
    """A gate over input and state."""
    before = cells.node(f"{gate}_t_pre", component, cells.input, cells.previous("s_t"))
    return gate_node(cells, gate, before, dropout, f"{gate}_predrop_t")


def _mixed(cells: Cells, old: Term) -> None:
    """`y_t`: new and old values, mixed by the update gate z."""
    cells.node("y1_t", "y1", cells("h_t"), cells.one_minus("z_t"))
    cells.node("y2_t", "y2", old, cells("z_t"))
    cells.node("y_t", "y", add(cells("y1_t"), cells("y2_t")))


def _draw_gru(layer: Layer, picture: Picture) -> None:
    """gru-layer, pgru-layer, norm-pgru-layer."""
    cells = Cells(layer, picture)
    C, R, input_dim, projected = cells.C, cells.R, layer.input_dim, layer.type.name != "gru-layer"
    cells.affine("W_z.xs_z", input_dim + R, C)
    cells.affine("W_z.xs_r", input_dim + R, R)
    cells.affine("W_h.UW", input_dim + R, C)
    if cells.has_dropout:
        cells.dropout("dropout_z", C)
        cells.dropout("dropout_r", R)
    cells.gate("z")
    cells.gate("r", dim=R)
    cells.tanh("h")
    cells.product("h1", R)
    cells.product("y1")
    cells.product("y2")
    picture.component("y", NO_OP, settings(dim=C))
    _sum_and_gate(cells, "z", "W_z.xs_z", "dropout_z")
    _sum_and_gate(cells, "r", "W_z.xs_r", "dropout_r")
    cells.node("h1_t", "h1", cells("r_t"), cells.previous("s_t"))
    cells.node("h_t_pre", "W_h.UW", cells.input, cells("h1_t"))
    cells.node("h_t", "h", cells("h_t_pre"))
    _mixed(cells, cells.previous("y_t" if projected else "s_t"))
    if not projected:
        cells.truncation("s_r", C)
        picture.output(cells.node("s_t", "s_r", cells("y_t")), C)
        return
    cells.affine("W_s.ys", C, R + cells.P)
    cells.truncation("s_r", R)
    if layer.type.name == "pgru-layer":
        _project(cells, cells("y_t"))
    else:
        _norms(cells)
        cells.node("sn_nobatchnorm_t", "W_s.ys", cells("y_t"))
        cells.columns("s_t_preclip", "sn_nobatchnorm_t", 0, R)
        cells.node("sn_t", "batchnorm", cells("sn_nobatchnorm_t"))
        cells.node("s_t", "s_r", cells.node("s_renorm_t", "renorm", cells("s_t_preclip")))
    picture.output(cells("sn_t"), R + cells.P)


def _project(cells: Cells, output: Term) -> None:
    """The projection, part of which is the state."""
    cells.node("sn_t", "W_s.ys", output)
    cells.columns("s_t_preclip", "sn_t", 0, cells.R)
    cells.node("s_t", "s_r", cells("s_t_preclip"))


def _norms(cells: Cells) -> None:
    cells.batch_norm("batchnorm", cells.R + cells.P, target_rms=1.0)
    cells.renorm("renorm", cells.R)


def _draw_opgru(layer: Layer, picture: Picture) -> None:
    """opgru-layer, norm-opgru-layer: the gate is at the output instead of the state."""
    cells = Cells(layer, picture)
    C, R, input_dim = cells.C, cells.R, layer.input_dim
    cells.affine("W_z.xs_z", input_dim + R, C)
    cells.affine("W_z.xs_o", input_dim + R, C)
    cells.affine("W_h.UW", input_dim, C)
    cells.per_element_scale("W_h.UW_elementwise")
    cells.gate("z")
    cells.gate("o")
    cells.tanh("h")
    for product in ("o1", "y1", "y2"):
        cells.product(product)
    picture.component("y", NO_OP, settings(dim=C))
    if cells.has_dropout:
        cells.dropout("dropout", C)
    _sum_and_gate(cells, "z", "W_z.xs_z", "dropout")
    _sum_and_gate(cells, "o", "W_z.xs_o", "dropout")
    cells.node("h_t_pre", "W_h.UW", cells.input)
    cells.node("h_t_pre2", "W_h.UW_elementwise", cells.previous("y_t"))
    cells.node("h_t", "h", add(cells("h_t_pre"), cells("h_t_pre2")))
    _mixed(cells, cells.previous("y_t"))
    gated = cells.node("y_o_t", "o1", cells("o_t"), cells("y_t"))
    cells.affine("W_s.ys", C, R + cells.P)
    cells.truncation("s_r", R)
    if layer.type.name == "opgru-layer":
        _project(cells, gated)
    else:
        _norms(cells)
        cells.node("sn_nobatchnorm_t", "W_s.ys", gated)
        cells.node("sn_t", "batchnorm", cells("sn_nobatchnorm_t"))
        cells.columns("s_t_preclip", "sn_nobatchnorm_t", 0, R)
        cells.node("s_t", "s_r", cells.node("s_t_preclip_renorm", "renorm", cells("s_t_preclip")))
    picture.output(cells("sn_t"), R + cells.P)


PROJECTED_EXAMPLE = "cell-dim=1024 recurrent-projection-dim=256 non-recurrent-projection-dim=256 delay=-3"

LAYER_TYPES = (
    LayerType(
        "gru-layer",
        "A gated recurrent unit, a component for each of its parts; fast-gru-layer is quicker.",
        (CELL_DIM, *COMMON_KEYS),
        _draw_gru,
        settle_cells,
        example="cell-dim=512 delay=-3",
        reads=CELL_READS,
    ),
    LayerType(
        "pgru-layer",
        "A gated recurrent unit whose output is projected to fewer columns, part of which are fed back.",
        (*PROJECTION_KEYS, *COMMON_KEYS),
        _draw_gru,
        settle_projection,
        example=PROJECTED_EXAMPLE,
        reads=PROJECTION_READS,
    ),
    LayerType(
        "norm-pgru-layer",
        "A pgru-layer whose output is batch-normalised and whose state is normalised, with dropout of the gates.",
        (*PROJECTION_KEYS, *COMMON_KEYS, *DROPOUT_KEYS),
        _draw_gru,
        settle_projection,
        example=PROJECTED_EXAMPLE,
        reads=PROJECTION_READS,
    ),
    LayerType(
        "opgru-layer",
        "A projected gated recurrent unit with an output gate instead of a reset gate.",
        (*PROJECTION_KEYS, *_OUTPUT_GATE_KEYS),
        _draw_opgru,
        settle_projection,
        example=PROJECTED_EXAMPLE,
        reads=PROJECTION_READS,
    ),
    LayerType(
        "norm-opgru-layer",
        "An opgru-layer whose output is batch-normalised and whose state is normalised, with dropout of the gates.",
        (*PROJECTION_KEYS, *_OUTPUT_GATE_KEYS, *DROPOUT_KEYS, L2_REGULARIZE_NUMBER),
        _draw_opgru,
        settle_projection,
        example=PROJECTED_EXAMPLE,
        reads=PROJECTION_READS,
    ),
)
