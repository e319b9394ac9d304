import click

from nnet3.cli import later
from nnet3.cli.declared import takes
from nnet3.cli.messages import say
from nnet3.cli.options import arguments
from nnet3.cli.verb import RUNNING, verb
from nnet3.options import ServeOptions


@verb("serve a recognizer to many clients", RUNNING)
@takes("options", ServeOptions, omit=("phrase_list",))
@click.option("--graph", metavar="DIR", help="The folder of the graph, if it is not in the model directory.")
@arguments(model="MODEL-DIR")
def command(model: str, options: ServeOptions, graph: str | None) -> None:
    """Serve a recognizer to many clients, in the WebSocket protocol of vosk-server.

    It has a page with a microphone at /, its state at /health, and metrics at /metrics. SIGTERM and Ctrl-C end it:
    each client gets what was said so far.

    \b
    Example:
      nnet3 serve vosk-model-small-ko-0.22
    """
    later.serve.serve(later.asr.Model(model, graph), options, say)
