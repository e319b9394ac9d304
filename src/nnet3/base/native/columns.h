/* Columns of memory that get longer. */

#ifndef NNET3_COLUMNS
#define NNET3_COLUMNS

#include <stdint.h>
#include <stdlib.h>

static inline int has_room(void *column, int64_t room, size_t size) {
    void *grown = realloc(*(void **)column, (size_t)room * size);
    if (grown) *(void **)column = grown;
    return grown != 0;
}

/* Makes room for so many numbers in a column; false without memory: the column is as before. */
#define ROOM(column, room) has_room(&(column), (room), sizeof *(column))

static inline int64_t more_room(int64_t room, int64_t needed) {
    int64_t more = room ? room : 256;
    while (more < needed) more *= 2;
    return more;
}

#endif
