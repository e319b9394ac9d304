/* Lattices with the rows of their words: between timed.c and bayes_risk.c. */

#ifndef NNET3_BAYES_RISK
#define NNET3_BAYES_RISK

#include "columns.h"

/* Arcs from state 0 to the last state. row: rows up to each state. label: 0 for no word. most: of words that are found. */
typedef struct {
    int64_t states, arcs, most;
    const int64_t *row, *src, *dst, *label;
    const double *cost;
} TimedArcs;

int64_t nnet3_least_risk(const TimedArcs *given, double *found);

#endif
