/* Lattices by levels, with strings of transition-ids, as native_sets.py has them. */

#ifndef NNET3_LABELLED
#define NNET3_LABELLED

#include <math.h>
#include <stdint.h>

/* Arcs by source lead to higher levels; of state s they begin at first_arc[s]. Ids of arc a are ids[first_id[a]] to
   ids[first_id[a + 1] - 1]. Costs of ends are infinite where none is. */
typedef struct {
    int64_t states, arcs;
    const int64_t *level, *first_arc, *dst, *label;
    const double *graph, *acoustic;
    const int64_t *first_id;
    const int32_t *ids;
    const double *final_graph, *final_acoustic;
    const int64_t *first_final_id;
    const int32_t *final_ids;
} Labelled;

static inline int nnet3_is_final(const Labelled *lattice, int64_t state) {
    return lattice->final_graph[state] + lattice->final_acoustic[state] < INFINITY;
}

#endif
