/* Longest and best paths through graphs without cycles. nnet3/speech/lattices/levels.py does the same with NumPy. */

#include "levels.h"

/* States in an order in which arcs lead on, `found` of them: none on cycles or behind them. Arcs by source: those of state s
   are arc[first[s]] to arc[first[s + 1] - 1]. missing: arcs into each state from states that are not found. */
typedef struct { int64_t found, *order, *missing, *first, *arc; } Sorted;

static int sort_states(int64_t states, int64_t arcs, const int64_t *src, const int64_t *dst, Sorted *made) {
    int64_t *order = calloc((size_t)(3 * states + arcs + 2), sizeof *order), *missing = order + states;
    if (!order) return 0;
    int64_t *first = missing + states, *arc = first + states + 2, found = 0;
    for (int64_t own = 0; own < arcs; own++) first[src[own] + 2]++, missing[dst[own]]++;
    for (int64_t state = 0; state < states; state++) {
        first[state + 1] += first[state];
        if (!missing[state]) order[found++] = state;
    }
    for (int64_t own = 0; own < arcs; own++) arc[first[src[own] + 1]++] = own;
    for (int64_t at = 0; at < found; at++)
        for (int64_t own = first[order[at]]; own < first[order[at] + 1]; own++)
            if (!--missing[dst[arc[own]]]) order[found++] = dst[arc[own]];
    *made = (Sorted){found, order, missing, first, arc};
    return 1;
}

/* Finds the longest path to each state; -1 on cycles and behind them. Returns 0 without memory. */
int64_t nnet3_longest_paths(int64_t states, int64_t arcs, const int64_t *src, const int64_t *dst, int64_t *depth) {
    Sorted sorted;
    if (!sort_states(states, arcs, src, dst, &sorted)) return 0;
    for (int64_t state = 0; state < states; state++) depth[state] = sorted.missing[state] ? -1 : 0;
    for (int64_t at = 0; at < sorted.found; at++)
        for (int64_t state = sorted.order[at], own = sorted.first[state]; own < sorted.first[state + 1]; own++) {
            int64_t *behind = depth + dst[sorted.arc[own]];
            if (*behind >= 0 && *behind <= depth[state]) *behind = depth[state] + 1;
        }
    free(sorted.order);
    return 1;
}

static void improve(double *best, double cost) { *best = cost < *best ? cost : *best; }

/* Finds the best paths to and from each state, with what it costs to begin and to end there. Returns 0 without memory. */
int64_t nnet3_best_paths(int64_t states, int64_t arcs, const int64_t *src, const int64_t *dst, const double *cost,
                         double *forward, double *backward) {
    Sorted sorted;
    if (!sort_states(states, arcs, src, dst, &sorted)) return 0;
    for (int64_t at = 0; at < sorted.found; at++)
        for (int64_t state = sorted.order[at], own = sorted.first[state]; own < sorted.first[state + 1]; own++)
            improve(forward + dst[sorted.arc[own]], forward[state] + cost[sorted.arc[own]]);
    for (int64_t at = sorted.found - 1; at >= 0; at--)
        for (int64_t state = sorted.order[at], own = sorted.first[state]; own < sorted.first[state + 1]; own++)
            improve(backward + state, cost[sorted.arc[own]] + backward[dst[sorted.arc[own]]]);
    free(sorted.order);
    return 1;
}
