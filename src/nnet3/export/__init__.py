"""ONNX files of networks, for stock onnxruntime: operators of the standard alone, made from compiled programs."""

from nnet3.errors import ExportError

try:
    import onnx
    import onnx_ir
    import onnxruntime
except ImportError as _missing:
    raise ExportError(
        f"ONNX files need the package {_missing.name}, which is not installed: pip install 'nnet3[onnx]'"
    ) from None

from nnet3.export.metadata import OnnxMetadata, load_onnx_metadata
from nnet3.export.nnet.export_onnx import export_onnx
