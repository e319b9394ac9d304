"""Every option of the package, declared once: command lines, settings files and checks follow. No PyTorch here."""

from nnet3.options.alignment import (
    AlignmentOptions,
    DecodingGraphOptions,
    LangOptions,
    TrainingGraphOptions,
    TransitionOptions,
    WordTimesOptions,
)
from nnet3.options.chain import ChainOptions, DenominatorOptions, PhoneLmOptions, SupervisingOptions, Tolerances
from nnet3.options.compiling import DEFAULT_LEVEL, HIGHEST_LEVEL, CompileOptions, DerivTimes
from nnet3.options.declaring import Option, Options, again, declared, option
from nnet3.options.editing import CollapseOptions
from nnet3.options.examples import (
    WHOLE,
    ChainMakingOptions,
    ChainMergingOptions,
    ChunkOptions,
    CopyingOptions,
    InputOptions,
    MakingOptions,
    MergingOptions,
    ShufflingOptions,
    SubsetOptions,
    XvectorMakingOptions,
)
from nnet3.options.onnx import NetworkOnnxOptions, OnnxOptions
from nnet3.options.recognizer import (
    CmvnOptions,
    DecodingOptions,
    EndpointRule,
    ExtractorFileOptions,
    FbankOptions,
    FrameOptions,
    IvectorOptions,
    LatticeOptions,
    MfccOptions,
    OnlineCmvnOptions,
    OnlineFeatureOptions,
    SearchOptions,
    SilenceOptions,
    SilenceWeightingOptions,
    SpliceOptions,
)
from nnet3.options.serve import HearingOptions, ServeOptions
from nnet3.options.training import FeatureTransformOptions, LdaStatsOptions, StepOptions, TrainerOptions
from nnet3.options.tuning import TuningOptions
from nnet3.options.utterances import (
    BatchOptions,
    EqualXvectorOptions,
    IvectorTables,
    PrecisionOptions,
    ScoreOptions,
    StreamOptions,
    UtteranceOptions,
    XvectorOptions,
)
