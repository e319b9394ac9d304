/* Rows of integers, numbered in order of first occurrence: those are equal whose first `compared` numbers are. */

#ifndef NNET3_ROWS
#define NNET3_ROWS

#include "columns.h"

typedef struct { int64_t width, compared, count, room, *values, *slots; } Rows;

static inline int64_t *row_at(const Rows *rows, int64_t number) { return rows->values + number * rows->width; }

static inline int64_t *slot_of(const Rows *rows, int64_t number) {
    const int64_t *row = row_at(rows, number), last = 2 * rows->room - 1;
    uint64_t hash = 0;
    for (int64_t k = 0; k < rows->compared; k++)
        hash = (hash ^ (uint64_t)row[k]) * 0x9e3779b97f4a7c15u, hash ^= hash >> 32;
    int64_t at = (int64_t)(hash & (uint64_t)last);
    while (rows->slots[at] && memcmp(row_at(rows, rows->slots[at] - 1), row, (size_t)rows->compared * sizeof *row))
        at = (at + 1) & last;
    return rows->slots + at;
}

/* Returns where a row may be written, behind the last one, or 0 without memory. */
static inline int64_t *new_row(Rows *rows) {
    if (rows->count + 1 > rows->room) {
        const int64_t room = more_room(rows->room, rows->count + 1);
        int64_t *slots = calloc((size_t)(2 * room), sizeof *slots);
        if (!slots || !ROOM(rows->values, room * rows->width)) return free(slots), (int64_t *)0;
        free(rows->slots), rows->slots = slots, rows->room = room;
        for (int64_t number = 0; number < rows->count; number++) *slot_of(rows, number) = number + 1;
    }
    return row_at(rows, rows->count);
}

/* Returns the number of the row behind the last one: that of an equal row, or a new number. */
static inline int64_t numbered(Rows *rows) {
    int64_t *slot = slot_of(rows, rows->count);
    if (!*slot) *slot = ++rows->count;
    return *slot - 1;
}

static inline void free_rows(Rows *rows) { free(rows->values), free(rows->slots); }

#endif
