"""Verbs that run and train networks, and recognise speech."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from nnet3.base.options.alignment import WordTimesOptions
from nnet3.base.options.serve import ServeOptions
from nnet3.base.options.training import TrainerOptions
from nnet3.base.options.tuning import TuningOptions
from nnet3.base.options.utterances import (
    BatchOptions,
    EqualXvectorOptions,
    ScoreOptions,
    StreamOptions,
    UtteranceOptions,
    XvectorOptions,
)
from nnet3.cli import later
from nnet3.cli.compute_options import (
    chunk_options,
    compute_matrices,
    compute_streams,
    compute_xvectors,
    score_options,
    xvector_options,
)
from nnet3.cli.declared import one, takes
from nnet3.cli.messages import say
from nnet3.cli.options import (
    accuracy_options,
    arguments,
    binary_option,
    caching_options,
    device_option,
    flag,
    gradient_option,
    graph_folder_option,
    ignored,
    integer,
    max_evaluations_option,
    port_option,
    speaker_model_option,
    test_mode_options,
    text_option,
    whole_number,
)
from nnet3.cli.verb import take_use_gpu, verb
from nnet3.errors import Nnet3Error


@verb()
@binary_option
@test_mode_options(batchnorm=False, dropout=True)
@max_evaluations_option
@arguments(names="RAW-IN... EGS-RSPECIFIER RAW-OUT")
def combine(names: tuple[str, ...], binary: bool, **settings: Any) -> None:
    """Average the first n raw networks, with the n that is best on merged examples. Give the last network first.

    nnet3 combine 9.raw 8.raw 7.raw 'ark:nnet3 merge-egs ark:combine.egs ark:- |' final.raw
    """
    if len(names) < 3:
        raise click.UsageError("give at least one network, the examples, and the file to write")
    *models, examples, output = names
    later.egs_training.combine_files(later.egs_training.PlainFiles(), models, examples, output, binary, **settings)


@verb()
@chunk_options(UtteranceOptions)
@score_options
def compute(**given: Any) -> None:
    """Run a network over tables of features in chunks, as Kaldi does, and write a matrix for each utterance.

    Without --frames-per-chunk whole utterances are computed where chunks make no difference: for networks without
    recurrences, statistics and attention, unless there are online ivectors.

    Batch-norm and dropout are in test mode. The first and last frame are repeated for context. An utterance that
    cannot be computed is reported and left out. When the run is interrupted or fails, what is finished is kept, and
    --resume goes on from there. The exit status is 1 if no utterance was computed or a record could not be read.

    nnet3 compute --online-ivectors=scp:ivectors.scp --online-ivector-period=10 final.raw scp:feats.scp ark:out.ark
    """
    compute_matrices(**given)


@verb()
@chunk_options(BatchOptions)
@score_options
def compute_batch(**given: Any) -> None:
    """Run a network over tables of features, chunks of many utterances at once, and write a matrix for each utterance.

    The last chunk of an utterance overlaps the one before, and a short utterance is computed as a whole chunk. Without
    --frames-per-chunk whole utterances are computed where chunks make no difference, as by `nnet3 compute`, which
    computes several at once too, and reports, keeps and resumes in the same way.

    nnet3 compute-batch --frames-per-chunk=150 --minibatch-size=64 final.raw scp:feats.scp ark,scp:out.ark,out.scp
    """
    compute_matrices(**given)


@verb()
@ignored("--binary")
@one(ScoreOptions, "apply_exp", "exponentiate")
@click.option("--output-name", "node", default="output", show_default=True, metavar="NODE", help="The output to write.")
@arguments(model="RAW-IN", examples="EGS-RSPECIFIER", output="MATRICES-WSPECIFIER")
def compute_from_egs(**given: Any) -> None:
    """Run a raw network over (merged) examples, and write a matrix for each with the rows that its supervision has.

    The network runs in the modes of its file: batch-norm takes the statistics of each minibatch, unless
    nnet3-am-copy --prepare-for-test=true made the network.

    nnet3 compute-from-egs --apply-exp=true final.raw ark:merged.ark ark:posteriors.ark
    """
    later.outputs_of_egs.write_outputs(later.device.given_device(), **given)


@verb()
@chunk_options(StreamOptions)
@one(WordTimesOptions, "frame_shift", help="Seconds between frames, for the real-time factor.")
@score_options
def compute_looped(**given: Any) -> None:
    """Run a network over tables of features as if they were spoken now, and write a matrix for each utterance.

    Chunks are computed one after the other; what later chunks need is kept, and nothing is computed twice, as in
    Kaldi's looped decoding. What looks at frames that are not there yet, where it need not, does without them. Each
    chunk takes the online ivector of the first frame after its input. The report says how long a chunk takes, and by
    how many frames the output comes later than its own frame. Failures and --resume are as in `nnet3 compute`.

    nnet3 compute-looped --frame-subsampling-factor=3 --frames-per-chunk=21 final.mdl scp:feats.scp ark:out.ark
    """
    compute_streams(**given)


@verb()
@test_mode_options(batchnorm=True, dropout=True)
@flag("--collapse-model", "collapse", default=True, show_default=True, help="Merge layers first.")
@accuracy_options
@gradient_option
@arguments(model="RAW-IN", examples="EGS-RSPECIFIER", output="[GRADIENT-OUT]")
def compute_prob(model: str, examples: str, output: str, accuracy_by_column: bool, **settings: Any) -> None:
    """Print the objective per frame, and the accuracy, of a raw network on merged examples (on stderr, as Kaldi does).

    With --compute-deriv=true layers stay as they are, and the gradient of the objective, summed over all frames, is
    written as a network whose parameters it is.

    nnet3 compute-prob final.raw 'ark:nnet3 merge-egs --minibatch-size=1:64 ark:valid.egs ark:- |'
    """
    nnet = later.outputs_of_egs.network_to_measure(model, output, settings["gradient"])
    evaluator = later.compute_prob.evaluated(nnet, later.outputs_of_egs.minibatches(examples, nnet), **settings)
    for line in later.compute_prob.report_lines(nnet, evaluator.stats):
        say(line)
    if accuracy_by_column:
        for line in later.compute_prob.column_lines(evaluator):
            say(line)
    later.outputs_of_egs.report_gradient(evaluator.gradient, output)


@verb()
@takes("options", ServeOptions, omit=("phrase_list", "model", "spk"))
@graph_folder_option
@speaker_model_option
@arguments(models="MODEL-DIR...")
def serve(models: Sequence[str], options: ServeOptions, graph: str | None, spk_model: str | None) -> None:
    """Serve a recognizer to many clients, in the WebSocket protocol of vosk-server.

    Of several models a client chooses one by the name of its folder, else it has the first. A MODEL-DIR may be the name
    or the language of a model in a folder where Vosk looks, such as that of VOSK_MODEL_PATH. The server has a page with
    a microphone at /, its state at /health, and metrics at /metrics. SIGTERM and Ctrl-C end it: each client gets what
    was said so far.

    nnet3 serve vosk-model-small-ko-0.22
    """
    if graph is not None and len(models) > 1:
        raise click.UsageError("--graph is for one model")
    speakers = None if spk_model is None else later.asr.SpkModel(spk_model)
    first, *more = (later.asr.Model(later.asr.model_directory(name), graph=graph) for name in models)
    later.serve.serve(first, options, say, more=more, speaker_model=speakers)


@verb(program_defaults={"batchnorm_test_mode": False, "dropout_test_mode": False})
@test_mode_options(batchnorm=True, dropout=True)
@whole_number(
    "--num-segments",
    least=1,
    default=1,
    help="Parts of the line from the old to the new network, in the middle of which gradients are taken.",
)
@accuracy_options
@arguments(old="OLD-RAW", new="NEW-RAW")
@click.argument("examples", metavar="[EGS-RSPECIFIER]", required=False)
def show_progress(old: str, new: str, examples: str | None, **settings: Any) -> None:
    """Print by how much the parameters of each component differ in two networks and, given examples, what the change
    of each has done for the objective.

    nnet3 show-progress 1.raw 2.raw 'ark:nnet3 merge-egs ark:train_subset.egs ark:- |'
    """
    device = later.device.given_device()
    first, second = (later.files.load_network_to(device, name) for name in (old, new))
    if first.num_parameters != second.num_parameters:
        return say(
            f"warning: {old} has {first.num_parameters} parameters and {new} {second.num_parameters}: "
            "there is no progress to show"
        )
    if examples is not None:
        minibatches = list(later.outputs_of_egs.minibatches(examples, second))
        changes = later.show_progress.objective_changes(first, second, minibatches, say=say, **settings)
        say(f"Total objf change per component is {later.show_progress.by_component(changes)}")
    norms, relative = later.show_progress.parameter_differences(first, second)
    say(f"Parameter differences per layer are {later.show_progress.by_component(norms)}")
    sizes = later.show_progress.parameter_norms(second)
    say(f"Norms of parameter matrices from <new-nnet-in> are {later.show_progress.by_component(sizes)}")
    say(f"Relative parameter differences per layer are {later.show_progress.by_component(relative)}")


@verb()
@takes("options", TrainerOptions)
@caching_options
@binary_option
@arguments(model="RAW-IN", examples="EGS-RSPECIFIER", output="RAW-OUT")
def train(**given: Any) -> None:
    """Train a raw network on merged examples, each of which is a minibatch, with the learning rates that it has.

    A minibatch in which something is not finite is skipped, with a warning that names it.

    nnet3 train --momentum=0.5 1.raw 'ark:nnet3 merge-egs --minibatch-size=64 ark:egs.ark ark:- |' 2.raw
    """
    later.egs_training.train(later.egs_training.PlainFiles(), **given)


@verb()
@click.option("--resume", is_flag=True, help="Go on from the latest checkpoint, if there is one.")
@click.option("--allow-changes", is_flag=True, help="Go on although settings have changed that matter.")
@click.option("--describe", is_flag=True, help="Print a settings file with every key, its default and what it is for.")
@click.option("--page", metavar="FILE", help="Write a page of the run for a browser when it ends.")
@port_option("--serve", help="Serve it meanwhile at 127.0.0.1; port 0: any.")
@click.argument("file", required=False, metavar="SETTINGS")
def train_model(
    file: str | None, resume: bool, allow_changes: bool, describe: bool, page: str | None, port: int | None
) -> int:
    """Train a network: a whole run, from examples to the final model, as a TOML or YAML file says.

    The run's folder gets checkpoints, the final model (final.raw or final.mdl), a log (log.txt, log.jsonl) and the
    curves (curves.png). SIGTERM or Ctrl-C finish the minibatch and save; --resume goes on after whatever has ended the
    run, to the same parameters, bit by bit, as if nothing had happened. Several processes: start them with torchrun.

    nnet3 train-model run.toml
    nnet3 train-model --resume run.toml
    torchrun --nproc-per-node=4 --max-restarts=3 -m nnet3 train-model --resume run.toml
    """
    if describe:
        click.echo(later.settings.describe_settings(*later.data_kinds.KINDS.sections), nl=False)
        return 0
    if file is None:
        raise click.UsageError("give a settings file; --describe prints one")
    use_gpu = take_use_gpu()
    read = later.data_kinds.KINDS.read(later.settings_text.read_settings_text(file))
    if use_gpu in ("yes", "wait") and not read.training.device.startswith("cuda"):
        raise click.UsageError(f'--use-gpu={use_gpu}: {file} says where: device = "cuda" in [training]')
    if (
        page is not None and Path(page).resolve().parent != Path(read.output.folder).resolve()
    ):  # that comes with the run
        later.exploring.check_page(page)
    stop = later.stop.StopRequest()
    serving: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
    if port is not None and os.environ.get("RANK", "0") == "0":  # the first of several processes
        serving = later.exploring.serving_run(read.output.folder, port)
    with serving, stop.listening():  # torchrun soon ends a run that has lost another process: it is to say so first
        try:
            status = later.train_model.train_model(
                read, later.data_kinds.KINDS, resume=resume, allow_changes=allow_changes, stop=stop
            )
            if page is not None:
                later.exploring.write_page(read.output.folder, page, None)
            return status
        except Nnet3Error as error:
            say(str(error))
            return 1


_FORMATS = {
    "json": "One JSON document of results as Vosk writes them: words with times and confidences.",
    "json-lines": "The same results, one a line.",
    "ctm": "Lines of Kaldi's ctm: recording, channel, begin, duration, word, confidence.",
    "srt": "Subtitles (SubRip).",
    "vtt": "Subtitles (WebVTT).",
}


def _formats(function: Any) -> Any:
    for name, what in reversed(_FORMATS.items()):
        suffix = "jsonl" if name == "json-lines" else name
        function = click.option(f"--{name}", "output_format", flag_value=suffix, help=what)(function)
    return function


@verb()
@_formats
@whole_number("--alternatives", least=0, default=0, help="Alternatives a segment in JSON.")
@click.option("--output-dir", metavar="DIR", help="A file for each recording there, instead of standard output.")
@click.option("--raw", is_flag=True, help="The recordings are 16-bit PCM without a header.")
@whole_number("--sample-rate", least=1, metavar="HZ", help="With --raw: samples per second.")
@whole_number("--channels", least=1, default=1, help="With --raw: channels.")
@whole_number("--channel", least=0, metavar="N", help="The channel to take, from 0; else their mean.")
@whole_number("--tasks", least=1, default=1, help="Recordings heard at once, each in a thread.")
@click.option("--segments", metavar="FILE", help="Hear parts of recordings: lines KEY RECORDING BEGIN END, in seconds.")
@speaker_model_option
@graph_folder_option
@arguments(model="MODEL-DIR", recordings="RECORDING...")
def transcribe(**given: Any) -> None:
    """Write the words of recordings, with a model directory of Vosk or Kaldi.

    A RECORDING is a WAV file, `-`, a table scp:wav.scp or ark:wav.ark, or another format: FLAC, Ogg and MP3 take the
    package soundfile, these and all others (M4A, MP4, WebM, ...) the program ffmpeg. A folder stands for its files, a
    data folder of Kaldi's for its wav.scp and segments. What comes out of a pipe is heard as it comes. Text is a line
    for each segment between pauses; with several recordings a line for each of them, which begins with its name. One
    that cannot be read is reported and left out; the exit status is 1 if none is left, and if a transcript cannot be
    written. MODEL-DIR may be the name or the language of a model in a folder where Vosk looks, such as that of
    VOSK_MODEL_PATH.

    nnet3 transcribe --srt vosk-model-small-ko-0.22 talk.wav > talk.srt
    """
    if given["raw"] and given["sample_rate"] is None:
        raise click.UsageError("--raw needs --sample-rate")
    if not given["raw"] and given["sample_rate"] is not None:
        raise click.UsageError("--sample-rate is for --raw: other files say it themselves")
    if given["output_format"] not in ("json", "jsonl") and given["alternatives"]:
        raise click.UsageError("--alternatives are for --json and --json-lines")
    if given["output_format"] not in ("json", "jsonl") and given["spk_model"] is not None:
        raise click.UsageError("--spk-model is for --json and --json-lines")
    if given["spk_model"] is not None and given["alternatives"]:
        raise click.UsageError("--spk-model and --alternatives: results of Vosk have one of both")
    later.transcribing.transcribe(**given)


@verb()
@takes("options", TuningOptions)
@text_option(
    "--held-out", metavar="DATA", help="Other utterances, on which both models are compared, instead of a share."
)
@text_option("--work", metavar="DIR", help="A new folder that keeps what is made on the way, such as run.toml.")
@device_option
@graph_folder_option
@arguments(model="MODEL-DIR", data="DATA", output="OUT-DIR")
def tune(**given: Any) -> int:
    """Train a model directory of Vosk or Kaldi further on recordings with transcripts, and write a new one.

    DATA is a folder with wav.scp (KEY FILE a line) and text (KEY WORD... a line), and segments where recordings have
    several utterances, as in Kaldi; or SCP,TEXT. The model's own graph aligns the recordings: no lexicon is needed, but
    utterances with words that it lacks are left out. Chain models are trained by LF-MMI, others by cross-entropy. Both
    models are compared on utterances that are held out. OUT-DIR has all that MODEL-DIR has, with another network.

    nnet3 tune vosk-model-small-ko-0.22 data tuned
    """
    return later.tuning.tune(**given)


@verb()
@takes("options", XvectorOptions)
@xvector_options
@ignored("--frames-per-chunk", "--frame-subsampling-factor", "--extra-left-context", "--extra-right-context",
         "--extra-left-context-initial", "--extra-right-context-final", kind=integer())  # fmt: skip
@ignored("--acoustic-scale", kind=click.FLOAT)
def xvector_compute(options: XvectorOptions, **others: Any) -> None:
    """Run a network that pools statistics over tables of features, and write a vector for each utterance: output
    'output' at t = 0.

    Chunks are averaged by their frames. Batch-norm and dropout are in test mode. An utterance that cannot be computed
    is reported and left out; the exit status is 1 if none was computed or a record could not be read.

    nnet3 xvector-compute --min-chunk-size=25 --chunk-size=10000 \\
      "nnet3-copy --nnet-config=extract.config final.raw - |" scp:feats.scp ark,scp:xvector.ark,xvector.scp
    """
    compute_xvectors(options, **others)


@verb()
@takes("options", EqualXvectorOptions)
@xvector_options
def xvector_compute_batched(options: EqualXvectorOptions, **others: Any) -> None:
    """Run a network that pools statistics over chunks of one size, spread evenly over each utterance, and write the
    mean of their vectors: output 'output' at t = 0.

    Batch-norm and dropout are in test mode. An utterance that is shorter than a chunk has a vector of zeros without
    --pad-input, as in Kaldi. One that cannot be computed is reported and left out; the exit status is 1 if none was
    computed or a record could not be read.

    nnet3 xvector-compute-batched --chunk-size=150 --batch-size=32 \\
      "nnet3-copy --nnet-config=extract.config final.raw - |" scp:feats.scp ark,scp:xvector.ark,xvector.scp
    """
    compute_xvectors(options, **others)
