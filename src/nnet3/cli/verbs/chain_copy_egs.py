from __future__ import annotations

from nnet3.cli import later
from nnet3.cli.egs_options import copying_options
from nnet3.cli.verb import CHAIN, verb
from nnet3.options import CopyingOptions


@verb("copy chain examples with changes, to one or more tables", CHAIN, program="nnet3-chain-copy-egs")
@copying_options
def command(examples: str, outputs_to_write: tuple[str, ...], options: CopyingOptions, **tables: str | None) -> None:
    """Copy chain examples, to several tables in turn, with changes: shift, context, weights, names of outputs.

    Outputs are shifted by the nearest multiple of the distance of their frames. Context can be changed in examples that
    are not merged.

    \b
    Example:
      nnet3 chain-copy-egs --frame-shift=1 ark:cegs.1.ark ark:- | nnet3 chain-merge-egs ark:- ark:merged.ark
    """
    changes = later.changes.ChainChanges(options.frame_shift, *options.contexts())
    weight_of, name_of = later.egs_tables.weights_and_names(**tables)

    def change(key: str, example: later.chain.ChainExample) -> later.chain.ChainExample | None:
        changed = changes.apply(example)
        if weight_of is not None:
            weight = later.egs_tables.looked_up(weight_of, key)
            if weight is None:
                return None
            changed = later.changes.weighted(changed, weight)
        if name_of is None:
            return changed
        name = later.egs_tables.looked_up(name_of, key)
        return None if name is None else later.changes.renamed(changed, name)

    later.egs_tables.copy(later.chain.CHAIN_EXAMPLES, examples, outputs_to_write, change, options)
