/* Alignments of words with their phones: between alignment.c and timed.c. */

#ifndef NNET3_ALIGNMENT
#define NNET3_ALIGNMENT

#include "columns.h"

/* A lattice with one more state, the end, to which arcs lead from all final states. row: rows up to each state. */
typedef struct {
    int64_t states, silence, partial_word, most; /* labels; the most nodes */
    const int64_t *level, *row, *first_arc, *dst, *label;
    const double *graph, *acoustic;
    const int64_t *first_id;
    const int32_t *ids;
    const uint8_t *is_self_loop, *ends_phone, *begins_word, *is_inside, *ends_word; /* of ids */
    const int64_t *state;
} Given;

typedef struct Alignment Alignment;

Alignment *nnet3_align(const Given *given, int64_t *status);

void nnet3_aligned_sizes(const Alignment *alignment, int64_t *sizes);

void nnet3_aligned_end(Alignment *alignment, void *const *columns);

#endif
