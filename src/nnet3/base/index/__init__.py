"""Index tables (n, t, x as int32 columns): sort, unique, look up, print compactly."""

from nnet3.base.index.index_format import format_indexes, format_run, format_time_span, format_times
from nnet3.base.index.index_table import (
    NO_TIME,
    IndexTable,
    N,
    T,
    X,
    as_index_table,
    distinct,
    find_rows,
    has_duplicates,
    indexes_at,
    pack_keys,
    shift_indexes,
    sort_order,
    unique_rows,
)
from nnet3.base.index.ranges import concatenate_ranges, entries_of_rows
