from .collapse import collapse_model as collapse_model, prepare_for_test as prepare_for_test
from .edits import apply_edits as apply_edits
