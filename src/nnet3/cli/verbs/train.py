from nnet3.cli import later
from nnet3.cli.declared import takes
from nnet3.cli.messages import say
from nnet3.cli.options import arguments, binary_option, caching_options
from nnet3.cli.verb import RUNNING, verb
from nnet3.errors import TrainingError
from nnet3.options import TrainerOptions


@verb("train a network on examples", RUNNING, program="nnet3-train")
@takes("options", TrainerOptions)
@caching_options
@binary_option
@arguments(model="RAW-IN", examples="EGS-RSPECIFIER", output="RAW-OUT")
def command(
    model: str, examples: str, output: str, binary: bool, options: TrainerOptions, cache_files: tuple[str | None, ...]
) -> None:
    """Train a raw network on merged examples, each of which is a minibatch, with the learning rates that it has.

    A minibatch in which something is not finite is skipped, with a warning that names it.

    \b
    Example:
      nnet3 train --momentum=0.5 1.raw 'ark:nnet3 merge-egs --minibatch-size=64 ark:egs.ark ark:- |' 2.raw
    """
    later.files.check_can_save(output)
    nnet = later.files.load_network_to(later.device.given_device(), model)
    with later.caches.kept_cache(*cache_files) as cache:
        trainer = later.train.Trainer(nnet, options, cache=cache, say=say)
        for minibatch in later.egs_minibatches.minibatches(examples, nnet):
            trainer.train_minibatch(minibatch)
    trainer.log.finish()
    if trainer.num_minibatches == trainer.num_skipped:
        raise TrainingError(f"{examples}: no minibatch to train on, {trainer.num_skipped} skipped")
    later.files.save_model(nnet, output, binary)
    say(f"Wrote model to {output}")
