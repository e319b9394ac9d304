/* Longest and best paths through graphs without cycles. */

#ifndef NNET3_LEVELS
#define NNET3_LEVELS

#include "columns.h"

int64_t nnet3_longest_paths(int64_t states, int64_t arcs, const int64_t *src, const int64_t *dst, int64_t *depth);

#endif
