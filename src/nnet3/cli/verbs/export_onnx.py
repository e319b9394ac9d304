from nnet3.cli import later
from nnet3.cli.declared import takes
from nnet3.cli.messages import print_warnings, say
from nnet3.cli.options import arguments
from nnet3.cli.verb import MODELS, verb
from nnet3.options import OnnxOptions


@verb("write a network as an ONNX file", MODELS)
@takes("options", OnnxOptions)
@arguments(network="MODEL", output="ONNX-FILE")
def command(network: str, output: str, options: OnnxOptions) -> None:
    """Write a network as an ONNX file of standard operators, for onnxruntime and other engines.

    The file takes chunks of a fixed number of frames, with their context, for any number of sequences; with
    --frames-per-chunk=0 whole utterances of any length; with --streaming=true chunks of streams, whose state goes in
    and comes out. With --features=mfcc:conf/mfcc.conf it takes samples of audio instead of features. Batch-norm and
    dropout are in test mode. The file is kept only if onnxruntime gives the same on random input. docs/onnx.md says how
    a client feeds it.

    \b
    Example:
      nnet3 export-onnx --frames-per-chunk=150 --frame-subsampling-factor=3 final.mdl model.onnx
    """
    model = later.files.load_model(network)
    print_warnings(model.warnings)
    about = later.export.export_onnx(model, output, **options.values())
    rows = about.output_rows or "rows"
    frames: int | str = about.input_frames or "frames"
    samples: int | str = about.input_samples or "samples"
    if about.form == "stream":
        frames = f"at first {about.first_frames}, then {frames}"
        samples = f"at first {about.first_samples}, then {samples}"
    given = f"wave (batch, {samples})" if about.features else f"input (batch, {frames}, {about.input_dim})"
    size = "batch" if about.form == "vector" else f"batch, {rows}"
    outputs = ", ".join(f"{name} ({size}, {dim})" for name, dim in about.output_dims.items())
    ivector = f", ivector (batch, {about.ivector_dim})" if about.ivector_dim else ""
    say(f"{given}{ivector} -> {outputs}")
