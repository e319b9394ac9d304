"""Edits of networks: edit directives, collapsing for test time, averaging, low-rank factors."""

from nnet3.model.edits.average import average
from nnet3.model.edits.collapse import collapse_model, prepare_for_test
from nnet3.model.edits.edits import apply_edits
