/* Words of a lattice with the least expected number of errors. nnet3/speech/lattices/bayes_risk.py does the same with NumPy,
   adds up in the same order, and is asked where this file gives up: without memory, for cycles and infinite costs, and where
   more words than fit are found, or none are settled on. */

#include "bayes_risk.h"
#include "levels.h"

#include <math.h>

#define MOST_ROUNDS 102
#define DELETION (1.0 + (double)1e-5f) /* of a word of the lattice */

enum { MATCH = 1, DELETE, INSERT };

static double product(double a, double b) {
    volatile double found = a * b; /* which is rounded before it is added to another */
    return found;
}

/* order: arcs by level; those of level l begin at first[l - 1]. word: of arcs, numbers in `labels`, the first of which is 0.
   chosen: a word for each position; every second one, from the first on, is 0. */
typedef struct {
    const TimedArcs *given;
    int64_t *order, *first, *word, *labels, *chosen, num_labels, positions;
    double *probability, *share, *begin, *end; /* (positions, labels) */
} Recursion;

/* ---- arcs ---- */

/* Sorts arcs by the longest path to their ends. Returns 0 to give up. */
static int sort_arcs(Recursion *own, int64_t *depth) {
    const TimedArcs *given = own->given;
    int64_t *first = own->first;
    if (!nnet3_longest_paths(given->states, given->arcs, given->src, given->dst, depth)) return 0;
    for (int64_t state = 0; state < given->states; state++)
        if (depth[state] < 0) return 0; /* there is a cycle */
    memset(first, 0, (size_t)(given->states + 1) * sizeof *first);
    for (int64_t arc = 0; arc < given->arcs; arc++) first[depth[given->dst[arc]] + 1]++;
    for (int64_t level = 0; level < given->states; level++) first[level + 1] += first[level];
    for (int64_t arc = 0; arc < given->arcs; arc++) own->order[first[depth[given->dst[arc]]]++] = arc;
    return 1;
}

/* Numbers the labels of arcs, in ascending order. */
static void number_labels(Recursion *own) {
    const TimedArcs *given = own->given;
    int64_t count = 0;
    own->labels[0] = 0;
    if (given->arcs) memcpy(own->labels + 1, given->label, (size_t)given->arcs * sizeof *own->labels);
    qsort(own->labels, (size_t)given->arcs + 1, sizeof *own->labels, by_number);
    for (int64_t at = 0; at <= given->arcs; at++)
        if (!count || own->labels[at] != own->labels[count - 1]) own->labels[count++] = own->labels[at];
    for (int64_t arc = 0; arc < given->arcs; arc++) {
        const int64_t *found = bsearch(given->label + arc, own->labels, (size_t)count, sizeof *found, by_number);
        own->word[arc] = found - own->labels;
    }
    own->num_labels = count;
}

static double log_of_sum(double a, double b) { /* of exponentials, as NumPy has it */
    if (a == b) return a + 0.693147180559945309417232121458176568;
    return a > b ? a + log1p(exp(b - a)) : b + log1p(exp(a - b));
}

/* Finds the probability of each arc among those into its end. */
static void find_probabilities(Recursion *own, double *forward) {
    const TimedArcs *given = own->given;
    for (int64_t state = 0; state < given->states; state++) forward[state] = state ? -INFINITY : 0.0;
    for (int64_t at = 0; at < given->arcs; at++) {
        const int64_t arc = own->order[at], dst = given->dst[arc];
        forward[dst] = log_of_sum(forward[dst], forward[given->src[arc]] - given->cost[arc]);
    }
    for (int64_t arc = 0; arc < given->arcs; arc++) {
        const double found = exp(forward[given->src[arc]] - given->cost[arc] - forward[given->dst[arc]]);
        own->probability[arc] = isnan(found) ? 0.0 : found;
    }
}

/* Chooses the words of the best path; of equals the first arc is taken. */
static void choose_best(Recursion *own, double *best, int64_t *into) {
    const TimedArcs *given = own->given;
    int64_t count = 0;
    for (int64_t state = 0; state < given->states; state++) best[state] = state ? INFINITY : 0.0, into[state] = -1;
    for (int64_t at = 0; at < given->arcs; at++) {
        const int64_t arc = own->order[at], dst = given->dst[arc];
        const double through = best[given->src[arc]] + given->cost[arc];
        if (through < best[dst]) best[dst] = through, into[dst] = arc;
    }
    for (int64_t state = given->states - 1; into[state] >= 0; state = given->src[into[state]])
        if (own->word[into[state]]) count++;
    own->positions = 2 * count + 1;
    memset(own->chosen, 0, (size_t)own->positions * sizeof *own->chosen);
    for (int64_t state = given->states - 1; into[state] >= 0; state = given->src[into[state]])
        if (own->word[into[state]]) own->chosen[2 * --count + 1] = own->word[into[state]];
}

/* ---- rounds ---- */

/* Chooses the edit of each arc's word at each position: (arcs, positions). distance: (states, positions + 1), zeros. */
static void find_edits(const Recursion *own, double *distance, uint8_t *edits) {
    const TimedArcs *given = own->given;
    const int64_t positions = own->positions, width = positions + 1;
    for (int64_t q = 1; q < width; q++) distance[q] = distance[q - 1] + (own->chosen[q - 1] ? 1.0 : 0.0);
    for (int64_t at = 0; at < given->arcs; at++) {
        const int64_t arc = own->order[at], word = own->word[arc];
        const double *from = distance + given->src[arc] * width, deletion = word ? DELETION : 0.0;
        const double probability = own->probability[arc];
        double *to = distance + given->dst[arc] * width, behind = from[0] + deletion;
        uint8_t *edit = edits + arc * positions - 1;
        to[0] += product(probability, behind);
        for (int64_t q = 1; q < width; q++) {
            const double deleted = from[q] + deletion, matched = from[q - 1] + (word != own->chosen[q - 1] ? 1.0 : 0.0);
            const double inserted = behind + (own->chosen[q - 1] ? 1.0 : 0.0), least = matched <= deleted ? matched : deleted;
            edit[q] = least > inserted ? INSERT : matched <= deleted ? MATCH : DELETE;
            behind = least <= inserted ? least : inserted;
            to[q] += product(probability, behind);
        }
    }
}

/* Finds the probability of each label at each position, and times: (positions, labels) each, zeros. mass: (states,
   positions + 1), zeros. */
static void find_shares(const Recursion *own, const uint8_t *edits, double *mass) {
    const TimedArcs *given = own->given;
    const int64_t positions = own->positions, width = positions + 1;
    mass[given->states * width - 1] = 1.0;
    for (int64_t level = given->states - 1; level > 0; level--)
        for (int64_t at = own->first[level - 1]; at < own->first[level]; at++) {
            const int64_t arc = own->order[at], src = given->src[arc], dst = given->dst[arc];
            const double begin = (double)given->row[src], end = (double)given->row[dst];
            double *to = mass + src * width, matched = 0.0, inserted = 0.0;
            for (int64_t q = positions; q >= 0; q--) {
                const int edit = q ? edits[arc * positions + q - 1] : 0;
                const double whole = inserted + product(own->probability[arc], mass[dst * width + q]);
                to[q] += matched + (!q || edit == DELETE ? whole : 0.0);
                matched = edit == MATCH ? whole : 0.0, inserted = edit == INSERT ? whole : 0.0;
                if (!q || edit == DELETE) continue;
                const int64_t found = (q - 1) * own->num_labels + (edit == MATCH ? own->word[arc] : 0);
                own->share[found] += whole;
                own->begin[found] += product(whole, edit == MATCH ? begin : end), own->end[found] += product(whole, end);
            }
        }
    double sum = 0.0;
    for (int64_t q = positions; q; q--) sum += mass[q], own->share[(q - 1) * own->num_labels] += sum;
}

/* Chooses the likeliest label of each position, of equals the last; says if any is likelier than the one before. */
static int choose_likeliest(Recursion *own) {
    int is_better = 0;
    for (int64_t q = 0; q < own->positions; q++) {
        const double *share = own->share + q * own->num_labels;
        int64_t best = own->num_labels - 1;
        for (int64_t label = best - 1; label >= 0; label--)
            if ((float)share[label] > (float)share[best]) best = label;
        is_better |= (float)share[best] > (float)share[own->chosen[q]];
        own->chosen[q] = best;
    }
    return is_better;
}

/* Puts a gap before, between and behind the words that are chosen; says if there is room. */
static int put_gaps(Recursion *own) {
    int64_t count = 0;
    for (int64_t q = 0; q < own->positions; q++)
        if (own->chosen[q]) own->chosen[count++] = own->chosen[q];
    if (count > own->given->most) return 0;
    own->positions = 2 * count + 1;
    while (count--) own->chosen[2 * count + 2] = 0, own->chosen[2 * count + 1] = own->chosen[count];
    own->chosen[0] = 0;
    return 1;
}

/* Writes a row for each word that is chosen; returns how many, or -1 without room. */
static int64_t write_words(const Recursion *own, double *found) {
    int64_t count = 0;
    for (int64_t q = 0; q < own->positions; q++) {
        const int64_t label = own->chosen[q], at = q * own->num_labels + label;
        if (!label) continue;
        if (count == own->given->most) return -1;
        double *row = found + 4 * count++;
        row[0] = (double)own->labels[label], row[3] = own->share[at] < 1.0 ? own->share[at] : 1.0;
        row[1] = own->begin[at] / own->share[at], row[2] = own->end[at] / own->share[at];
    }
    return count;
}

/* Improves the words until nothing is gained; returns their number and their rows in `found`, or -1. */
static int64_t improved(Recursion *own, double *found) {
    const TimedArcs *given = own->given;
    for (int round = 0; round < MOST_ROUNDS; round++) {
        const int64_t positions = own->positions, shares = positions * own->num_labels;
        const int64_t masses = given->states * (positions + 1), numbers = 3 * shares + 2 * masses;
        double *block = calloc((size_t)numbers * sizeof *block + (size_t)(given->arcs * positions), 1);
        if (!block) return -1;
        own->share = block, own->begin = own->share + shares, own->end = own->begin + shares;
        double *distance = own->end + shares, *mass = distance + masses;
        uint8_t *edits = (uint8_t *)(mass + masses);
        find_edits(own, distance, edits);
        find_shares(own, edits, mass);
        const int is_better = choose_likeliest(own);
        const int64_t count = is_better ? -1 : write_words(own, found);
        free(block);
        if (!is_better || !put_gaps(own)) return count;
    }
    return -1;
}

/* Writes labels, first rows, rows behind and confidences of the words into rows of four; returns how many, or -1 where Python
   is to find them. */
int64_t nnet3_least_risk(const TimedArcs *given, double *found) {
    const int64_t states = given->states, arcs = given->arcs, room = 2 * (given->most + states) + 2;
    int64_t *block = malloc((size_t)(3 * states + 4 * arcs + room + 2) * sizeof *block), count = -1;
    if (!block) return -1;
    Recursion own = {.given = given, .order = block, .word = block + arcs, .labels = block + 2 * arcs};
    own.first = own.labels + arcs + 1, own.chosen = own.first + states + 1;
    int64_t *into = own.chosen + room;
    double *costs = (double *)(into + states);
    own.probability = costs + states;
    int is_sound = states > 0;
    for (int64_t arc = 0; arc < arcs; arc++) is_sound &= isfinite(given->cost[arc]) != 0;
    if (is_sound && sort_arcs(&own, into)) {
        number_labels(&own);
        find_probabilities(&own, costs);
        choose_best(&own, costs, into);
        if (own.positions <= 2 * given->most + 1) count = improved(&own, found);
    }
    free(block);
    return count;
}
