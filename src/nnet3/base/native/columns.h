/* Columns of memory: of numbers at any address, and such as get longer. */

#ifndef NNET3_COLUMNS
#define NNET3_COLUMNS

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static inline int32_t int_at(const void *column, int64_t at) {
    int32_t found;
    memcpy(&found, (const char *)column + at * (int64_t)sizeof found, sizeof found);
    return found;
}

static inline int64_t long_at(const void *column, int64_t at) {
    int64_t found;
    memcpy(&found, (const char *)column + at * (int64_t)sizeof found, sizeof found);
    return found;
}

static inline float float_at(const void *column, int64_t at) {
    float found;
    memcpy(&found, (const char *)column + at * (int64_t)sizeof found, sizeof found);
    return found;
}

static inline int by_number(const void *a, const void *b) { /* for qsort and bsearch */
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

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
