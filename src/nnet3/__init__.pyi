# The public names of the package, and where each lives. This is the only list of them.
from . import (
    asr as asr,
    cn as cn,
    components as components,
    errors as errors,
    explore as explore,
    serve as serve,
    stages as stages,
    train as train,
)
from .asr.aligning import align as align
from .asr.pronouncing import Lexicon as Lexicon
from .chain import chain_loss as chain_loss
from .compiler import (
    ComputationRequest as ComputationRequest,
    IoSpecification as IoSpecification,
    compile as compile,
    compile_family as compile_family,
)
from .decode import (
    BatchComputer as BatchComputer,
    StreamComputer as StreamComputer,
    cosine_scores as cosine_scores,
    gop as gop,
    phone_log_posteriors as phone_log_posteriors,
    xvectors as xvectors,
)
from .driver import ComputationCache as ComputationCache
from .errors import Nnet3Error as Nnet3Error
from .export import OnnxMetadata as OnnxMetadata, export_onnx as export_onnx, load_onnx_metadata as load_onnx_metadata
from .hmm import TransitionModel as TransitionModel
from .nnet import (
    AcousticModel as AcousticModel,
    Nnet as Nnet,
    load as load,
    load_nnet as load_nnet,
    load_transition_model as load_transition_model,
)
from .options import CompileOptions as CompileOptions
from .runtime import NnetComputer as NnetComputer
from .stages import optimize as optimize
from .train.torch_module import TorchModule as TorchModule
from .version import __version__ as __version__
