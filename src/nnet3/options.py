"""Every option of the package, declared once: command lines, settings files and checks follow. No PyTorch here."""

from nnet3.base.options.alignment import (
    AlignmentOptions as AlignmentOptions,
    DecodingGraphOptions as DecodingGraphOptions,
    LangOptions as LangOptions,
    TrainingGraphOptions as TrainingGraphOptions,
    TransitionOptions as TransitionOptions,
    WordTimesOptions as WordTimesOptions,
)
from nnet3.base.options.chain import (
    ChainOptions as ChainOptions,
    DenominatorOptions as DenominatorOptions,
    PhoneLmOptions as PhoneLmOptions,
    SupervisingOptions as SupervisingOptions,
    Tolerances as Tolerances,
)
from nnet3.base.options.compiling import (
    DEFAULT_LEVEL as DEFAULT_LEVEL,
    HIGHEST_LEVEL as HIGHEST_LEVEL,
    CompileOptions as CompileOptions,
    DerivTimes as DerivTimes,
)
from nnet3.base.options.declaring import (
    Option as Option,
    Options as Options,
    again as again,
    declared as declared,
    option as option,
)
from nnet3.base.options.editing import CollapseOptions as CollapseOptions
from nnet3.base.options.examples import (
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
from nnet3.base.options.images import ImageOptions as ImageOptions
from nnet3.base.options.online import OnlineDecodingOptions as OnlineDecodingOptions, TcpOptions as TcpOptions
from nnet3.base.options.onnx import NetworkOnnxOptions as NetworkOnnxOptions, OnnxOptions as OnnxOptions
from nnet3.base.options.pitch import PitchFeatureOptions as PitchFeatureOptions, PitchOptions as PitchOptions
from nnet3.base.options.recognizer import (
    CmvnOptions as CmvnOptions,
    DecodingOptions as DecodingOptions,
    EndpointRule as EndpointRule,
    ExtractorFileOptions as ExtractorFileOptions,
    FbankOptions as FbankOptions,
    FrameOptions as FrameOptions,
    IvectorOptions as IvectorOptions,
    LatticeOptions as LatticeOptions,
    MfccOptions as MfccOptions,
    OnlineCmvnOptions as OnlineCmvnOptions,
    OnlineFeatureOptions as OnlineFeatureOptions,
    PlpOptions as PlpOptions,
    SearchOptions as SearchOptions,
    SilenceOptions as SilenceOptions,
    SilenceWeightingOptions as SilenceWeightingOptions,
    SpliceOptions as SpliceOptions,
)
from nnet3.base.options.serve import HearingOptions as HearingOptions, ServeOptions as ServeOptions
from nnet3.base.options.speaker import (
    ClusteringOptions as ClusteringOptions,
    DiarizationOptions as DiarizationOptions,
    PldaAdaptationOptions as PldaAdaptationOptions,
    PldaScoringOptions as PldaScoringOptions,
    SlidingCmvnOptions as SlidingCmvnOptions,
    SpeakerLdaOptions as SpeakerLdaOptions,
    VadOptions as VadOptions,
)
from nnet3.base.options.training import (
    FeatureTransformOptions as FeatureTransformOptions,
    LdaStatsOptions as LdaStatsOptions,
    StepOptions as StepOptions,
    TrainerOptions as TrainerOptions,
)
from nnet3.base.options.tuning import TuningOptions as TuningOptions
from nnet3.base.options.utterances import (
    BatchOptions as BatchOptions,
    EqualXvectorOptions as EqualXvectorOptions,
    IvectorTables as IvectorTables,
    PrecisionOptions as PrecisionOptions,
    ScoreOptions as ScoreOptions,
    StreamOptions as StreamOptions,
    UtteranceOptions as UtteranceOptions,
    XvectorOptions as XvectorOptions,
)
from nnet3.base.options.waves import TrailingSilenceOptions as TrailingSilenceOptions
