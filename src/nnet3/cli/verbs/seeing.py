"""Verbs that show networks, models and programs."""

from __future__ import annotations

import re
import shutil
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from nnet3.base.options.compiling import CompileOptions
from nnet3.base.options.utterances import StreamOptions
from nnet3.cli import later
from nnet3.cli.declared import one
from nnet3.cli.messages import print_warnings
from nnet3.cli.options import (
    all_of,
    arguments,
    device_option,
    flag,
    kaldi_option,
    learning_rates_option,
    port_option,
    whole_number,
)
from nnet3.cli.text_table import Column, format_table
from nnet3.cli.verb import explain_unknown_verb, find_program, find_verb, run_on_cpu, take_use_gpu, verb
from nnet3.cli.verb_table import FAMILIES, VERBS, verbs_of_family

#: Options of several verbs: what is asked for; which passes are run.
_sequences = whole_number("--num-sequences", least=1, default=1, help="Sequences n = 0, 1, ...")
_request = all_of(
    click.option("--input", "inputs", multiple=True, metavar="NAME=FIRST:LAST[:STEP]", help="Times given at an input."),
    click.option("--output", "outputs", multiple=True, metavar="NAME=FIRST:LAST[:STEP]", help="Times wanted."),
    _sequences,
    flag("--backward", show_default=True, help="With derivatives and update."),
)
_optimizing = all_of(
    one(CompileOptions, "optimize"),
    one(
        *(CompileOptions, "level", "", "-O", "--optimization.level"),
        metavar="LEVEL",
        help="Run the passes up to -O0 (none), ..., -O4.",
    ),
)


@verb(program_defaults={"kaldi": True})
@kaldi_option
@learning_rates_option
@arguments(source="MODEL")
def am_info(source: str, kaldi: bool, print_learning_rates: bool) -> None:
    """Describe an acoustic model: transition model, priors and network.

    nnet3 am-info final.mdl
    """
    model = later.files.load_acoustic_model(source)
    if print_learning_rates:
        click.echo(later.network_tables.learning_rates(model.nnet))
        return
    if kaldi:
        click.echo(model.info(), nl=False)
        return
    transitions = model.transition_model
    click.echo(
        f"transition model: {transitions.num_pdfs} pdfs, {len(transitions.phones)} phones, "
        f"{transitions.num_transition_states} transition-states, {transitions.num_transition_ids} transition-ids"
    )
    priors = f"{len(model.priors)}, summing to {float(model.priors.sum()):.6g}" if len(model.priors) else "none"
    click.echo(f"priors: {priors}")
    later.network_tables.print_network(model.nnet)


@verb()
def cuda_compiled() -> int:
    """Tell by the exit status whether PyTorch was built for GPUs: 0 if it was, 1 if not.

    nnet3 cuda-compiled && echo "GPUs can be used"
    """
    return 0 if later.device.has_cuda() else 1


@verb()
def cuda_gpu_available() -> int:
    """Compute a little on a GPU, and tell by the exit status whether it works: 0 if it does, 1 if PyTorch was not built
    for GPUs, 255 if there is none or it fails.

    nnet3 cuda-gpu-available || exit 1
    """
    return later.device.try_gpu()


@verb()
@click.option("--speech", metavar="ZIP", help="Spoken digits instead: the Free Spoken Digit Dataset's recordings.")
@click.option("--folder", default="demo-out", show_default=True, metavar="DIR", help="Where the results are written.")
@whole_number("--seed", least=0, bits=64, default=1, help="Seed of all random numbers.")
def demo(speech: str | None, folder: str, seed: int) -> None:
    """See networks learn from real data, in under two minutes.

    By default a TDNN and an LSTM learn to read scanned handwritten digits; with --speech a TDNN learns spoken ones.
    The folder then holds for each network its config, the trained model and the compiled computation, and a
    picture of the results, report.png.

    nnet3 demo --speech recordings.zip --folder speech-demo
    """
    run_on_cpu()
    later.run_demo.run_demo(speech, folder, seed)


@verb()
@arguments(network="MODEL-OR-CONFIG")
def describe(network: str) -> None:
    """Print the layers of a network as an xconfig that expands to it.

    The file may be a raw network, an acoustic model or a config, from a recipe or not. Keys are given only where they
    differ from their defaults. What is no layer comes as comments, `# not recognised:` and the line of a config; layers
    on it name its nodes, as with --existing-model of xconfig-to-configs.

    A model does not hold what its initial parameters were drawn with, nor the names of matrices' files.

    nnet3 describe final.mdl
    nnet3 describe final.raw > network.xconfig
    """
    nnet = later.files.read_network_or_config(network)
    print_warnings(nnet.warnings)
    found = later.xconfig.describe(nnet.parts)
    layers = f"{len(found.layers)} layer{'' if len(found.layers) == 1 else 's'}"
    click.echo(f"# {'standard input' if network == '-' else ' '.join(network.split())}: {layers}")
    if not found.is_complete:
        click.echo("# Not all of it is layers: this goes on top of the network, whose nodes inputs may name.")
    click.echo(found.xconfig, nl=False)


_FORMATS = ("svg", "png", "dot")
_RANGE = re.compile(r"(-?\d{1,6})(?::(-?\d{1,6}))?")


@verb()
@click.option("--unroll", metavar="FIRST:LAST", help="Draw what the output at these frames is computed from.")
@click.option("--input", "given", metavar="FIRST:LAST", help="With --unroll: the frames of input that are given.")
@flag("--every-node", help="A box for each node rather than for each layer.")
@flag("--graphviz", default=None, help="Use the program dot (default: if it is installed).")
@arguments(source="MODEL-OR-CONFIG", output="PICTURE")
def draw(
    source: str, output: str, unroll: str | None, given: str | None, every_node: bool, graphviz: bool | None
) -> None:
    """Draw a network as a .svg, .png or .dot file (- prints SVG): layers with their dimensions and descriptors, which
    frames of each other they take, and recurrences, which are dashed.

    With --unroll, each layer is drawn once for each frame at which it is computed.

    nnet3 draw final.mdl final.svg
    nnet3 draw --unroll=0:2 network.config unrolled.png
    """
    format = "svg" if output == "-" else Path(output).suffix.removeprefix(".").lower()
    if format not in _FORMATS:
        raise click.UsageError(f"the name of the picture must end in .{', .'.join(_FORMATS)}, got '{output}'")
    if given is not None and unroll is None:
        raise click.UsageError("--input says what --unroll may use: give both")
    nnet = later.files.read_network_or_config(source)
    print_warnings(nnet.warnings)
    title = "" if source == "-" else Path(source).name
    if unroll is None:
        graph = later.picture.network_graph(nnet.parts, title, every_node=every_node)
    else:
        graph = later.unrolled.unrolled_graph(nnet, _frames(nnet, unroll, given), title)
    contents = later.drawing.draw(graph, format, use_graphviz=graphviz)
    if output == "-":
        sys.stdout.buffer.write(contents)
    else:
        later.kaldi_io.write_atomically(output, contents)


def _frames(nnet: later.network.Nnet, unroll: str, given: str | None) -> later.unrolled.Frames:
    first, last = _range("--unroll", unroll)
    if given is not None:
        return later.unrolled.Frames(first, last, *_range("--input", given))
    left, right = (nnet.left_context, nnet.right_context) if nnet.is_simple else (0, 0)
    return later.unrolled.Frames(first, last, first - left, last + right)


def _range(option: str, text: str) -> tuple[int, int]:
    match = _RANGE.fullmatch(text)
    if match is None or int(match[2] or match[1]) < int(match[1]):
        raise click.UsageError(f"{option} must be FIRST:LAST such as 0:3, got '{text}'")
    return int(match[1]), int(match[2] or match[1])


@verb()
@_request
@whole_number("--frames", least=1, default=10, help="Frames of each output without that.")
@flag("--program", default=True, show_default=True, help="Compile it; false: only the network.")
@flag("--profile", "profiled", default=True, show_default=True, help="Run and time it.")
@port_option("--serve", help="Serve the page at 127.0.0.1; port 0: any.")
@arguments(network="MODEL")
@click.argument("page", metavar="[PAGE.html]", required=False)
def explore(network: str, page: str | None, port: int | None, **options: Any) -> None:
    """Write one HTML file with everything that can be seen of a network: layers, nodes, weights; what depends on what
    in time; the program after each pass; where its matrices lie in memory; where its time goes. The file needs no
    network and no server, and can be sent to others.

    MODEL is a model, a config or an xconfig, or a computational network that `cn.save` wrote (.cn, .safetensors), which
    is given --num-sequences sequences of --frames frames. The folder of a run of `train-model` gives a page of the run:
    curves, learning rates, updates, what was skipped.

    nnet3 explore final.mdl final.html
    nnet3 explore --output=output=0:29:3 --backward=true --serve=0 final.raw
    nnet3 explore --serve=8000 exp
    """
    if page is None and port is None:
        raise click.UsageError("say where the page goes: PAGE.html, or --serve=PORT")
    run_on_cpu()
    later.exploring.write_page(network, page, port, **options)


@verb()
@click.argument("word", required=False, metavar="[FAMILY|VERB|all]")
def help(word: str | None) -> None:
    """List the verbs of a family, or all verbs by family, or explain a verb; a program of Kaldi stands for its verb.

    nnet3 help lattices
    nnet3 help lattice-prune
    """
    context = click.get_current_context()
    if word is None:
        click.echo(context.find_root().get_help())
    elif word == "all" or word in FAMILIES:
        formatter = context.make_formatter()
        for family in FAMILIES if word == "all" else (word,):
            with formatter.section(f"{FAMILIES[family]} ({family})"):
                formatter.write_dl([(each.name, each.summary) for each in verbs_of_family(family)])
        click.echo(formatter.getvalue().strip())
    else:
        found = find_verb(word) if word in VERBS else find_program(word)
        if found is None:
            raise click.UsageError(explain_unknown_verb(word))
        click.echo(click.Context(found, context.parent, f"{found.name}").get_help())


@verb(program_defaults={"kaldi": True})
@kaldi_option
@learning_rates_option
@arguments(network="MODEL-OR-CONFIG")
def info(network: str, kaldi: bool, print_learning_rates: bool) -> None:
    """Describe a network: its nodes and components, their dimensions, what is trained and how.

    The file may be a raw network, an acoustic model (its network is described) or a config.

    nnet3 info final.raw
    nnet3 info --kaldi final.raw
    """
    nnet = later.files.read_network_or_config(network)
    print_warnings(nnet.warnings)
    if print_learning_rates:
        click.echo(later.network_tables.learning_rates(nnet))
        return
    if kaldi:
        click.echo(nnet.info(), nl=False)
    else:
        later.network_tables.print_network(nnet)


@verb()
@_sequences
@whole_number("--frames", least=1, default=50, help="Output frames of each.")
@one(StreamOptions, "frame_subsampling_factor", "factor", program_default=3)
@flag("--train", show_default=True, help="A training step, not test mode.")
@_optimizing
@click.option(
    "--by",
    default="kind,type",
    show_default=True,
    help="What to put together: some of kind,type,kernel,node.",
)
@whole_number("--limit", least=1, default=25, help="Lines of the table.")
@whole_number("--repeats", least=1, default=3, help="Runs to average.")
@click.option("--trace", type=click.Path(dir_okay=False), default=None, help="Write a Chrome trace to this file.")
@device_option
@arguments(network="MODEL-OR-CONFIG")
def profile(network: str, device_name: str | None, **options: Any) -> None:
    """Run a network on random numbers and print time, memory and calls by command, component type and node.

    nnet3 profile --num-sequences 64 --train true --by node,kind --trace trace.json final.raw
    """
    chosen = later.device.choose_device(device_name, take_use_gpu() or "no")
    later.profile_network.print_profile(network, device=chosen, **options)


@verb()
@_request
@_optimizing
@click.option("--disable-pass", "disabled", multiple=True, metavar="PASS", help="Leave out one pass.")
@flag("--graph", show_default=True, help="Print the graph in full.")
@flag("--schedule", "--show-steps", "steps", show_default=True, help="Print every step of the schedule, in full.")
@flag("--passes", show_default=True, help="Print what each pass changes, and its commands, calls and bytes.")
@flag(
    "--family",
    show_default=True,
    help="Print the program for T output frames of N sequences, compiled once for all; nothing else is printed.",
)
@whole_number("--max-commands", least=1, help="Print only so many commands, and lines of each pass.")
@flag("--profile", "profiled", help="Run it on random numbers; print the time of each.")
@arguments(network="MODEL-OR-CONFIG")
def show_computation(network: str, **options: Any) -> None:
    """Compile a model file or a config file for a request, and print the stages.

    Without --output, every output is asked for at t = 0:9, with --family at t = 0:199. Without --input, a simple
    network is given the input frames that these need, and an ivector at t = 0. Commands are printed in groups, one for
    each node. With --family the number of sequences is free too if there are five or more.

    nnet3 show-computation --output output=0:9 --num-sequences 2 network.config
    nnet3 show-computation --graph --schedule --profile final.raw
    nnet3 show-computation --passes --backward true --max-commands 20 final.raw
    nnet3 show-computation -O1 --disable-pass dead_code final.raw
    nnet3 show-computation --family --num-sequences 5 --backward true final.raw
    """
    run_on_cpu()
    later.show_stages.show_stages(network, **options)


@verb()
@arguments(tree="TREE")
def tree_info(tree: str) -> None:
    """Print the number of pdfs of a tree, and the window of phones that it looks at.

    nnet3 tree-info tree
    """
    for line in later.graph_making.tree_lines(tree):
        click.echo(line)


_MOST_WIDE = 120


@verb()
@click.argument("layer", required=False, metavar="[LAYER]")
def xconfig_help(layer: str | None) -> None:
    """List the layer types of xconfigs, or explain one: its keys, an example, what it stands for, a drawing.

    docs/xconfig.md has the same for all of them.

    nnet3 xconfig-help
    nnet3 xconfig-help tdnnf-layer
    """
    width = min(_MOST_WIDE, shutil.get_terminal_size().columns)
    lines = _all_types(width) if layer is None else _one_type(later.expand.layer_type(layer), width)
    click.echo("\n".join(lines))


def _all_types(width: int) -> Iterator[str]:
    longest = max(map(len, later.layer_types.LAYER_TYPES))
    for family, types in later.layer_types.FAMILIES.items():
        yield f"{family}:"
        for layer_type in types:
            prefix = f"  {layer_type.name.ljust(longest)}  "
            yield textwrap.fill(layer_type.summary, width, initial_indent=prefix, subsequent_indent=" " * len(prefix))
        yield ""
    yield "`nnet3 xconfig-help LAYER` explains one of them."


def _one_type(layer_type: later.layer.LayerType, width: int) -> Iterator[str]:
    yield from textwrap.wrap(f"{layer_type.name}: {layer_type.summary}", width)
    rows = later.manual.key_rows(layer_type)
    if rows:
        yield ""
        meanings = [
            f"{row.meaning} {row.values[0].upper()}{row.values[1:]}." if row.values else row.meaning for row in rows
        ]
        columns = [
            Column("key", [row.name for row in rows]),
            Column("type", [row.kind for row in rows]),
            Column("default", [row.default for row in rows]),
            Column("meaning", meanings),
        ]
        yield from format_table(columns, width)
    yield from ("", "Example:", "", *(f"  {line}" for line in later.manual.example_lines(layer_type)))
    yield from ("", "The layer is drawn as", "", *(f"  {line}" for line in later.manual.drawing(layer_type)))
    yield from ("", "and stands for", "", *(f"  {line}" for line in later.manual.expansion_lines(layer_type)))
