"""Outputs of networks for tables of examples."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

from nnet3.cli.egs_minibatches import minibatches_of
from nnet3.cli.files import load_network_to
from nnet3.cli.messages import say
from nnet3.errors import Nnet3Error
from nnet3.examples import EXAMPLES
from nnet3.kaldi_io import matrix_writer
from nnet3.nnet import Nnet
from nnet3.train.evaluation import ExampleOutputs
from nnet3.train.to_minibatch import to_unlabelled


def write_outputs(device: str, model: str, examples: str, output: str, node: str, exponentiate: bool) -> None:
    """Writes the rows of an output node for each example. Raises Nnet3Error if an example has no such output."""
    nnet = load_network_to(device, model)
    if node not in nnet.output_names:
        raise Nnet3Error(f"{model}: there is no output '{node}': the network has {', '.join(nnet.output_names)}")
    with matrix_writer(output) as writer:
        for key, outputs in _outputs(nnet, examples):
            if node not in outputs:
                raise Nnet3Error(f"{examples}: the entry '{key}' has no output '{node}', but {', '.join(outputs)}")
            rows = outputs[node].exp() if exponentiate else outputs[node]
            writer.write(key, rows.cpu().numpy())
        if writer.count == 0:
            raise Nnet3Error(f"{examples}: there are no examples")
        say(f"{writer.count} examples computed")


def _outputs(nnet: Nnet, examples: str) -> Iterator[tuple[str, dict[str, Tensor]]]:
    inputs, names, computer = nnet.input_dims, nnet.output_names, ExampleOutputs(nnet)
    for minibatch in minibatches_of(
        examples, EXAMPLES, lambda example, key: to_unlabelled(example.ios, inputs, names, key)
    ):
        yield minibatch.key, computer.compute(minibatch)
