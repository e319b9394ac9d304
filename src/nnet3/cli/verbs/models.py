"""Verbs that make, change and convert networks and models."""

from __future__ import annotations

import math
import shlex
from typing import Any

import click

from nnet3.base.options.onnx import OnnxOptions
from nnet3.cli import later
from nnet3.cli.copy_options import copy_options, make_copy_options
from nnet3.cli.declared import takes
from nnet3.cli.messages import print_warnings, say
from nnet3.cli.options import (
    arguments,
    binary_option,
    flag,
    ignored,
    integer,
    prior_floor_option,
    seed_option,
    text_option,
)
from nnet3.cli.verb import verb


@verb(program_defaults={"kaldi": True})
@binary_option
@flag("--kaldi", help="As Kaldi's program: without a floor, and with its lines.")
@prior_floor_option(default=1e-15)
@arguments(source="MODEL-IN", posteriors="SUMMED-POSTERIORS", output="MODEL-OUT")
def am_adjust_priors(source: str, posteriors: str, output: str, binary: bool, kaldi: bool, prior_floor: float) -> None:
    """Set the priors to a vector of summed or averaged posteriors, normalised to sum to one.

    nnet3 am-adjust-priors final.mdl counts.vec final_with_priors.mdl
    """
    model = later.files.load_acoustic_model(source)
    if kaldi:
        for line in later.priors.adjust_as_kaldi(model, posteriors):
            say(line)
    else:
        change = later.priors.adjust(model, posteriors, prior_floor)
        if change:
            click.echo(change, err=True)
    later.files.save_model(model, output, binary)


@verb()
@binary_option
@copy_options
@flag("--raw", help="Write the network alone.")
@click.option("--set-raw-nnet", metavar="RAW", help="Put this network in the place of the model's.")
@flag("--convert-repeated-to-block", help="RepeatedAffine becomes BlockAffine.")
@arguments(source="MODEL-IN", output="MODEL-OUT")
def am_copy(source: str, output: str, binary: bool, raw: bool, set_raw_nnet: str | None, **options: Any) -> None:
    """Copy an acoustic model, with changes in this order: set-raw-nnet, nnet-config, convert-repeated-to-block,
    learning rates, edits, scale, prepare-for-test.

    nnet3 am-copy --raw=true final.mdl final.raw
    nnet3 am-copy --prepare-for-test=true final.mdl final_test.mdl
    """
    model = later.files.load_acoustic_model(source)
    replacement = None if set_raw_nnet is None else later.files.load_network(set_raw_nnet)
    print_warnings(later.copy_operations.copy_model(model, make_copy_options(**options, set_raw_nnet=replacement)))
    later.files.save_model(model.nnet if raw else model, output, binary)


@verb()
@binary_option
@arguments(names="{TRANSITION-MODEL | TREE TOPOLOGY} RAW-IN MODEL-OUT")
def am_init(names: tuple[str, ...], binary: bool) -> None:
    """Join a transition model and a raw network. Priors are not set.

    The transition model is given as a file, which may be any model that begins with one, or made of a tree and a
    topology, with the topology's transition probabilities.

    nnet3 am-init tri3.mdl 0.raw 0.mdl
    nnet3 am-init tree topo 0.raw 0.mdl
    """
    if len(names) not in (3, 4):
        raise click.UsageError("give a transition model, or a tree and a topology; then a raw network and the output")
    *sources, network, output = names
    transitions = (
        later.files.load_transitions(*sources) if len(sources) == 1 else later.files.make_transitions(*sources)
    )
    model = later.acoustic_model.AcousticModel(transitions, later.files.load_network(network))
    print_warnings([*transitions.topology.warnings, *model.warnings] if len(sources) == 2 else model.warnings)
    later.files.save_model(model, output, binary)


@verb()
@binary_option
@click.option("--weights", metavar="W1:W2:...", help="One weight per network; made to sum to one.")
@ignored("--num-threads", kind=integer())
@arguments(files="RAW-IN... RAW-OUT")
def average(files: tuple[str, ...], binary: bool, weights: str | None) -> None:
    """Average parameters and statistics of raw networks of the same structure.

    nnet3 average --weights=2:1:1 1.1.raw 1.2.raw 1.3.raw 2.raw
    """
    if len(files) < 2:
        raise click.UsageError("give at least one network to read and the file to write")
    *inputs, output = files
    networks = [later.files.load_network(name) for name in inputs]
    mean = later.average.average(networks, _weights(weights, len(inputs)), names=inputs)
    later.files.save_model(mean, output, binary)


def _weights(text: str | None, count: int) -> list[float] | None:
    if text is None:
        return None
    try:
        values = [float(piece) for piece in text.split(":")]
    except ValueError:
        raise click.UsageError(f"--weights must be numbers with colons between, got '{text}'") from None
    if len(values) != count or not all(math.isfinite(value) for value in values):
        raise click.UsageError(f"--weights must be {count} numbers, one per network, got '{text}'")
    return values


@verb()
@binary_option
@click.option("--feature-transform", metavar="NNET1", help="A network of nnet1 that comes before the network.")
@flag("--log-softmax", default=True, help="Softmax at the end becomes LogSoftmax, as decoders of nnet3 want it.")
@arguments(source="MODEL-IN", output="MODEL-OUT")
def convert(source: str, output: str, binary: bool, feature_transform: str | None, log_softmax: bool) -> None:
    """Make a model of nnet3 of one of nnet2, or of a network of nnet1.

    Of a model of nnet2 (final.mdl) transition model and priors are kept. An ivector behind the features, which the
    first splicing takes once, becomes the input `ivector`. Of nnet1 a raw network is made. Components without a
    counterpart in nnet3 are an error that names them.

    nnet3 convert exp/nnet2_online/final.mdl final.mdl
    nnet3 convert --feature-transform=final.feature_transform final.nnet final.raw
    """
    transform = None if feature_transform is None else later.files.open_file(feature_transform)
    model = later.convert.convert(later.files.open_file(source), transform, log_softmax=log_softmax)
    later.files.save_model(model, output, binary)


@verb()
@binary_option
@copy_options
@flag("--batchnorm-test-mode", help="Put batch-norm in test mode.")
@arguments(source="MODEL-IN", output="RAW-OUT")
def copy(source: str, output: str, binary: bool, batchnorm_test_mode: bool, **options: Any) -> None:
    """Copy a raw network (or the network of an acoustic model), with changes in this order: nnet-config, learning
    rates, scale, edits, prepare-for-test.

    --prepare-for-test=true puts batch-norm and dropout in test mode and merges affine, scale and batch-norm layers
    into their neighbours; the outputs stay equal.

    nnet3 copy --binary=false final.raw final.txt
    nnet3 copy --edits='set-learning-rate name=tdnn1* learning-rate=0; remove-orphans' 1.raw 2.raw
    """
    nnet = later.files.load_network(source)
    print_warnings(
        later.copy_operations.copy_raw(nnet, make_copy_options(**options, batchnorm_test_mode=batchnorm_test_mode))
    )
    later.files.save_model(nnet, output, binary)


@verb()
@binary_option
@arguments(model="MODEL-IN", output="TRANSITION-MODEL-OUT")
def copy_transition_model(model: str, output: str, binary: bool) -> None:
    """Write the transition model that a file begins with, alone.

    nnet3 copy-transition-model --binary=false final.mdl -
    """
    later.alignment_tables.copy_transitions(model, output, binary)


@verb()
@takes("options", OnnxOptions)
@arguments(network="MODEL", output="ONNX-FILE")
def export_onnx(network: str, output: str, options: OnnxOptions) -> None:
    """Write a network as an ONNX file of standard operators, for onnxruntime and other engines.

    The file takes chunks of a fixed number of frames, with their context, for any number of sequences; with
    --frames-per-chunk=0 whole utterances of any length; with --streaming=true chunks of streams, whose state goes in
    and comes out. With --features=mfcc:conf/mfcc.conf it takes samples of audio instead of features. Batch-norm and
    dropout are in test mode. The file is kept only if onnxruntime gives the same on random input. docs/onnx.md says how
    a client feeds it.

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
    if about.note:
        say(about.note)


@verb()
@arguments(model="MODEL-DIR", folder="OUT-DIR")
def export_sherpa(model: str, folder: str) -> None:
    """Write a chain model and its graph as sherpa-onnx takes them: model.onnx, HLG.fst, tokens.txt and words.txt.

    The model directory is one of Kaldi's or Vosk's, with HCLG.fst, without ivectors. Before model.onnx is kept,
    onnxruntime runs it.

    nnet3 export-sherpa vosk-model-small sherpa
    """
    later.sherpa.export_sherpa(model, folder)


@verb()
@binary_option
@seed_option
@arguments(files="[RAW-IN] CONFIG... RAW-OUT")
def init(files: tuple[str, ...], binary: bool, seed: int) -> None:
    """Make a raw network from one or more configs or xconfigs, applied in order.

    If the first of several files is a network rather than a config, it is what the configs are applied to.

    nnet3 init network.config 0.raw
    nnet3 init network.xconfig 0.raw
    nnet3 init 0.raw add_layer.config 1.raw
    """
    if len(files) < 2:
        raise click.UsageError("give at least one config file and the file to write")
    *inputs, output = files
    nnet = later.network.Nnet((), {})
    if len(inputs) > 1:
        nnet = later.files.read_network_or_config(inputs.pop(0), seed)
        seed += 1
    later.files.apply_config_files(nnet, inputs, seed)
    print_warnings(nnet.warnings)
    later.files.save_model(nnet, output, binary)


@verb()
@click.option("--xconfig-file", required=True, metavar="FILE", help="The xconfig.")
@click.option("--config-dir", metavar="FOLDER", help="Where all files go; made if it is not there.")
@click.option("--config-file-out", metavar="FILE", help="Instead of that: where final.config alone goes.")
@click.option("--existing-model", metavar="RAW", help="A network whose nodes the inputs of layers may name.")
@text_option("--nnet-edits", metavar="EDITS", help="Edits before the context is found, ';' between them.")
def xconfig_to_configs(
    xconfig_file: str, config_dir: str | None, config_file_out: str | None, existing_model: str | None, nnet_edits: str
) -> None:
    """Expand an xconfig to configs.

    The folder gets init.config (if a fixed-affine-layer wants one), ref.config and final.config, the xconfig with all
    values (xconfig.expanded.1, and .2 with inputs in normal form), the networks init.raw and ref.raw, and the left and
    right context of the network in `vars`.

    `nnet3 init network.xconfig 0.raw` makes a network of an xconfig in one step.

    nnet3 xconfig-to-configs --xconfig-file=network.xconfig --config-dir=configs
    nnet3 xconfig-to-configs --existing-model=1.raw --xconfig-file=add.xconfig --config-dir=configs \\
      --nnet-edits='rename-node old-name=output-0 new-name=output'
    """
    if (config_dir is None) == (config_file_out is None):
        raise click.UsageError("give --config-dir, or --config-file-out for final.config alone")
    existing = later.files.load_network(existing_model) if existing_model else None
    text, source = later.files.read_text(xconfig_file), "<stdin>" if xconfig_file == "-" else xconfig_file
    if config_file_out is not None:
        later.config_dir.write_final_config(text, source, config_file_out, existing=existing)
        return
    assert config_dir is not None
    words = ["nnet3", "xconfig-to-configs", f"--xconfig-file={xconfig_file}", f"--config-dir={config_dir}"]
    words += [f"--existing-model={existing_model}"] if existing_model else []
    words += [f"--nnet-edits={nnet_edits}"] if nnet_edits.strip() else []
    made = later.config_dir.make_config_dir(
        text, source, existing=existing, edits=nnet_edits, command=shlex.join(words)
    )
    print_warnings(made.warnings)
    made.write(config_dir)
    click.echo(f"left-context: {made.left_context}\nright-context: {made.right_context}")
