# The public names of the package, and where each lives. This is the only list of them.
from . import (
    asr as asr,
    cn as cn,
    components as components,
    errors as errors,
    explore as explore,
    serve as serve,
    speaker as speaker,
    stages as stages,
    train as train,
)
from .base.options.compiling import CompileOptions as CompileOptions
from .engine.driver import ComputationCache as ComputationCache
from .engine.runtime import NnetComputer as NnetComputer
from .errors import Nnet3Error as Nnet3Error
from .export import OnnxMetadata as OnnxMetadata, export_onnx as export_onnx, load_onnx_metadata as load_onnx_metadata
from .inference.batch import BatchComputer as BatchComputer
from .inference.pronunciation import gop as gop, phone_log_posteriors as phone_log_posteriors
from .inference.stream import StreamComputer as StreamComputer
from .inference.xvector import cosine_scores as cosine_scores, xvectors as xvectors
from .model.hmm.transition_model import TransitionModel as TransitionModel
from .model.nnet import (
    AcousticModel as AcousticModel,
    Nnet as Nnet,
    load as load,
    load_nnet as load_nnet,
    load_transition_model as load_transition_model,
)
from .model.requests import (
    ComputationRequest as ComputationRequest,
    IoSpecification as IoSpecification,
    compile as compile,
    compile_family as compile_family,
)
from .speech.asr.aligning import align as align
from .speech.asr.pronouncing import Lexicon as Lexicon
from .stages import optimize as optimize
from .training.chain.chain_loss import chain_loss as chain_loss
from .training.discriminative.discriminative_loss import discriminative_loss as discriminative_loss
from .training.train.torch_module import TorchModule as TorchModule
from .version import __version__ as __version__
