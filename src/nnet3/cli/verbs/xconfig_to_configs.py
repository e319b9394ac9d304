import shlex

import click

from nnet3.cli import later
from nnet3.cli.messages import print_warnings
from nnet3.cli.verb import MODELS, verb


@verb("make config files of an xconfig, which describes layers", MODELS)
@click.option("--xconfig-file", required=True, metavar="FILE", help="The xconfig.")
@click.option("--config-dir", metavar="FOLDER", help="Where all files go; made if it is not there.")
@click.option("--config-file-out", metavar="FILE", help="Instead of that: where final.config alone goes.")
@click.option("--existing-model", metavar="RAW", help="A network whose nodes the inputs of layers may name.")
@click.option("--nnet-edits", default="", metavar="EDITS", help="Edits before the context is found, ';' between them.")
def command(
    xconfig_file: str, config_dir: str | None, config_file_out: str | None, existing_model: str | None, nnet_edits: str
) -> None:
    """Expand an xconfig to configs.

    The folder gets init.config (if a fixed-affine-layer wants one), ref.config and final.config, the xconfig with all
    values (xconfig.expanded.1, and .2 with inputs in normal form), the networks init.raw and ref.raw, and the left and
    right context of the network in `vars`.

    `nnet3 init network.xconfig 0.raw` makes a network of an xconfig in one step.

    \b
    Examples:
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
