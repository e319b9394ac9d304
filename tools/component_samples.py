"""A small sample config of every component type, for tools that try them all."""

from __future__ import annotations

SAMPLES: dict[str, str] = {
    "AffineComponent": "input-dim=6 output-dim=4",
    "BackpropTruncationComponent": "dim=4 clipping-threshold=5 zeroing-threshold=2 zeroing-interval=2",
    "BatchNormComponent": "dim=4",
    "BlockAffineComponent": "input-dim=6 output-dim=4 num-blocks=2",
    "ClipGradientComponent": "dim=4 clipping-threshold=5",
    "CompositeComponent": "num-components=2 component1='type=AffineComponent input-dim=6 output-dim=4' "
    "component2='type=RectifiedLinearComponent dim=4'",
    "ConstantComponent": "output-dim=4",
    "ConstantFunctionComponent": "input-dim=6 output-dim=4 is-updatable=true",
    "ConvolutionComponent": "input-x-dim=3 input-y-dim=4 input-z-dim=1 filt-x-dim=2 filt-y-dim=2 filt-x-step=1 "
    "filt-y-step=1 num-filters=2",
    "DistributeComponent": "input-dim=6 output-dim=3",
    "DropoutComponent": "dim=4 dropout-proportion=0.5",
    "DropoutMaskComponent": "output-dim=2 dropout-proportion=0.5",
    "ElementwiseProductComponent": "input-dim=6 output-dim=3",
    "FixedAffineComponent": "input-dim=6 output-dim=4",
    "FixedBiasComponent": "dim=4",
    "FixedScaleComponent": "dim=4",
    "GeneralDropoutComponent": "dim=4 dropout-proportion=0.5",
    "GruNonlinearityComponent": "cell-dim=4",
    "LinearComponent": "input-dim=6 output-dim=4",
    "LogSoftmaxComponent": "dim=4",
    "LstmNonlinearityComponent": "cell-dim=4",
    "MaxpoolingComponent": "input-x-dim=4 input-y-dim=2 input-z-dim=1 pool-x-size=2 pool-y-size=2 pool-z-size=1 "
    "pool-x-step=2 pool-y-step=2 pool-z-step=1",
    "NaturalGradientAffineComponent": "input-dim=6 output-dim=4",
    "NaturalGradientPerElementScaleComponent": "dim=4",
    "NaturalGradientRepeatedAffineComponent": "input-dim=6 output-dim=4 num-repeats=2",
    "NoOpComponent": "dim=4",
    "NormalizeComponent": "dim=4",
    "OutputGruNonlinearityComponent": "cell-dim=4",
    "PerElementOffsetComponent": "dim=4",
    "PerElementScaleComponent": "dim=4",
    "PermuteComponent": "column-map=2,0,1",
    "PnormComponent": "input-dim=6 output-dim=3",
    "RectifiedLinearComponent": "dim=4",
    "RepeatedAffineComponent": "input-dim=6 output-dim=4 num-repeats=2",
    "RestrictedAttentionComponent": "num-heads=1 key-dim=2 value-dim=3 time-stride=1 num-left-inputs=1 "
    "num-right-inputs=1 num-left-inputs-required=0 num-right-inputs-required=0",
    "ScaleAndOffsetComponent": "dim=4",
    "SigmoidComponent": "dim=4",
    "SoftmaxComponent": "dim=4",
    "SpecAugmentTimeMaskComponent": "dim=4 zeroed-proportion=0.25 time-mask-max-frames=2",
    "StatisticsExtractionComponent": "input-dim=3 input-period=1 output-period=2 include-variance=true",
    "StatisticsPoolingComponent": "input-dim=7 num-log-count-features=1 output-stddevs=true left-context=2 "
    "right-context=2 input-period=1",
    "SumBlockComponent": "input-dim=6 output-dim=3",
    "SumGroupComponent": "sizes=2,4",
    "TanhComponent": "dim=4",
    "TdnnComponent": "input-dim=6 output-dim=4 time-offsets=-1,0,1",
    "TimeHeightConvolutionComponent": "num-filters-in=2 num-filters-out=2 height-in=3 height-out=3 "
    "height-offsets=-1,0,1 time-offsets=-1,0,1 required-time-offsets=0",
}
"""Type name to the keys of its config line."""
