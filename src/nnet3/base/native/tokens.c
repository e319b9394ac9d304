/* Token passing through a decoding graph: the tokens behind a row of scores, with all arcs between tokens, and which arcs
   stay when earlier rows are pruned. nnet3/speech/search/array_steps.py does the same with NumPy, in the same order. */

#include "columns.h"

#include <math.h>
#include <string.h>

#define NONE (-1)
#define PRUNE_SCALE 0.1 /* of the beam: smaller changes are not followed further back */

enum { DONE, NEEDS_ARCS, NO_MEMORY, TOO_MANY_ROUNDS };

/* Arcs first[s], first[s] + step, ... leave state s, as many as lie before end[s]; first[s] < 0: not made yet. Their columns
   may lie at any address. Input label l takes column column[l] of the scores. */
typedef struct {
    const int64_t *first, *end;
    const int32_t *ilabel, *dst;
    const float *cost;
    const int64_t *column;
    int64_t step;
} Graph;

typedef struct {
    int64_t *src, *dst, *arc;
    double *cost;
    int64_t count, room;
} Links;

/* A row as it is made. Sources are tokens whose arcs are followed next: of the row before, then of the row itself. */
typedef struct {
    int64_t tokens, room, sources, room_of_sources, slots, rounds;
    int64_t *state, *back_src, *back_arc, *source, *state_of_source;
    int32_t *token_of_slot;
    double *cost, *cost_of_source, cutoff;
    char *is_better, *is_within; /* is_within: the best arc into the token comes from the row itself */
    Links emitting, epsilons;
    int is_emitting;
} Row;

static int add_link(Links *links, int64_t src, int64_t dst, int64_t arc, double cost) {
    if (links->count == links->room) {
        const int64_t room = more_room(links->room, links->count + 1);
        if (!ROOM(links->src, room) || !ROOM(links->dst, room) || !ROOM(links->arc, room) || !ROOM(links->cost, room)) return 0;
        links->room = room;
    }
    const int64_t at = links->count++;
    links->src[at] = src, links->dst[at] = dst, links->arc[at] = arc, links->cost[at] = cost;
    return 1;
}

static int add_source(Row *row, int64_t token, int64_t state, double cost) {
    if (row->sources == row->room_of_sources) {
        const int64_t room = more_room(row->room_of_sources, row->sources + 1);
        if (!ROOM(row->source, room) || !ROOM(row->state_of_source, room) || !ROOM(row->cost_of_source, room)) return 0;
        row->room_of_sources = room;
    }
    const int64_t at = row->sources++;
    row->source[at] = token, row->state_of_source[at] = state, row->cost_of_source[at] = cost;
    return 1;
}

/* ---- states and their tokens: a hash table with open addressing, whose slots hold 1 + token, or 0 ---- */

static int64_t slot_of(const Row *row, int64_t state) {
    const uint64_t mask = (uint64_t)row->slots - 1;
    uint64_t slot = ((uint64_t)state * UINT64_C(0x9E3779B97F4A7C15)) >> 32 & mask;
    while (row->token_of_slot[slot] && row->state[row->token_of_slot[slot] - 1] != state) slot = (slot + 1) & mask;
    return (int64_t)slot;
}

static int enlarge(Row *row) {
    const int64_t room = more_room(row->room, row->tokens + 1), slots = 2 * room;
    if (!ROOM(row->state, room) || !ROOM(row->back_src, room) || !ROOM(row->back_arc, room)) return 0;
    if (!ROOM(row->cost, room) || !ROOM(row->is_better, room) || !ROOM(row->is_within, room)) return 0;
    int32_t *made = calloc((size_t)slots, sizeof *made);
    if (!made) return 0;
    free(row->token_of_slot);
    row->token_of_slot = made, row->slots = slots, row->room = room;
    for (int64_t token = 0; token < row->tokens; token++) made[slot_of(row, row->state[token])] = (int32_t)token + 1;
    return 1;
}

/* The token of a state, a new one of infinite cost if it has none; NONE without memory. */
static int64_t token_of(Row *row, int64_t state) {
    if (row->tokens == row->room && !enlarge(row)) return NONE;
    const int64_t slot = slot_of(row, state);
    if (row->token_of_slot[slot]) return row->token_of_slot[slot] - 1;
    const int64_t token = row->tokens++;
    row->token_of_slot[slot] = (int32_t)token + 1;
    row->state[token] = state, row->cost[token] = INFINITY, row->is_better[token] = row->is_within[token] = 0;
    row->back_src[token] = row->back_arc[token] = NONE;
    return token;
}

/* ---- one row ---- */

/* Says if all arcs out of the sources are made, and fetches them: they lie anywhere in the graph. */
static int sources_have_arcs(const Row *row, const Graph *graph) {
    for (int64_t i = 0; i < row->sources; i++) {
        const int64_t first = graph->first[row->state_of_source[i]];
        if (first < 0) return 0;
        __builtin_prefetch(graph->ilabel + first), __builtin_prefetch(graph->dst + first);
        __builtin_prefetch(graph->cost + first);
    }
    return 1;
}

/* An arc is followed if it costs less than the best cost so far plus the beam; so far means the arcs before it and those of
   the best source. */
static int follow_emitting(Row *row, const Graph *graph, const float *scores, double beam) {
    int64_t best = 0;
    for (int64_t i = 1; i < row->sources; i++)
        if (row->cost_of_source[i] < row->cost_of_source[best]) best = i;
    double most = INFINITY;
    for (int pass = 0; pass < 2; pass++) { /* first those of the best source, which only tell the limit */
        for (int64_t i = pass ? 0 : best; i < (pass || !row->sources ? row->sources : best + 1); i++) {
            const int64_t state = row->state_of_source[i], end = graph->end[state], step = graph->step;
            for (int64_t arc = graph->first[state]; arc + step <= end; arc += step) {
                const int32_t label = int_at(graph->ilabel, arc);
                if (!label) continue;
                const double weight = (double)float_at(graph->cost, arc) - (double)scores[graph->column[label]];
                const double cost = row->cost_of_source[i] + weight;
                if (!(cost < most)) continue;
                if (cost + beam < most) most = cost + beam;
                if (!pass) continue;
                const int64_t token = token_of(row, int_at(graph->dst, arc));
                if (token == NONE || !add_link(&row->emitting, row->source[i], token, arc, weight)) return NO_MEMORY;
                if (cost < row->cost[token]) {
                    row->cost[token] = cost;
                    row->back_src[token] = row->source[i], row->back_arc[token] = arc;
                }
            }
        }
    }
    row->cutoff = most;
    memset(row->is_better, 1, (size_t)row->tokens);
    return DONE;
}

/* The tokens that got better are the next sources, the last one first. */
static int take_better(Row *row) {
    row->sources = 0;
    for (int64_t token = row->tokens - 1; token >= 0; token--) {
        if (row->is_better[token] && row->cost[token] < row->cutoff)
            if (!add_source(row, token, row->state[token], row->cost[token])) return NO_MEMORY;
        row->is_better[token] = 0;
    }
    return DONE;
}

/* Follows the sources' arcs without a label once; their costs are those before the round. Says if there are such arcs. */
static int follow_epsilons(Row *row, const Graph *graph, int *has_arcs) {
    *has_arcs = 0;
    for (int64_t i = 0; i < row->sources; i++) {
        const int64_t state = row->state_of_source[i], end = graph->end[state], step = graph->step;
        for (int64_t arc = graph->first[state]; arc + step <= end; arc += step) {
            if (int_at(graph->ilabel, arc)) continue;
            *has_arcs = 1;
            const double cost = row->cost_of_source[i] + (double)float_at(graph->cost, arc);
            if (!(cost < row->cutoff)) continue;
            const int64_t token = token_of(row, int_at(graph->dst, arc));
            if (token == NONE) return NO_MEMORY;
            if (cost < row->cost[token]) {
                row->cost[token] = cost, row->is_better[token] = row->is_within[token] = 1;
                row->back_src[token] = row->source[i], row->back_arc[token] = arc;
            }
        }
    }
    return DONE;
}

static int list_epsilons(Row *row, const Graph *graph) {
    for (int64_t token = 0; token < row->tokens; token++) {
        const int64_t state = row->state[token], end = graph->end[state], step = graph->step;
        if (!(row->cost[token] < row->cutoff)) continue;
        for (int64_t arc = graph->first[state]; arc + step <= end; arc += step) {
            if (int_at(graph->ilabel, arc)) continue;
            const double weight = (double)float_at(graph->cost, arc);
            if (!(row->cost[token] + weight < row->cutoff)) continue;
            const int64_t dst = token_of(row, int_at(graph->dst, arc));
            if (dst == NONE || !add_link(&row->epsilons, token, dst, arc, weight)) return NO_MEMORY;
        }
    }
    return DONE;
}

/* The order of tokens in Kaldi's hash list: those with a common bucket stand where the first of them stood. Returns 0 without
   memory. */
static int64_t *in_buckets(int64_t tokens, const int64_t *state, int64_t buckets) {
    int64_t *order = calloc(2 * (size_t)tokens + 1, sizeof *order), *end = order + tokens; /* end[r]: of the r-th bucket used */
    int32_t *rank = calloc((size_t)buckets, sizeof *rank), used = 0;
    for (int64_t token = 0; order && rank && token < tokens; token++) {
        int32_t *own = &rank[state[token] % buckets];
        if (!*own) *own = ++used;
        end[*own]++;
    }
    for (int32_t r = 1; order && rank && r <= used; r++) end[r] += end[r - 1];
    for (int64_t token = 0; order && rank && token < tokens; token++) order[end[rank[state[token] % buckets] - 1]++] = token;
    if (!rank) free(order), order = 0;
    free(rank);
    return order;
}

void nnet3_row_end(Row *row, void *const *columns);

/* Begins a row behind tokens, of which those go on that cost at most `cutoff`, in the order of `buckets` for their states or,
   with 0 buckets, in their own; or, if not `emitting`, a first row of these tokens. Returns 0 without memory. */
Row *nnet3_row_begin(int64_t tokens, const int64_t *state, const double *cost, double cutoff, int64_t emitting,
                     int64_t buckets) {
    Row *row = calloc(1, sizeof *row);
    int64_t *order = buckets ? in_buckets(tokens, state, buckets) : 0;
    int good = row && enlarge(row) && (order || !buckets);
    for (int64_t place = 0; good && place < tokens; place++) {
        const int64_t token = order ? order[place] : place;
        if (emitting) {
            if (cost[token] <= cutoff) good = add_source(row, token, state[token], cost[token]);
        } else {
            const int64_t number = token_of(row, state[token]);
            good = number != NONE;
            if (good) row->cost[number] = cost[token], row->is_better[number] = 1;
        }
    }
    free(order);
    if (good && !emitting) row->cutoff = cutoff, good = take_better(row) == DONE;
    if (good) row->is_emitting = emitting != 0;
    if (!good && row) nnet3_row_end(row, 0), row = 0;
    return row;
}

/* Makes the row, or goes on with it once the sources have arcs. */
int64_t nnet3_row_go_on(Row *row, const Graph *graph, const float *scores, double beam, int64_t most_rounds) {
    int status = DONE, has_arcs = 1;
    if (row->is_emitting) {
        if (!sources_have_arcs(row, graph)) return NEEDS_ARCS;
        status = follow_emitting(row, graph, scores, beam);
        row->is_emitting = 0;
        if (status == DONE) status = take_better(row);
    }
    while (status == DONE) {
        if (!sources_have_arcs(row, graph)) return NEEDS_ARCS;
        if (row->rounds++ == most_rounds) return TOO_MANY_ROUNDS;
        status = follow_epsilons(row, graph, &has_arcs);
        if (!has_arcs) break;
        if (status == DONE) status = take_better(row);
    }
    return status == DONE ? list_epsilons(row, graph) : status;
}

/* The numbers of tokens, of links from the row before and within the row, and of sources. */
void nnet3_row_sizes(const Row *row, int64_t *sizes) {
    sizes[0] = row->tokens, sizes[1] = row->emitting.count, sizes[2] = row->epsilons.count, sizes[3] = row->sources;
}

void nnet3_row_states_of_sources(const Row *row, int64_t *states) {
    memcpy(states, row->state_of_source, (size_t)row->sources * sizeof *states);
}

/* Copies a row to columns, unless these are 0: state, cost, back_src, back_arc, is_within; src, dst, arc, cost of both kinds
   of links. The row is gone then. */
void nnet3_row_end(Row *row, void *const *columns) {
    const Links *e = &row->emitting, *n = &row->epsilons;
    void *own[] = {row->state, row->cost, row->back_src, row->back_arc, row->is_within,
                   e->src, e->dst, e->arc, e->cost, n->src, n->dst, n->arc, n->cost};
    for (int column = 0; column < 13; column++) {
        const int64_t count = column < 5 ? row->tokens : column < 9 ? e->count : n->count;
        if (columns && count) memcpy(columns[column], own[column], (size_t)count * (column == 4 ? 1 : 8));
        free(own[column]);
    }
    free(row->source), free(row->state_of_source), free(row->cost_of_source);
    free(row->token_of_slot), free(row->is_better), free(row);
}

/* ---- pruning ---- */

/* Marks the links out of a row that are part of a path within the beam, and sums up the row's excess: what the best path
   through a token costs more than the best of all. cost, known: of the row's tokens, known at the last pruning;
   cost_behind, excess_behind: of the row behind it. Links within the row come by source. Returns 1 if the excess of a token
   has changed much. */
int64_t nnet3_prune_links(int64_t tokens, const double *cost, const double *known, const double *cost_behind,
                          const double *excess_behind, double beam, int64_t emitting, const int64_t *src, const int64_t *dst,
                          const double *of_link, char *kept, int64_t epsilons, const int64_t *epsilon_src,
                          const int64_t *epsilon_dst, const double *of_epsilon, char *kept_epsilon, double *excess,
                          double *work) {
    double *outward = work, *last = work + tokens; /* excess by links to the row behind; of the time before */
    int has_changed = 0;
    for (int64_t token = 0; token < tokens; token++) outward[token] = INFINITY, last[token] = known[token];
    for (int64_t i = 0; i < emitting; i++) {
        const double through = excess_behind[dst[i]] + (cost[src[i]] + of_link[i] - cost_behind[dst[i]]);
        kept[i] = through <= beam;
        const double positive = through > 0.0 ? through : 0.0;
        if (kept[i] && positive < outward[src[i]]) outward[src[i]] = positive;
    }
    memset(kept_epsilon, 1, (size_t)epsilons);
    for (int again = 1; again;) { /* Kaldi goes over the tokens until little changes, and leaves it at that */
        again = 0;
        memcpy(excess, outward, (size_t)tokens * sizeof *excess);
        for (int64_t i = epsilons - 1; i >= 0; i--) { /* the newest first: behind a later token all is known */
            if (!kept_epsilon[i]) continue;
            const int64_t from = epsilon_src[i], to = epsilon_dst[i];
            const double through = (to > from ? excess[to] : last[to]) + (cost[from] + of_epsilon[i] - cost[to]);
            const double positive = through > 0.0 ? through : 0.0;
            kept_epsilon[i] = positive <= beam;
            if (kept_epsilon[i] && positive < excess[from]) excess[from] = positive;
        }
        for (int64_t token = 0; token < tokens; token++) again |= fabs(excess[token] - last[token]) > PRUNE_SCALE * beam;
        memcpy(last, excess, (size_t)tokens * sizeof *excess);
        has_changed |= again;
    }
    return has_changed;
}
