from __future__ import annotations

import click

from nnet3.cli import later
from nnet3.cli.egs_options import copying_options
from nnet3.cli.verb import EXAMPLES, verb
from nnet3.options import CopyingOptions
from nnet3.text.values import Integer


@verb("copy training examples with changes, to one or more tables", EXAMPLES, program="nnet3-copy-egs")
@copying_options
@click.option("--frame", metavar="T", help="Keep one frame of the output: its number, or 'random'.")
def command(
    examples: str, outputs_to_write: tuple[str, ...], options: CopyingOptions, frame: str | None, **tables: str | None
) -> None:
    """Copy training examples, to several tables in turn, with changes in this order: weights, one frame, context,
    shift, names of outputs. Frames and context can be changed in examples that are not merged.

    \b
    Examples:
      nnet3 copy-egs ark:egs.ark ark,t:-
      nnet3 copy-egs --frame=random --left-context=8 --right-context=5 ark:egs.ark ark:1.ark ark:2.ark
    """
    changes = later.examples.Changes(_frame(frame), *options.contexts(), options.frame_shift)
    rng = later.making.generator(options.seed + 1)
    weight_of, name_of = later.egs_tables.weights_and_names(**tables)

    def change(key: str, example: later.examples.Example) -> later.examples.Example | None:
        weight = None if weight_of is None else later.egs_tables.looked_up(weight_of, key)
        name = None if name_of is None else later.egs_tables.looked_up(name_of, key)
        if (weight_of is not None and weight is None) or (name_of is not None and name is None):
            return None
        changed = changes.apply(example if weight is None else later.copying.weighted(example, weight), rng)
        return changed if changed is None or name is None else later.copying.renamed(changed, name)

    later.egs_tables.copy(later.examples.EXAMPLES, examples, outputs_to_write, change, options)


def _frame(text: str | None) -> int | str | None:
    digits = (text or "").removeprefix("-")
    if not (digits.isascii() and digits.isdigit()):
        return text or None
    try:
        return Integer().read(text or "")
    except ValueError as error:
        raise click.BadParameter(f"it must be {error}, got {text}", param_hint="'--frame'") from None
