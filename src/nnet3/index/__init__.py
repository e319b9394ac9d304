"""Index tables (n, t, x as int32 columns): sort, unique, look up, print compactly."""

from nnet3.index.index_format import (
    format_cindexes as format_cindexes,
    format_indexes as format_indexes,
    format_time_span as format_time_span,
    format_times as format_times,
)
from nnet3.index.index_table import (
    NO_TIME as NO_TIME,
    IndexTable as IndexTable,
    N as N,
    T as T,
    X as X,
    as_index_table as as_index_table,
    distinct as distinct,
    find_rows as find_rows,
    has_duplicates as has_duplicates,
    pack_keys as pack_keys,
    shift_indexes as shift_indexes,
    sort_order as sort_order,
    unique_rows as unique_rows,
)
