"""Supervision of utterances, from phones that were aligned with them."""

from __future__ import annotations

from nnet3.chain.graphs.expansion import transition_ids_of_phones
from nnet3.chain.graphs.fst_changes import with_labels
from nnet3.chain.graphs.openfst import without_epsilons
from nnet3.chain.graphs.phone_hmms import PhoneHmms
from nnet3.chain.graphs.time_limits import allowed_phones, limited_to_times
from nnet3.chain.graphs.timed_phones import TimedPhones
from nnet3.chain.supervision import Supervision
from nnet3.errors import TrainingError
from nnet3.options import SupervisingOptions


def supervise(phones: TimedPhones, hmms: PhoneHmms, options: SupervisingOptions) -> Supervision:
    """All ways to say the phones at about their times. TrainingError if there is none."""
    hmms.entries(phones.phone)  # they must be known
    allowed = allowed_phones(phones, options.tolerances)
    ids = without_epsilons(transition_ids_of_phones(phones.fst, hmms, scale=0.0))
    limited = limited_to_times(ids, allowed, hmms.transitions.phone_of_id)
    if limited is None:
        raise TrainingError(f"its phones do not fit into {len(allowed)} output frames")
    if options.convert_to_pdfs:
        limited = with_labels(limited, hmms.transitions.pdf_of_id[limited.ilabel] + 1)
    label_dim = hmms.transitions.num_pdfs if options.convert_to_pdfs else hmms.transitions.num_ids
    return Supervision(1.0, 1, len(allowed), label_dim, (limited,))
