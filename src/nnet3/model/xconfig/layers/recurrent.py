"""Shared by LSTM and GRU layers: keys, gates, connections back in time."""

from __future__ import annotations

from collections.abc import Callable

from nnet3.base.text.values import above, either, nonzero, within
from nnet3.model.xconfig.expansion import Expander
from nnet3.model.xconfig.found import Found, Reads, delay, setting
from nnet3.model.xconfig.layer import Key, Layer, LayerType, options
from nnet3.model.xconfig.layers.common import AFFINE, BATCH_NORM, DROPOUT, NORMALIZE, SIGMOID, TANH
from nnet3.model.xconfig.statements import Settings, settings
from nnet3.model.xconfig.term import Term, add, append, const, if_defined, offset, scale

BACKPROP_TRUNCATION = "BackpropTruncationComponent"
ELEMENTWISE_PRODUCT = "ElementwiseProductComponent"
PER_ELEMENT_SCALE = "NaturalGradientPerElementScaleComponent"

CELL_DIM = Key.of("cell-dim", -1, "Number of cells.", absent="the dimension of the input")
PROJECTED_CELL_DIM = Key.of("cell-dim", -1, "Number of cells.", above(0))
PROJECTION_KEYS = (
    PROJECTED_CELL_DIM,
    Key.of("recurrent-projection-dim", -1, "Columns of the output that are fed back.", absent="a quarter of cell-dim"),
    Key.of(
        "non-recurrent-projection-dim",
        -1,
        "Columns of the output that are not fed back.",
        absent="recurrent-projection-dim",
    ),
)
BACK_KEYS = (
    Key.of("delay", -1, "Frames from which to which the recurrence goes; negative: forward in time.", nonzero()),
    Key.of("clipping-threshold", 30.0, "Norm beyond which derivatives that go back in time are cut."),
    Key.of("zeroing-interval", 20, "Frames between tests whether such derivatives are to be zeroed."),
    Key.of("zeroing-threshold", 15.0, "Norm beyond which they are zeroed then."),
)
SELF_REPAIR_NONLINEARITY = Key.of(
    "self-repair-scale-nonlinearity", 1e-05, "Strength with which saturated gates are mended.", within(0, 1)
)
DROPOUT_PROPORTION = Key.of(
    "dropout-proportion", -1.0, "Proportion of dropout of the gates.", either(-1, within(0, 1)), absent="no dropout"
)
DROPOUT_PER_FRAME = Key.of("dropout-per-frame", False, "Whether dropout takes whole frames instead of single values.")
PER_ELEMENT_OPTIONS = options(
    "ng-per-element-scale-options", "Further settings of the per-element scales.", "max-change=0.75"
)


def affine_options(default: str) -> Key:
    """Returns the further settings of the affine components; a text that is given replaces the default as a whole."""
    return options("ng-affine-options", "Further settings of the affine components.", default)


def settle_cells(layer: Layer) -> None:
    """Sets a cell-dim that is not given, or not positive, to the input's dimension; checks the decay-time."""
    if layer["cell-dim"] <= 0:
        layer["cell-dim"] = layer.input_dim
    decay_scale(layer)


def settle_projection(layer: Layer) -> None:
    """Derives missing dimensions of the projection from the cell-dim; checks dimensions and decay-time."""
    cells = layer["cell-dim"]
    if layer["recurrent-projection-dim"] <= 0:
        layer["recurrent-projection-dim"] = cells // 4
        layer.require(cells >= 4, "cell-dim", "must be at least 4 unless recurrent-projection-dim is given")
    if layer["non-recurrent-projection-dim"] <= 0:
        layer["non-recurrent-projection-dim"] = layer["recurrent-projection-dim"]
    total = layer["recurrent-projection-dim"] + layer["non-recurrent-projection-dim"]
    rule = f"must be at least the sum of the projection dimensions ({total})"
    layer.require(total <= cells, "cell-dim", rule)
    decay_scale(layer)


class RecurrentUnit:
    """Expands the parts of a recurrent layer. `C`: cells; `R`, `P`: recurrent and other columns of a projection."""

    def __init__(self, layer: Layer, expander: Expander):
        self.layer, self.expander = layer, expander
        self.C: int = layer["cell-dim"]
        self.R: int = layer.values.get("recurrent-projection-dim", self.C)
        self.P: int = layer.values.get("non-recurrent-projection-dim", 0)
        self.has_dropout = layer.values.get("dropout-proportion", -1.0) != -1

    # ---- settings ----

    @property
    def l2(self) -> Settings:
        """The l2 regularization, if any."""
        return self.layer.given_settings("l2-regularize") if self.layer.values.get("l2-regularize") else ()

    def _truncation(self, dim: int) -> Settings:
        values = settings(dim=dim)
        values += self.layer.given_settings("clipping-threshold", "zeroing-threshold", "zeroing-interval")
        values += settings(recurrence_interval=abs(self.layer["delay"]))
        if "decay-time" in self.layer.values:
            values += settings(scale=decay_scale(self.layer))
        return values

    # ---- components ----

    def affine(self, suffix: str, input_dim: int, output_dim: int) -> None:
        values = settings(input_dim=input_dim, output_dim=output_dim)
        self.expander.component(suffix, AFFINE, values + self.layer.options("ng-affine-options") + self.l2)

    def per_element_scale(self, suffix: str, further: Settings = ()) -> None:
        """Adds a scale for each cell, around 0 unless the layer's options say otherwise."""
        given = self.layer.options("ng-per-element-scale-options")
        text = self.layer["ng-per-element-scale-options"]
        values = settings(dim=self.C) + given
        if "param-mean" not in text and "param-stddev" not in text:
            values += settings(param_mean=0.0, param_stddev=1.0)
        self.expander.component(suffix, PER_ELEMENT_SCALE, values + further)

    def gate(self, suffix: str, component: str = SIGMOID, dim: int = 0) -> None:
        """A nonlinearity with self-repair; of all cells unless `dim` says otherwise."""
        repair = f"{self.layer['self-repair-scale-nonlinearity']:.10f}"
        self.expander.component(suffix, component, settings(dim=dim or self.C, self_repair_scale=repair))

    def tanh(self, suffix: str) -> None:
        self.gate(suffix, TANH)

    def product(self, suffix: str, dim: int = 0) -> None:
        """The product of two inputs, element by element."""
        dim = dim or self.C
        self.expander.component(suffix, ELEMENTWISE_PRODUCT, settings(input_dim=2 * dim, output_dim=dim))

    def truncation(self, suffix: str, dim: int) -> None:
        """The identity, with a derivative cut where the derivative grows on the way back in time."""
        self.expander.component(suffix, BACKPROP_TRUNCATION, self._truncation(dim))

    def dropout(self, suffix: str, dim: int) -> None:
        values = settings(dim=dim) + self.layer.given_settings("dropout-proportion", "dropout-per-frame")
        self.expander.component(suffix, DROPOUT, values)

    def batch_norm(self, suffix: str, dim: int, **further: object) -> None:
        self.expander.component(suffix, BATCH_NORM, settings(dim=dim, **further))

    def renorm(self, suffix: str, dim: int) -> None:
        self.expander.component(suffix, NORMALIZE, settings(dim=dim, target_rms=1.0))

    # ---- nodes ----

    def node(self, suffix: str, component: str, *inputs: Term) -> Term:
        """Returns a component-node; several inputs are put side by side."""
        return self.expander.node(suffix, component, inputs[0] if len(inputs) == 1 else append(*inputs))

    def columns(self, suffix: str, source: str, dim_offset: int, dim: int) -> Term:
        return self.expander.columns(suffix, source, dim_offset, dim)

    def __call__(self, suffix: str) -> Term:
        return self.expander(suffix)

    @property
    def input(self) -> Term:
        return self.layer.input

    def previous(self, suffix: str) -> Term:
        """Returns the value of a node one step of the recurrence ago; zeros at the beginning."""
        return if_defined(offset(self.expander(suffix), self.layer["delay"]))

    def one_minus(self, suffix: str) -> Term:
        return add(scale(-1.0, self.expander(suffix), tight=True), const(1.0, self.C))


# ---- what a network shows of the values ----

_TRUNCATIONS = ("cm_trunc", "cr_trunc", "c", "s_r")
_read_cells = setting("output-dim", "lstm_nonlin", "gru_nonlin")
_read_projection = setting("output-dim", "W_rp.m", "W_rp", "W_s.ys", "W_y.c", "W_y.cdoto")


def _read_cell_dim(found: Found) -> int | None:
    """Reads the cells from the component that gives cells and output, or from the one of the output."""
    together = _read_cells(found)
    return int(together) // 2 if together else found.get("h", "output-dim")


def _read_recurrent_dim(found: Found) -> int | None:
    """Reads the columns that go back in time from their truncation, which may have the cells too."""
    together, cells = found.get("cr_trunc", "dim"), _read_cell_dim(found)
    return int(together) - cells if together and cells else setting("dim", "r", "s_r")(found)


def _read_other_dim(found: Found) -> int | None:
    total, recurrent = _read_projection(found), _read_recurrent_dim(found)
    return total - recurrent if total and recurrent else None


def _read_decay_time(found: Found) -> float | None:
    scale, back = setting("scale", *_TRUNCATIONS)(found), delay(found)
    return float(f"{abs(back) / (1.0 - scale):.6g}") if scale is not None and back and scale != 1.0 else None


CELL_READS: Reads = {
    "cell-dim": _read_cell_dim,
    "delay": delay,
    "decay-time": _read_decay_time,
    "self-repair-scale-nonlinearity": setting("self-repair-scale", "i", "z"),
}
PROJECTION_READS: Reads = {
    **CELL_READS,
    "recurrent-projection-dim": _read_recurrent_dim,
    "non-recurrent-projection-dim": _read_other_dim,
}


def decay_scale(layer: Layer) -> float:
    """Returns the factor of the memory in a step, 1 without a decay-time. Raises ConfigError unless the time is > 0."""
    decay_time = layer.values.get("decay-time", -1.0)
    if decay_time < 0:
        return 1.0
    result = 1.0 - abs(layer["delay"]) / decay_time if decay_time else 0.0
    layer.require(result > 0, "decay-time", f"must be > {abs(layer['delay'])}, the delay, or negative: no decay")
    return float(result)


def cell_type(name: str, summary: str, keys: tuple[Key, ...], expand: Callable[[Layer, Expander], None]) -> LayerType:
    """Declares a type with the cells as output."""
    example = "cell-dim=512 delay=-3"
    return LayerType(name, summary, (CELL_DIM, *keys), expand, settle_cells, example=example, reads=CELL_READS)


def projected_type(
    name: str, summary: str, keys: tuple[Key, ...], expand: Callable[[Layer, Expander], None]
) -> LayerType:
    """Declares a type with a projection of the cells as output."""
    example = "cell-dim=1024 recurrent-projection-dim=256 non-recurrent-projection-dim=256 delay=-3"
    keys = (*PROJECTION_KEYS, *keys)
    return LayerType(name, summary, keys, expand, settle_projection, example=example, reads=PROJECTION_READS)
