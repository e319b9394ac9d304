/* Words of a lattice of transition-ids, with the least expected number of errors: aligns the words with their phones
   (alignment.c), leaves silent arcs out, and asks bayes_risk.c. nnet3/speech/lattices/timed_lattice.py does the same with
   NumPy, and is asked where this file gives up: without memory, for words that do not fit their phones, unknown ids, infinite
   costs, and lattices of many states. */

#include "alignment.h"
#include "bayes_risk.h"
#include "labelled.h"

#include <math.h>

#define LEAST_NODES 1000
#define NODES_PER_ARC 20
#define MOST_STATES 1000 /* more are taken in parts */
#define MOST_COST 1e100  /* of an arc: sums are finite */

/* A lattice, and what is known of ids, of which there are num_ids, from 0 on. */
typedef struct {
    Labelled lattice;
    const uint8_t *is_self_loop, *ends_phone, *begins_word, *is_inside, *ends_word;
    const int64_t *state_of_id;
    int64_t num_ids;
} Known;

static double scaled(double scale, double graph, double acoustic) {
    volatile double product = scale * graph; /* which is rounded before it is added */
    return product + acoustic;
}

/* ---- the lattice with one end ---- */

typedef struct {
    int64_t *level, *row, *first_arc, *dst, *label, *first_id;
    double *cost, *free;
    int32_t *ids;
    void *block;
} Ways;

static int are_known(const int32_t *ids, int64_t count, int64_t known) {
    int32_t least = 1, most = 0;
    for (int64_t at = 0; at < count; at++) least = ids[at] < least ? ids[at] : least, most = ids[at] > most ? ids[at] : most;
    return least > 0 && most < known;
}

/* Adds an arc to a lattice with one more state, and its ids. */
static int add_way(Ways *ways, int64_t *arcs, int64_t dst, int64_t label, double cost, const int32_t *ids, int64_t count) {
    const int64_t own = (*arcs)++;
    ways->dst[own] = dst, ways->label[own] = label, ways->cost[own] = cost, ways->free[own] = 0.0;
    if (count) memcpy(ways->ids + ways->first_id[own], ids, (size_t)count * sizeof *ids);
    ways->first_id[own + 1] = ways->first_id[own] + count;
    return fabs(cost) < MOST_COST;
}

/* Lets arcs lead from all final states to one more state. Returns 0 to give up. */
static int make_ways(const Labelled *given, int64_t num_known, double scale, Ways *ways) {
    const int64_t states = given->states, most = given->arcs + states;
    const int64_t num_ids = given->first_id[given->arcs], num_last = given->first_final_id[states];
    if (!are_known(given->ids, num_ids, num_known) || !are_known(given->final_ids, num_last, num_known)) return 0;
    const size_t of_ids = (size_t)(num_ids + num_last) * sizeof *ways->ids;
    int64_t *at = ways->block = malloc((size_t)(3 * states + 5 * most + 5) * sizeof *at + of_ids);
    if (!at) return 0;
    ways->level = at, at += states + 1, ways->row = at, at += states + 1, ways->first_arc = at, at += states + 2;
    ways->dst = at, at += most, ways->label = at, at += most, ways->first_id = at, at += most + 1;
    ways->cost = (double *)at, ways->free = ways->cost + most, ways->ids = (int32_t *)(ways->free + most);
    memcpy(ways->level, given->level, (size_t)states * sizeof *at);
    memset(ways->row, 0, (size_t)(states + 1) * sizeof *at);
    ways->level[states] = given->level[states - 1] + 1;
    int64_t arcs = 0, is_sound = 1;
    ways->first_id[0] = 0;
    for (int64_t state = 0; state < states; state++) {
        ways->first_arc[state] = arcs;
        for (int64_t arc = given->first_arc[state]; arc < given->first_arc[state + 1]; arc++) {
            const int64_t first = given->first_id[arc], count = given->first_id[arc + 1] - first, dst = given->dst[arc];
            const double cost = scaled(scale, given->graph[arc], given->acoustic[arc]);
            is_sound &= dst > state && add_way(ways, &arcs, dst, given->label[arc], cost, given->ids + first, count);
            ways->row[dst] = ways->row[state] + count;
        }
        if (!(given->final_graph[state] + given->final_acoustic[state] < INFINITY)) continue;
        const int64_t first = given->first_final_id[state], count = given->first_final_id[state + 1] - first;
        const double cost = scaled(scale, given->final_graph[state], given->final_acoustic[state]);
        is_sound &= add_way(ways, &arcs, states, 0, cost, given->final_ids + first, count);
        if (ways->row[state] + count > ways->row[states]) ways->row[states] = ways->row[state] + count;
    }
    ways->first_arc[states] = ways->first_arc[states + 1] = arcs;
    return (int)is_sound;
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

/* Puts nodes into the order of their longest paths. level: of nodes; begin: one more. */
static void sort_nodes(Nodes *nodes, int64_t *level, int64_t *begin) {
    const int64_t count = nodes->count;
    int64_t *missing = nodes->number, *ready = nodes->order, found = 0; /* arcs that are still to come; nodes without such */
    for (int64_t node = 0; node < count; node++) missing[node] = level[node] = 0;
    for (int64_t arc = 0; arc < nodes->arcs; arc++) missing[nodes->dst[arc]]++;
    for (int64_t node = 0; node < count; node++)
        if (!missing[node]) ready[found++] = node;
    for (int64_t at = 0; at < found; at++)
        for (int64_t arc = nodes->first_arc[ready[at]]; arc < nodes->first_arc[ready[at] + 1]; arc++) {
            const int64_t dst = nodes->dst[arc], behind = level[ready[at]] + 1;
            if (level[dst] < behind) level[dst] = behind;
            if (!--missing[dst]) ready[found++] = dst;
        }
    memset(begin, 0, (size_t)(count + 1) * sizeof *begin);
    for (int64_t node = 0; node < count; node++) begin[level[node] + 1]++;
    for (int64_t each = 0; each < count; each++) begin[each + 1] += begin[each];
    for (int64_t node = 0; node < count; node++) nodes->number[node] = begin[level[node]]++;
    for (int64_t node = 0; node < count; node++) nodes->order[nodes->number[node]] = node;
}

/* Takes the nodes of an alignment, which is gone then. Returns 0 without memory. */
static int take_nodes(Alignment *alignment, Nodes *nodes) {
    int64_t sizes[6];
    nnet3_aligned_sizes(alignment, sizes);
    const int64_t count = sizes[0], silent = sizes[1], spoken = sizes[2], ends = sizes[4], arcs = silent + spoken;
    const size_t numbers = (size_t)(7 * count + 3 * arcs + 4 * silent + 4 * spoken + ends + 4);
    int64_t *at = nodes->block = malloc(numbers * sizeof *at + (size_t)sizes[3] * sizeof(int32_t));
    if (!at) return nnet3_aligned_end(alignment, 0), 0;
    nodes->count = count, nodes->arcs = arcs, nodes->row = at, at += count, nodes->order = at, at += count;
    nodes->number = at, at += count, nodes->is_last = at, at += count, nodes->first_arc = at, at += count + 1;
    nodes->dst = at, at += arcs, nodes->label = at, at += arcs, nodes->cost = (double *)at, at += arcs;
    int64_t *level = at, *begin = level + count, *steps = begin + count + 1, *words = steps + 2 * silent;
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
        const int64_t word = each - silent, own = begin[is_word ? words[word] : steps[each]]++;
        nodes->dst[own] = is_word ? words[spoken + word] : steps[silent + each];
        nodes->label[own] = is_word ? words[2 * spoken + word] : SILENT;
        nodes->cost[own] = is_word ? 0.0 : costs[each] + costs[silent + each];
    }
    sort_nodes(nodes, level, begin);
    return 1;
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
        if (made.states > 1 && made.states <= MOST_STATES) words = nnet3_least_risk(&made, found);
    }
    free(block), free(spoken.arcs), free(is_entry), free(final);
    return words;
}

/* Writes at most `most` words as nnet3_least_risk does; returns how many, or -1 where Python is to find them. */
int64_t nnet3_heard(const Known *given, double scale, int64_t most, double *found) {
    Ways ways = {.block = 0};
    Nodes nodes = {.block = 0};
    int64_t words = -1, status;
    const int64_t states = given->lattice.states;
    if (states && make_ways(&given->lattice, given->num_ids, scale, &ways)) {
        const int64_t arcs = ways.first_arc[states];
        const Given all = {
            .states = states, .most = LEAST_NODES + NODES_PER_ARC * (states + arcs) + ways.first_id[arcs],
            .level = ways.level, .row = ways.row, .first_arc = ways.first_arc, .dst = ways.dst, .label = ways.label,
            .graph = ways.cost, .acoustic = ways.free, .first_id = ways.first_id, .ids = ways.ids,
            .is_self_loop = given->is_self_loop, .ends_phone = given->ends_phone, .begins_word = given->begins_word,
            .is_inside = given->is_inside, .ends_word = given->ends_word, .state = given->state_of_id};
        Alignment *alignment = nnet3_align(&all, &status);
        if (alignment && take_nodes(alignment, &nodes)) words = words_of(&nodes, most, found);
    }
    free(ways.block), free(nodes.block);
    return words;
}
