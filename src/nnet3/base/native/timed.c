/* Words of a lattice of transition-ids, with the least expected number of errors: aligns the words with their phones
   (alignment.c), leaves silent arcs out, and asks bayes_risk.c. nnet3/speech/lattices/timed_lattice.py does the same with
   NumPy, and is asked where this file gives up: without memory, for words that do not fit their phones, unknown ids, and
   infinite costs. */

#include "alignment.h"
#include "bayes_risk.h"
#include "levels.h"

#include <math.h>

#define LEAST_NODES 1000
#define NODES_PER_ARC 20
#define LEAST_STATES 1000 /* of a part: memory grows with states times words */
#define MOST_COST 1e100  /* of an arc: sums are finite */

static double scaled(double scale, double graph, double acoustic) {
    volatile double product = scale * graph; /* which is rounded before it is added */
    return product + acoustic;
}

static int are_known(const int32_t *ids, int64_t count, int64_t known) {
    int32_t least = 1, most = 0;
    for (int64_t at = 0; at < count; at++) least = ids[at] < least ? ids[at] : least, most = ids[at] > most ? ids[at] : most;
    return least > 0 && most < known;
}

/* Counts the most nodes of an alignment, or returns 0 to give up. */
static int64_t most_nodes(const Given *given, double scale) {
    const Labelled *all = &given->lattice;
    const int64_t states = all->states, ids = states ? all->first_id[all->arcs] : 0;
    int64_t most = LEAST_NODES + NODES_PER_ARC * (states + all->arcs) + ids, is_sound = states != 0;
    if (!is_sound || !are_known(all->ids, ids, given->num_ids)) return 0;
    if (!are_known(all->final_ids, all->first_final_id[states], given->num_ids)) return 0;
    for (int64_t state = 0; state < states; state++) {
        for (int64_t arc = all->first_arc[state]; arc < all->first_arc[state + 1]; arc++)
            is_sound &= all->dst[arc] > state && fabs(scaled(scale, all->graph[arc], all->acoustic[arc])) < MOST_COST;
        if (!nnet3_is_final(all, state)) continue;
        is_sound &= fabs(scaled(scale, all->final_graph[state], all->final_acoustic[state])) < MOST_COST;
        most += NODES_PER_ARC + all->first_final_id[state + 1] - all->first_final_id[state];
    }
    return is_sound ? most : 0;
}

/* ---- nodes of the alignment ---- */

#define SILENT (-1) /* the label of arcs without one */
#define GONE (-1)   /* the number of states on no complete path */

/* Nodes, and their arcs by source. order: of nodes, by their longest paths; number: the places of nodes in it. */
typedef struct {
    int64_t count, arcs, *row, *order, *number, *is_last, *first_arc, *dst, *label;
    double *cost;
    void *block;
} Nodes;

/* Puts nodes into the order of their longest paths. src, level, begin: of arcs, of nodes, one more. Returns 0 without memory. */
static int sort_nodes(Nodes *nodes, const int64_t *src, int64_t *level, int64_t *begin) {
    const int64_t count = nodes->count;
    if (!nnet3_longest_paths(count, nodes->arcs, src, nodes->dst, level)) return 0;
    memset(begin, 0, (size_t)(count + 1) * sizeof *begin);
    for (int64_t node = 0; node < count; node++) begin[level[node] + 1]++;
    for (int64_t each = 0; each < count; each++) begin[each + 1] += begin[each];
    for (int64_t node = 0; node < count; node++) nodes->number[node] = begin[level[node]]++;
    for (int64_t node = 0; node < count; node++) nodes->order[nodes->number[node]] = node;
    return 1;
}

/* Takes the nodes of an alignment, which is gone then. Returns 0 without memory. */
static int take_nodes(Alignment *alignment, double scale, Nodes *nodes) {
    int64_t sizes[6];
    nnet3_aligned_sizes(alignment, sizes);
    const int64_t count = sizes[0], silent = sizes[1], spoken = sizes[2], ends = sizes[4], arcs = silent + spoken;
    const size_t numbers = (size_t)(7 * count + 4 * arcs + 4 * silent + 4 * spoken + ends + 4);
    int64_t *at = nodes->block = malloc(numbers * sizeof *at + (size_t)sizes[3] * sizeof(int32_t));
    if (!at) return nnet3_aligned_end(alignment, 0), 0;
    nodes->count = count, nodes->arcs = arcs, nodes->row = at, at += count, nodes->order = at, at += count;
    nodes->number = at, at += count, nodes->is_last = at, at += count, nodes->first_arc = at, at += count + 1;
    nodes->dst = at, at += arcs, nodes->label = at, at += arcs, nodes->cost = (double *)at, at += arcs;
    int64_t *src = at, *level = src + arcs, *begin = level + count, *steps = begin + count + 1, *words = steps + 2 * silent;
    int64_t *first_id = words + 3 * spoken, *last = first_id + spoken + 1;
    double *costs = (double *)(last + ends);
    nnet3_aligned_end(alignment, (void *[]){nodes->row, steps, costs, words, first_id, costs + 2 * silent, last});
    memset(nodes->first_arc, 0, (size_t)(count + 1) * sizeof *at), memset(nodes->is_last, 0, (size_t)count * sizeof *at);
    for (int64_t each = 0; each < ends; each++) nodes->is_last[last[each]] = 1;
    for (int64_t each = 0; each < silent; each++) nodes->first_arc[steps[each] + 1]++;
    for (int64_t each = 0; each < spoken; each++) nodes->first_arc[words[each] + 1]++;
    for (int64_t node = 0; node < count; node++) nodes->first_arc[node + 1] += nodes->first_arc[node];
    memcpy(begin, nodes->first_arc, (size_t)count * sizeof *at);
    for (int64_t each = 0; each < arcs; each++) {
        const int is_word = each >= silent;
        const int64_t word = each - silent, from = is_word ? words[word] : steps[each], own = begin[from]++;
        src[own] = from;
        nodes->dst[own] = is_word ? words[spoken + word] : steps[silent + each];
        nodes->label[own] = is_word ? words[2 * spoken + word] : SILENT;
        nodes->cost[own] = is_word ? 0.0 : scaled(scale, costs[each], costs[silent + each]);
    }
    return sort_nodes(nodes, src, level, begin);
}

/* ---- the lattice without silent arcs ---- */

typedef struct { int64_t src, dst, label; double cost; } Arc;

/* States are the nodes in their order. final: what ends cost. best: of a node from the present one, through silent arcs. */
typedef struct { Arc *arcs; int64_t count, room, *is_entry; double *final, *best; } Spoken;

static int by_ends(const void *a, const void *b) {
    const Arc *x = a, *y = b;
    if (x->dst != y->dst) return x->dst < y->dst ? -1 : 1;
    if (x->label != y->label) return x->label < y->label ? -1 : 1;
    return (x->cost > y->cost) - (x->cost < y->cost);
}

/* Makes the arcs and the end of a state; of equal arcs the best stays. */
static int speak_from(const Nodes *nodes, Spoken *spoken, int64_t entry) {
    const int64_t known = spoken->count;
    int64_t waiting = 1;
    spoken->best[entry] = 0.0;
    for (int64_t state = entry; waiting; state++) {
        const double before = spoken->best[state];
        if (!(before < INFINITY)) continue;
        const int64_t node = nodes->order[state];
        waiting--, spoken->best[state] = INFINITY;
        if (nodes->is_last[node] && before < spoken->final[entry]) spoken->final[entry] = before;
        for (int64_t arc = nodes->first_arc[node]; arc < nodes->first_arc[node + 1]; arc++) {
            const int64_t dst = nodes->number[nodes->dst[arc]];
            const double cost = before + nodes->cost[arc];
            if (nodes->label[arc] == SILENT) {
                waiting += !(spoken->best[dst] < INFINITY);
                if (cost < spoken->best[dst]) spoken->best[dst] = cost;
                continue;
            }
            if (spoken->count == spoken->room) {
                const int64_t room = more_room(spoken->room, spoken->count + 1);
                if (!ROOM(spoken->arcs, room)) return 0;
                spoken->room = room;
            }
            spoken->arcs[spoken->count++] = (Arc){entry, dst, nodes->label[arc], cost};
            spoken->is_entry[dst] = 1;
        }
    }
    if (spoken->count == known) return 1;
    qsort(spoken->arcs + known, (size_t)(spoken->count - known), sizeof *spoken->arcs, by_ends);
    const int64_t end = spoken->count;
    spoken->count = known;
    for (int64_t at = known; at < end; at++) {
        const Arc *own = spoken->arcs + at, *last = spoken->arcs + spoken->count - 1;
        if (spoken->count == known || own->dst != last->dst || own->label != last->label) spoken->arcs[spoken->count++] = *own;
    }
    return 1;
}

/* Makes the lattice of the states on complete paths, with one end, from which no arcs lead on. number: of states. */
static TimedArcs with_one_end(const Nodes *nodes, const Spoken *spoken, int64_t *number, int64_t *row, int64_t *src) {
    const int64_t room = spoken->count + nodes->count;
    int64_t kept = 0, arcs = 0, ends = 0, end = GONE, last = 0, *dst = src + room, *label = dst + room;
    double *cost = (double *)(label + room);
    for (int64_t state = 0; state < nodes->count; state++) number[state] = spoken->final[state] < INFINITY ? 0 : GONE;
    for (int64_t at = spoken->count - 1; at >= 0; at--)
        if (number[spoken->arcs[at].dst] != GONE) number[spoken->arcs[at].src] = 0;
    for (int64_t state = 0; state < nodes->count; state++) {
        if (!spoken->is_entry[state]) number[state] = GONE; /* no path leads to it */
        if (number[state] == GONE || !(spoken->final[state] < INFINITY)) continue;
        const int64_t own = nodes->row[nodes->order[state]];
        ends++, end = state, last = own > last ? own : last;
    }
    int is_end = ends == 1 && spoken->final[end] == 0.0;
    for (int64_t at = 0; is_end && at < spoken->count; at++)
        is_end = spoken->arcs[at].src != end || number[spoken->arcs[at].dst] == GONE;
    for (int64_t state = 0; state < nodes->count; state++)
        if (number[state] != GONE && !(is_end && state == end))
            row[kept] = nodes->row[nodes->order[state]], number[state] = kept++;
    row[kept] = last;
    if (is_end) number[end] = kept;
    for (int64_t at = 0; at < spoken->count; at++) {
        const Arc own = spoken->arcs[at];
        if (number[own.src] == GONE || number[own.dst] == GONE) continue;
        src[arcs] = number[own.src], dst[arcs] = number[own.dst], label[arcs] = own.label, cost[arcs++] = own.cost;
    }
    for (int64_t state = 0; state < nodes->count && !is_end; state++) {
        if (number[state] == GONE || !(spoken->final[state] < INFINITY)) continue;
        src[arcs] = number[state], dst[arcs] = kept, label[arcs] = 0, cost[arcs++] = spoken->final[state];
    }
    return (TimedArcs){.states = kept + 1, .arcs = arcs, .row = row, .src = src, .dst = dst, .label = label, .cost = cost};
}

/* Finds the words of parts of a lattice, between states that no arc leads past. */
static int64_t words_of_parts(const TimedArcs *made, double *found) {
    const int64_t states = made->states, arcs = made->arcs;
    int64_t words = 0, first = 0, past = 0, *steps = calloc((size_t)(states + 4 * arcs + 1), sizeof *steps);
    if (!steps) return -1;
    int64_t *src = steps + states + 1, *dst = src + arcs, *label = dst + arcs;
    double *cost = (double *)(label + arcs);
    for (int64_t at = 0; at < arcs; at++) steps[made->src[at] + 1]++, steps[made->dst[at]]--;
    for (int64_t state = 1; words >= 0 && state < states; state++) {
        past += steps[state];
        if (state + 1 < states && (past || state < first + LEAST_STATES)) continue;
        int64_t own = 0;
        for (int64_t at = 0; at < arcs; at++) {
            if (made->src[at] < first || made->dst[at] > state) continue;
            src[own] = made->src[at] - first, dst[own] = made->dst[at] - first;
            label[own] = made->label[at], cost[own++] = made->cost[at];
        }
        TimedArcs part = {.states = state - first + 1, .arcs = own, .most = made->most - words, .row = made->row + first};
        part.src = src, part.dst = dst, part.label = label, part.cost = cost;
        const int64_t more = nnet3_least_risk(&part, found + 4 * words);
        words = more < 0 ? -1 : words + more, first = state;
    }
    free(steps);
    return words;
}

/* Finds the words on nodes; `most` of them. */
static int64_t words_of(const Nodes *nodes, int64_t most, double *found) {
    const int64_t count = nodes->count;
    int64_t words = -1, is_done = 1, *is_entry = calloc((size_t)(3 * count + 1), sizeof *is_entry);
    double *final = malloc((size_t)(2 * count) * sizeof *final);
    Spoken spoken = {.is_entry = is_entry, .final = final, .best = final + count};
    void *block = 0;
    if (!is_entry || !final) is_done = 0;
    for (int64_t each = 0; is_done && each < 2 * count; each++) final[each] = INFINITY;
    if (is_done) is_entry[0] = 1;
    for (int64_t state = 0; is_done && state < count; state++)
        if (is_entry[state]) is_done = speak_from(nodes, &spoken, state);
    if (is_done) block = malloc((size_t)(4 * (spoken.count + count)) * sizeof(int64_t));
    if (block) {
        TimedArcs made = with_one_end(nodes, &spoken, is_entry + count, is_entry + 2 * count, block);
        made.most = most;
        if (made.states > 1) words = words_of_parts(&made, found);
    }
    free(block), free(spoken.arcs), free(is_entry), free(final);
    return words;
}

/* Writes at most `most` words as nnet3_least_risk does; returns how many, or -1 where Python is to find them. */
int64_t nnet3_heard(const Given *given, double scale, int64_t most, double *found) {
    Nodes nodes = {.block = 0};
    int64_t words = -1, status;
    const int64_t allowed = most_nodes(given, scale);
    Alignment *alignment = allowed ? nnet3_align(given, 0, 0, allowed, &status) : 0;
    if (alignment && take_nodes(alignment, scale, &nodes)) words = words_of(&nodes, most, found);
    free(nodes.block);
    return words;
}
