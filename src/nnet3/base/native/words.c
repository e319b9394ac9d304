/* Words of a language model that states of a look-ahead graph reach. nnet3/speech/search/words_ahead.py does the same with
   NumPy, in the same order. */

#include <stdint.h>

#define WORD(key) ((int64_t)((key) & 0xffffffff))

/* Returns the first arc of from .. end - 1 with at least this word, else `end`; near ones are found in few steps. */
static int64_t first_with(const int64_t *key, int64_t from, int64_t end, int64_t word) {
    int64_t below = from - 1, step = 1; /* all up to `below` have smaller words */
    while (below + step < end && WORD(key[below + step]) < word) below += step, step *= 2;
    int64_t found = below + step < end ? below + step : end;
    while (below + 1 < found) {
        const int64_t middle = below + (found - below) / 2;
        if (WORD(key[middle]) < word) below = middle;
        else found = middle;
    }
    return found;
}

/* Sums for each value of a group those before it in the group. */
void nnet3_sums_before(int64_t groups, const int64_t *first, const double *value, double *before) {
    for (int64_t group = 0; group < groups; group++) {
        double sum = 0;
        for (int64_t at = first[group]; at < first[group + 1]; at++) before[at] = sum, sum += value[at];
    }
}

/* For each pair of a state and a history: how many of the history's words lie in the state's intervals, the sum of their
   masses, and the last one's arc, -1 without any. Arcs are by history and word; `before` are sums of masses within it. */
void nnet3_words_of_intervals(int64_t pairs, const int64_t *state, const int64_t *history, const int64_t *offsets,
                              const int32_t *begin, const int32_t *end, const int64_t *first_arc, const int64_t *key,
                              const double *mass, const double *before, int64_t *count, double *sum, int64_t *arc) {
    for (int64_t pair = 0; pair < pairs; pair++) {
        const int64_t lowest = first_arc[history[pair]], behind = first_arc[history[pair] + 1];
        int64_t at = lowest;
        count[pair] = 0, sum[pair] = 0, arc[pair] = -1;
        for (int64_t i = offsets[state[pair]]; i < offsets[state[pair] + 1]; i++) {
            if (at > lowest && WORD(key[at - 1]) >= begin[i]) at = lowest; /* the intervals are not in order */
            at = first_with(key, at, behind, begin[i]);
            if (at == behind || WORD(key[at]) >= end[i]) continue;
            const int64_t last = first_with(key, at, behind, end[i]) - 1;
            count[pair] += last + 1 - at;
            sum[pair] += before[last] + mass[last] - before[at];
            arc[pair] = last;
        }
    }
}
