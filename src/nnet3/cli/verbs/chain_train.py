from typing import Any

from nnet3.cli import later
from nnet3.cli.declared import takes
from nnet3.cli.messages import say
from nnet3.cli.options import arguments, binary_option, caching_options, flag, ignored_threads_option
from nnet3.cli.verb import CHAIN, verb
from nnet3.errors import TrainingError
from nnet3.options import ChainOptions, DenominatorOptions, TrainerOptions


@verb("train a network with LF-MMI on chain examples", CHAIN, program="nnet3-chain-train")
@takes("options", TrainerOptions)
@caching_options
@takes("denominator", DenominatorOptions)
@takes("objective", ChainOptions)
@ignored_threads_option
@flag("--apply-deriv-weights", default=True, show_default=True, help="Scale derivatives of frames.")
@binary_option
@arguments(model="RAW-IN", den_fst="DEN-FST", examples="EGS-RSPECIFIER", output="RAW-OUT")
def command(
    model: str,
    den_fst: str,
    examples: str,
    output: str,
    binary: bool,
    options: TrainerOptions,
    cache_files: tuple[str | None, ...],
    **objective: Any,
) -> None:
    """Train a raw network with LF-MMI on merged chain examples, with the learning rates that it has.

    \b
    Example:
      nnet3 chain-train --leaky-hmm-coefficient=0.1 --xent-regularize=0.1 0.raw den.fst ark:merged.ark 1.raw
    """
    later.files.check_can_save(output)
    nnet = later.files.load_network_to(later.device.given_device(), model)
    loaded = later.chain_files.load_objective(den_fst, nnet, **objective)
    with later.caches.kept_cache(*cache_files) as cache:
        trainer = later.train.Trainer(nnet, options, loaded, cache=cache, say=say)
        for minibatch in later.chain_files.minibatches(examples, nnet):
            trainer.train_minibatch(minibatch)
    trainer.log.finish()
    if not any(stats.weight for stats in trainer.log.totals.values()):
        raise TrainingError(f"{examples}: no minibatch to train on, {trainer.num_skipped} skipped")
    later.files.save_model(nnet, output, binary)
    say(f"Wrote model to {output}")
