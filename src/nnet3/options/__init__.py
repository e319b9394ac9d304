"""Every option of the package, declared once: command lines, settings files and checks follow. No PyTorch here."""

from nnet3.options.alignment import (
    AlignmentOptions as AlignmentOptions,
    TrainingGraphOptions as TrainingGraphOptions,
    TransitionOptions as TransitionOptions,
    WordTimesOptions as WordTimesOptions,
)
from nnet3.options.chain import (
    ChainOptions as ChainOptions,
    DenominatorOptions as DenominatorOptions,
    PhoneLmOptions as PhoneLmOptions,
    SupervisingOptions as SupervisingOptions,
    Tolerances as Tolerances,
)
from nnet3.options.compiling import (
    HIGHEST_LEVEL as HIGHEST_LEVEL,
    CompileOptions as CompileOptions,
    DerivTimes as DerivTimes,
)
from nnet3.options.declaring import (
    Option as Option,
    Options as Options,
    again as again,
    declared as declared,
    option as option,
)
from nnet3.options.examples import (
    WHOLE as WHOLE,
    ChainMakingOptions as ChainMakingOptions,
    ChainMergingOptions as ChainMergingOptions,
    ChunkOptions as ChunkOptions,
    CopyingOptions as CopyingOptions,
    InputOptions as InputOptions,
    MakingOptions as MakingOptions,
    MergingOptions as MergingOptions,
    ShufflingOptions as ShufflingOptions,
    SubsetOptions as SubsetOptions,
    XvectorMakingOptions as XvectorMakingOptions,
)
from nnet3.options.feature_transform import FeatureTransformOptions as FeatureTransformOptions
from nnet3.options.lexicon import DecodingGraphOptions as DecodingGraphOptions, LangOptions as LangOptions
from nnet3.options.onnx import NetworkOnnxOptions as NetworkOnnxOptions, OnnxOptions as OnnxOptions
from nnet3.options.recognizer import (
    DecodingOptions as DecodingOptions,
    EndpointRule as EndpointRule,
    FbankOptions as FbankOptions,
    FrameOptions as FrameOptions,
    IvectorOptions as IvectorOptions,
    LatticeOptions as LatticeOptions,
    MfccOptions as MfccOptions,
    OnlineCmvnOptions as OnlineCmvnOptions,
    SearchOptions as SearchOptions,
    SilenceOptions as SilenceOptions,
    SpliceOptions as SpliceOptions,
)
from nnet3.options.serve import HearingOptions as HearingOptions, ServeOptions as ServeOptions
from nnet3.options.training import StepOptions as StepOptions, TrainerOptions as TrainerOptions
from nnet3.options.utterances import (
    BatchOptions as BatchOptions,
    EqualXvectorOptions as EqualXvectorOptions,
    PrecisionOptions as PrecisionOptions,
    StreamOptions as StreamOptions,
    UtteranceOptions as UtteranceOptions,
    XvectorOptions as XvectorOptions,
)
