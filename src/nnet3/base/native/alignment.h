/* Alignments of words with their phones: between alignment.c and timed.c. */

#ifndef NNET3_ALIGNMENT
#define NNET3_ALIGNMENT

#include "columns.h"
#include "labelled.h"

/* A lattice, and what is known of ids, of which there are num_ids, from 0 on. */
typedef struct {
    Labelled lattice;
    const uint8_t *is_self_loop, *ends_phone, *begins_word, *is_inside, *ends_word;
    const int64_t *state_of_id;
    int64_t num_ids;
} Given;

typedef struct Alignment Alignment;

/* Labels of silence and of parts of words; the most nodes. */
Alignment *nnet3_align(const Given *given, int64_t silence, int64_t partial_word, int64_t most, int64_t *status);

void nnet3_aligned_sizes(const Alignment *alignment, int64_t *sizes);

void nnet3_aligned_end(Alignment *alignment, void *const *columns);

#endif
