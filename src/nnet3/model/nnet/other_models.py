"""Names of the models written by other parts of Kaldi, for messages: such files are none of nnet3."""

from __future__ import annotations

from nnet3.base.kaldi_io.reader import Reader

_CONVERTED = "of which `nnet3 convert` makes one of nnet3"
_NNET1 = f"a model of nnet1, {_CONVERTED}"
_NNET2 = f"a model of nnet2, {_CONVERTED}"
_GMM = "a model of Gaussian mixtures (GMM)"
_MODELS = {
    "<DIMENSION>": _GMM,
    "<DiagGMM>": _GMM,
    "<FullGMM>": _GMM,
    "<SGMM>": "a model of subspace Gaussian mixtures (SGMM)",
    "<IvectorExtractor>": "an extractor of ivectors",
    "<Nnet>": _NNET1,
    "<AffineTransform>": _NNET1,
    "<Splice>": _NNET1,
    "ContextDependency": "a tree",
}


def other_model(reader: Reader) -> str:
    """Returns ": this is a model of nnet1" and the like if such a model comes next, else ""; consumes nothing."""
    model = _MODELS.get(reader.peek_token(), "")
    if model == _NNET1:
        start = reader.position
        reader.token()
        model = _NNET2 if reader.peek_token() == "<NumComponents>" else model
        reader.position = start
    return f": this is {model}" if model else ""
