"""Small layers of every type, each a line for an image of height 6 and 2 filters, or 12 columns, named `input`."""

from __future__ import annotations

from nnet3.xconfig import LAYER_TYPES

_BASIC = (
    "dim=8",
    "bottleneck-dim=3 dim=8 learning-rate-factor=0.5 l2-regularize=0.01",
    "input=Append(-1,0,2) max-change=1",
)
_DROPOUT = (*_BASIC, "dropout-per-dim=true", "dropout-per-dim-continuous=true dropout-proportion=0.1")
_CONV = (
    "height-in=6 height-out=6 num-filters-out=4 height-offsets=-1,0,1 time-offsets=-1,0,1 required-time-offsets=0",
    "height-in=6 height-out=2 height-subsample-out=2 num-filters-out=3 height-offsets=0,1 time-offsets=0 rank-in=3",
)
_NOCONV = ("height-in=6 height-out=6 num-filters-out=2", "height-in=6 height-out=6")
_RES = (
    "height=6",
    "height=6 num-filters=2 num-bottleneck-filters=1 time-period=2 height-period=2 allow-zero-padding=false",
    "height=6 bypass-source=input",
    "height=6 bypass-source=relu",
    "height=6 bypass-source=batchnorm",
)
_RES2 = (
    "height=6 num-filters=2",
    "height=6 num-filters=3 num-bottleneck-filters=1",
    "height-in=6 height-out=3 num-filters=2 time-period=2",
    "height-in=6 height-out=3 num-filters=2 num-bottleneck-filters=1 time-period=3",
)
_ATTENTION = (
    "num-heads=2 key-dim=3 value-dim=4 num-left-inputs=2 num-right-inputs=1 num-left-inputs-required=0 "
    "num-right-inputs-required=0 time-stride=2",
    "num-heads=1 key-dim=3 value-dim=4 num-left-inputs=1 num-right-inputs=0 output-context=false l2-regularize=0.1 "
    "learning-rate-factor=0.5 key-scale=0.7",
)
_LSTM = ("cell-dim=8 delay=-3", "decay-time=20 l2-regularize=0.01 delay=1 clipping-threshold=15")
_PROJECTED = (
    "cell-dim=8 recurrent-projection-dim=3 non-recurrent-projection-dim=2 delay=-3",
    "cell-dim=8 decay-time=20 l2-regularize=0.01",
)
_LSTMP = (*_PROJECTED, "cell-dim=8 dropout-proportion=0.2 dropout-per-frame=true", "cell-dim=8 dropout-proportion=0.0")
_FAST_LSTMP = (*_PROJECTED, "cell-dim=8 dropout-proportion=0.2")
_GRU = ("cell-dim=8 delay=-3", 'ng-affine-options="max-change=1.5 bias-stddev=0.1"')
_PGRU = ("cell-dim=8 recurrent-projection-dim=3 non-recurrent-projection-dim=2 delay=-3", "cell-dim=8 delay=2")
_NORM_GRU = (*_PGRU, "cell-dim=8 dropout-proportion=0.3", "cell-dim=8 dropout-proportion=0.0 dropout-per-frame=false")

_OTHERS = {
    "input": ("dim=5",),
    "output": ("", "output-delay=2 objective-type=quadratic input=Append(-1,1)"),
    "output-layer": (
        "dim=4 param-stddev=1",
        "dim=5 param-stddev=1 bottleneck-dim=3 include-log-softmax=false output-delay=1",
        "dim=4 param-stddev=0.5 max-change=0.5",
    ),
    "sigmoid-layer": _BASIC,
    "tanh-layer": _BASIC,
    "batchnorm-layer": _BASIC,
    "relu-renorm-layer": (*_BASIC, "dim=8 add-log-stddev=true target-rms=0.5"),
    "relu-batchnorm-dropout-layer": _DROPOUT,
    "relu-dropout-layer": _DROPOUT,
    "affine-component": (
        "dim=5",
        "dim=5 param-stddev=0.1 bias-stddev=0.2 l2-regularize=0.1 orthonormal-constraint=1.0",
    ),
    "linear-component": ("dim=5", "dim=5 orthonormal-constraint=-1.0 l2-regularize=0.1 learning-rate-factor=2"),
    "renorm-component": ("", "target-rms=0.5"),
    "batchnorm-component": ("", "include-in-init=true"),
    "no-op-component": ("", "input=Sum(-1, 0, -2)"),
    "scale-component": ("", "param-mean=1.0 param-stddev=0.5 l2-regularize=0.01"),
    "offset-component": ("", "param-mean=1.0 param-stddev=0.5 learning-rate-factor=0.5"),
    "dim-range-component": ("dim=5 dim-offset=7", ""),
    "fixed-affine-layer": (
        "input=Append(-1,0,1) affine-transform-file=lda.mat",
        "dim=5 affine-transform-file=lda.mat delay=5",
    ),
    "affine-layer": ("dim=5", 'dim=5 bias-mean=0.5 param-stddev=0.1 ng-affine-options="rank-in=3"'),
    "idct-layer": ("affine-transform-file=idct.mat", "dim=9 cepstral-lifter=0 affine-transform-file=idct.mat"),
    "spec-augment-layer": ("", "freq-max-proportion=0.3 time-zeroed-proportion=0.1 time-mask-max-frames=3"),
    "delta-layer": ("",),
    "tdnnf-layer": (
        "dim=12 bottleneck-dim=3",
        "dim=12 bottleneck-dim=3 context=left-only time-stride=2",
        "dim=12 bottleneck-dim=3 context=shift-left time-stride=-2 bypass-scale=-0.5",
        "dim=8 bottleneck-dim=3 context=none bypass-scale=0.0",
        "dim=8 bottleneck-dim=3 time-stride=0 bypass-scale=0.0 dropout-proportion=0.1",
    ),
    "prefinal-layer": ("big-dim=8 small-dim=4",),
    "res-block": _RES,
    "res2-block": _RES2,
    "channel-average-layer": ("dim=4",),
    "combine-feature-maps-layer": (
        "height=3 num-filters1=1 num-filters2=3",
        "height=1 num-filters1=5 num-filters2=7",
        "height=2 num-filters1=1 num-filters2=3 num-filters3=2",
    ),
    "stats-layer": (
        "config=mean(-6:1:3:6)",
        "config=mean+stddev(-6:3:3:6)",
        "config=mean+count(0:1:2:4)",
        "config=mean+stddev+count(-99:1:9:99) dim=25",
    ),
    "lstm-layer": _LSTM,
    "lstmp-layer": _LSTMP,
    "lstmp-batchnorm-layer": _LSTMP,
    "fast-lstm-layer": _LSTM,
    "fast-lstm-batchnorm-layer": _LSTM,
    "lstmb-layer": tuple(f"bottleneck-dim=5 {line}" for line in _LSTM),
    "fast-lstmp-layer": _FAST_LSTMP,
    "fast-lstmp-batchnorm-layer": _FAST_LSTMP,
    "gru-layer": _GRU,
    "fast-gru-layer": _GRU,
    "pgru-layer": _PGRU,
    "opgru-layer": (*_PGRU, 'cell-dim=8 ng-per-element-scale-options="param-mean=0.5"'),
    "fast-pgru-layer": _PGRU,
    "fast-opgru-layer": _PGRU,
    "norm-pgru-layer": _NORM_GRU,
    "norm-opgru-layer": (*_NORM_GRU, "cell-dim=8 l2-regularize=0.01"),
    "fast-norm-pgru-layer": _NORM_GRU,
    "fast-norm-opgru-layer": _NORM_GRU,
}


def examples(layer_type: str) -> tuple[str, ...]:
    """Keys and values of some layers of a type, to follow a layer of 12 columns."""
    if layer_type in _OTHERS:
        return _OTHERS[layer_type]
    if "noconv" in layer_type:
        return _NOCONV
    if "attention" in layer_type:
        return _ATTENTION
    return _CONV if "conv" in layer_type else _BASIC


def xconfig_of(layer_type: str, values: str, name: str = "layer") -> str:
    """A whole network round a layer. Values with an input of their own take it from the layer above."""
    lines = ["input name=input dim=12", f"{layer_type} name={name} {values}"]
    if layer_type == "input":
        lines = [lines[1], "no-op-component name=after input=Append(layer, layer@1)"]
    if not layer_type.startswith("output"):
        lines.append("output-layer name=output dim=3 param-stddev=1.0")
    elif name != "output":
        lines[-1] = f"{layer_type} name=output {values}"
    return "\n".join(lines) + "\n"


ALL = [(name, values) for name in LAYER_TYPES for values in examples(name)]
