/* Lattices composed best first with an n-gram model and an RNNLM, whose scaled costs are added.
   nnet3/speech/lattices/pruned_composition.py, rnnlm_acceptor.py and word_acceptor.py of nnet3/speech/language_models do the
   same, round alike, and are asked where this file gives up: without memory, for damaged models and words that the RNNLM
   lacks. */

#include "word_models.h"

#define FIRST_ARCS 100
#define DIVE (-1000.0) /* of a state's cost per level until a complete path is there */

void nnet3_run(const void *operations, const void *moves, const void *tables, int64_t first, int64_t end,
               int64_t iteration, int64_t end_iteration, float *scratch, int64_t threads);

/* ---- the RNNLM ---- */

/* A word of a sentence: operations that read the state before and the word, and write the output and the state after, of
   which `kept` are parts behind the others, as long as a word. */
typedef struct {
    const void *operations, *moves, *tables;
    int64_t num_operations, size_before, size_after, num_kept;
    float *before, *word;
    const float *output, *after, *kept[];
} Step;

/* Steps are those of the words at the beginning, and then those that come again and again. */
typedef struct {
    int64_t num_words, dim;
    const float *embedding;
    int64_t bos, eos, width, threads, num_head, num_steps;
    const Step *const *steps;
} Network;

typedef struct { int64_t parent, word, length; float *values; } History; /* values: the output, the state; or 0 */

typedef struct { Rows rows; History *known; int64_t room; } Histories;

static int compute(const Network *network, const Histories *histories, History *own) {
    const int64_t head = network->num_head, cycle = network->num_steps - head, length = own->length, dim = network->dim;
    const Step *step = network->steps[length < head ? length : head + (length - head) % cycle];
    float *to = malloc((size_t)(dim + step->size_after + step->num_kept * dim) * sizeof *to);
    if (!to) return GIVE_UP;
    own->values = to;
    if (length && step->size_before)
        memcpy(step->before, histories->known[own->parent].values + dim, (size_t)step->size_before * sizeof *to);
    memcpy(step->word, network->embedding + own->word * dim, (size_t)dim * sizeof *to);
    nnet3_run(step->operations, step->moves, step->tables, 0, step->num_operations, 0, 1, 0, network->threads);
    memcpy(to, step->output, (size_t)dim * sizeof *to), to += dim;
    if (step->size_after) memcpy(to, step->after, (size_t)step->size_after * sizeof *to), to += step->size_after;
    for (int64_t k = 0; k < step->num_kept; k++, to += dim) memcpy(to, step->kept[k], (size_t)dim * sizeof *to);
    return FOUND;
}

static int network_cost(const Network *network, const Histories *histories, int64_t number, int64_t word, float *cost) {
    History *own = histories->known + number;
    double sum = 0;
    if (word < 1 || word >= network->num_words) return GIVE_UP;
    if (!own->values && compute(network, histories, own) == GIVE_UP) return GIVE_UP;
    const float *embedding = network->embedding + word * network->dim;
    for (int64_t k = 0; k < network->dim; k++) sum += (double)own->values[k] * (double)embedding[k];
    *cost = -(float)sum;
    return FOUND;
}

/* Returns the number of the history in the row behind the last one, or GIVE_UP. */
static int64_t entered(Histories *histories, int64_t parent, int64_t word, int64_t length) {
    const int64_t number = numbered(&histories->rows);
    if (number >= histories->room) {
        const int64_t room = more_room(histories->room, number + 1);
        if (!ROOM(histories->known, room)) return GIVE_UP;
        memset(histories->known + histories->room, 0, (size_t)(room - histories->room) * sizeof *histories->known);
        histories->room = room;
    }
    if (!histories->known[number].word) histories->known[number] = (History){parent, word, length, 0};
    return number;
}

static int network_arc(const Network *network, Histories *histories, int64_t number, int64_t word, int64_t *next,
                       float *cost) {
    if (network_cost(network, histories, number, word, cost) == GIVE_UP) return GIVE_UP;
    int64_t *behind = new_row(&histories->rows), width = network->width;
    if (!behind) return GIVE_UP;
    memcpy(behind, row_at(&histories->rows, number) + 1, (size_t)(width - 1) * sizeof *behind);
    behind[width - 1] = word;
    *next = entered(histories, number, word, histories->known[number].length + 1);
    return *next == GIVE_UP ? GIVE_UP : FOUND;
}

/* ---- the search ---- */

/* Ways on from the states of a lattice whose arcs lead upwards, the best first: `_WaysOn` in pruned_composition.py. */
typedef struct { int64_t *first, *arc; double *best, *excess; void *block; } Ahead;

typedef struct { double beam, growth_ratio, old_scale, new_scale; } Options;

typedef struct {
    int64_t depth, way, before, first_arc, last_arc;
    double forward, correction, backward, excess, final, final_cost;
} State;

typedef struct { int64_t dst, arc, next; double cost, graph; } Arc;

typedef struct { double expected; int64_t number; } Waiting;

typedef struct {
    Lattice *lattice;
    Ahead ahead;
    const Ngrams *ngrams;
    const Network *network;
    const Options *options;
    int64_t max_arcs;
    Rows pairs, ngram_histories; /* a pair: the state of the lattice, of the n-gram model, of the RNNLM */
    Histories histories;
    State *states;
    Arc *arcs;
    Waiting *queue;
    int64_t *order, *number; /* of states; their numbers among those that are kept, or NONE */
    int64_t states_room, arcs_room, queue_room, order_room, num_arcs, waiting, kept, kept_arcs;
    double best, cutoff, penalty;
} Search;

/* ---- ways on ---- */

typedef struct { double cost; int64_t arc; } Way;

static int by_cost(const void *a, const void *b) {
    const Way *x = a, *y = b;
    if (x->cost != y->cost) return x->cost < y->cost ? -1 : 1;
    return x->arc < y->arc ? -1 : 1;
}

static int look_ahead(const Lattice *lattice, Ahead *ahead) {
    const int64_t states = lattice->states, most = lattice->arcs + states;
    ahead->block = malloc((size_t)(2 * states + 1 + 2 * most) * sizeof(int64_t) + (size_t)most * sizeof(Way));
    if (!ahead->block) return GIVE_UP;
    Way *ways = ahead->block;
    ahead->first = (int64_t *)(ways + most), ahead->arc = ahead->first + states + 1;
    ahead->excess = (double *)(ahead->arc + most), ahead->best = ahead->excess + most;
    int64_t behind = most; /* ways are found from the last state on, and begin behind the free rows */
    for (int64_t state = states - 1; state >= 0; state--) {
        const int64_t end = behind;
        for (int64_t arc = lattice->first_arc[state]; arc < lattice->first_arc[state + 1]; arc++) {
            const double own = lattice->graph[arc] + lattice->acoustic[arc];
            ways[--behind] = (Way){single(ahead->best[lattice->dst[arc]] + own), arc};
        }
        if (lattice->final[state] < INFINITY)
            ways[--behind] = (Way){single(lattice->final[state] + lattice->final_acoustic[state]), NONE};
        qsort(ways + behind, (size_t)(end - behind), sizeof *ways, by_cost);
        ahead->first[state] = behind, ahead->best[state] = ways[behind].cost;
    }
    ahead->first[states] = most;
    for (int64_t state = 0; state < states; state++)
        for (int64_t way = ahead->first[state]; way < ahead->first[state + 1]; way++)
            ahead->arc[way] = ways[way].arc, ahead->excess[way] = single(ways[way].cost - ahead->best[state]);
    return FOUND;
}

/* ---- states of the composition ---- */

static int64_t lattice_state(const Search *search, int64_t number) { return row_at(&search->pairs, number)[0]; }

static double expected_cost(const Search *search, int64_t number) {
    const State *state = search->states + number;
    const double *best = search->ahead.best;
    return single(state->forward + best[lattice_state(search, number)] + state->correction + state->excess - best[0]);
}

static int is_less(Waiting a, Waiting b) {
    return a.expected < b.expected || (a.expected == b.expected && a.number < b.number);
}

/* Puts a state into the queue unless its expected cost is too high. */
static int wait_with(Search *search, int64_t number) {
    const Waiting own = {expected_cost(search, number), number};
    if (!(own.expected < search->cutoff)) return FOUND;
    if (search->waiting == search->queue_room) {
        const int64_t room = more_room(search->queue_room, search->waiting + 1);
        if (!ROOM(search->queue, room)) return GIVE_UP;
        search->queue_room = room;
    }
    Waiting *queue = search->queue;
    int64_t at = search->waiting++;
    for (; at && is_less(own, queue[(at - 1) / 2]); at = (at - 1) / 2) queue[at] = queue[(at - 1) / 2];
    queue[at] = own;
    return FOUND;
}

static int64_t next_waiting(Search *search) {
    Waiting *queue = search->queue;
    const int64_t found = queue[0].number, count = --search->waiting;
    const Waiting last = queue[count];
    int64_t at = 0;
    for (int64_t below = 1; below < count; below = 2 * at + 1) {
        if (below + 1 < count && is_less(queue[below + 1], queue[below])) below++;
        if (!is_less(queue[below], last)) break;
        queue[at] = queue[below], at = below;
    }
    queue[at] = last;
    return found;
}

/* Puts the states into an order in which arcs go upwards: by the lattice's states, and by number. */
static int sort_states(Search *search) {
    const int64_t count = search->pairs.count, states = search->lattice->states;
    if (count > search->order_room) {
        const int64_t room = more_room(search->order_room, count);
        if (!ROOM(search->order, room) || !ROOM(search->number, room)) return GIVE_UP;
        search->order_room = room;
    }
    int64_t *begin = calloc((size_t)states + 1, sizeof *begin);
    if (!begin) return GIVE_UP;
    for (int64_t number = 0; number < count; number++) begin[lattice_state(search, number) + 1]++;
    for (int64_t state = 0; state < states; state++) begin[state + 1] += begin[state];
    for (int64_t number = 0; number < count; number++) search->order[begin[lattice_state(search, number)]++] = number;
    free(begin);
    return FOUND;
}

#define EACH_ARC(search, state, arc)                                                                                   \
    for (const Arc *arc = (state)->first_arc == NONE ? 0 : (search)->arcs + (state)->first_arc; arc;                    \
         arc = arc->next == NONE ? 0 : (search)->arcs + arc->next)

/* Computes all that is known of paths from the arcs made, and fills the queue anew. */
static int estimate(Search *search) {
    State *states = search->states;
    const int64_t count = search->pairs.count;
    const double *best = search->ahead.best;
    if (sort_states(search) == GIVE_UP) return GIVE_UP;
    for (int64_t number = 1; number < count; number++) states[number].forward = INFINITY, states[number].before = NONE;
    for (int64_t at = 0; at < count; at++) {
        const State *state = states + search->order[at];
        EACH_ARC(search, state, arc) {
            State *there = states + arc->dst;
            const double forward = state->forward + arc->cost;
            if (forward < there->forward)
                there->forward = forward, there->before = search->order[at], there->depth = state->depth + 1;
        }
    }
    for (int64_t at = count - 1; at >= 0; at--) {
        State *state = states + search->order[at];
        state->backward = state->final_cost;
        EACH_ARC(search, state, arc) {
            const double backward = arc->cost + states[arc->dst].backward;
            if (backward < state->backward) state->backward = backward;
        }
    }
    search->best = states[0].backward, search->waiting = 0;
    search->cutoff = single(search->best - best[0] + search->options->beam);
    for (int64_t at = 0; at < count; at++) {
        const int64_t number = search->order[at];
        State *state = states + number;
        const double of_way = (double)state->depth * search->penalty;
        state->correction = single(state->backward - best[lattice_state(search, number)] + of_way);
        if (state->correction == INFINITY) {
            if (number && state->before == NONE) return GIVE_UP;
            state->correction = number ? single(states[state->before].correction + search->penalty) : 0.0;
        }
        if (wait_with(search, number) == GIVE_UP) return GIVE_UP;
    }
    return FOUND;
}

/* Returns the number of the pair behind the last one, whose state is made if it is new, or GIVE_UP. */
static int64_t paired(Search *search) {
    const int64_t number = numbered(&search->pairs);
    if (number < search->states_room) return number;
    const int64_t room = more_room(search->states_room, number + 1);
    if (!ROOM(search->states, room)) return GIVE_UP;
    search->states_room = room;
    return number;
}

static State new_state(const Search *search, int64_t number, int64_t depth, double forward, double correction) {
    return (State){depth, search->ahead.first[lattice_state(search, number)], NONE, NONE, NONE, forward, correction,
                   INFINITY, 0.0, INFINITY, INFINITY};
}

static int end_at(Search *search, int64_t number) {
    const int64_t *pair = row_at(&search->pairs, number);
    const float old_scale = (float)search->options->old_scale, new_scale = (float)search->options->new_scale;
    State *state = search->states + number;
    float old, new;
    if (nnet3_ngram_final(search->ngrams, &search->ngram_histories, pair[1], &old) == GIVE_UP) return GIVE_UP;
    if (network_cost(search->network, &search->histories, pair[2], search->network->eos, &new) == GIVE_UP) return GIVE_UP;
    const float cost = (isinf(old) ? old : product(old_scale, old)) + (isinf(new) ? new : product(new_scale, new));
    if (cost == INFINITY) return FOUND;
    state->final = single(search->lattice->final[pair[0]] + (double)cost);
    state->final_cost = state->final + search->lattice->final_acoustic[pair[0]];
    if (state->final_cost < state->backward) state->backward = state->final_cost;
    if (search->penalty == 0) return FOUND;
    search->penalty = 0;
    return estimate(search);
}

static int follow(Search *search, int64_t number, int64_t arc) {
    const Lattice *lattice = search->lattice;
    int64_t *made = new_row(&search->pairs);
    if (!made) return GIVE_UP;
    const int64_t *pair = row_at(&search->pairs, number), label = lattice->label[arc];
    double cost = 0;
    made[0] = lattice->dst[arc], made[1] = pair[1], made[2] = pair[2];
    if (label) {
        float old, new;
        const int found = nnet3_ngram_next(search->ngrams, &search->ngram_histories, pair[1], label, &made[1], &old);
        if (found != FOUND) return found;
        if (network_arc(search->network, &search->histories, pair[2], label, &made[2], &new) == GIVE_UP) return GIVE_UP;
        cost = product((float)search->options->old_scale, old) + product((float)search->options->new_scale, new);
    }
    if (search->num_arcs == search->arcs_room) {
        const int64_t room = more_room(search->arcs_room, search->num_arcs + 1);
        if (!ROOM(search->arcs, room)) return GIVE_UP;
        search->arcs_room = room;
    }
    const int64_t known = search->pairs.count, target = paired(search);
    if (target == GIVE_UP) return GIVE_UP;
    State *state = search->states + number;
    if (target == known) {
        const int64_t depth = state->depth + 1;
        const double forward = state->forward + (lattice->graph[arc] + lattice->acoustic[arc]) + cost;
        const double correction = single(state->correction + (double)depth * search->penalty);
        search->states[target] = new_state(search, target, depth, forward, correction);
        if (wait_with(search, target) == GIVE_UP) return GIVE_UP;
    }
    const double graph = single(lattice->graph[arc] + cost);
    const int64_t own = search->num_arcs++;
    search->arcs[own] = (Arc){target, arc, NONE, graph + lattice->acoustic[arc], graph};
    if (state->last_arc == NONE) state->first_arc = own;
    else search->arcs[state->last_arc].next = own;
    state->last_arc = own;
    return FOUND;
}

/* Takes the next way on from a state. */
static int expand(Search *search, int64_t number) {
    const Ahead *ahead = &search->ahead;
    State *state = search->states + number;
    const int64_t arc = ahead->arc[state->way++];
    const int is_over = state->way == ahead->first[lattice_state(search, number) + 1];
    state->excess = is_over ? INFINITY : ahead->excess[state->way];
    if (wait_with(search, number) == GIVE_UP) return GIVE_UP;
    return arc == NONE ? end_at(search, number) : follow(search, number, arc);
}

static int grow(Search *search) {
    while (search->best == INFINITY || search->num_arcs < search->max_arcs) {
        if (estimate(search) == GIVE_UP) return GIVE_UP;
        int64_t limit = FIRST_ARCS;
        if (search->num_arcs) {
            const float grown = (float)search->num_arcs * (float)search->options->growth_ratio;
            limit = grown < 1e18f ? (int64_t)grown : (int64_t)1e18;
            if (limit <= search->num_arcs) limit = search->num_arcs + 1;
        }
        if (search->best < INFINITY && limit > search->max_arcs) limit = search->max_arcs;
        while (search->num_arcs < limit && search->waiting)
            if (expand(search, next_waiting(search)) == GIVE_UP) return GIVE_UP;
        if (!search->waiting) return FOUND;
    }
    return FOUND;
}

/* Numbers the states on complete paths anew, in OpenFst's order: the reverse postorder of a search depth first. */
static void number_upwards(Search *search) {
    State *states = search->states;
    int64_t *path = search->order, depth = 0, left = search->kept;
    for (int64_t number = 0; number < search->pairs.count; number++) states[number].last_arc = states[number].first_arc;
    path[depth++] = 0, states[0].way = NONE; /* which is seen, and `last_arc` is the next one */
    while (depth) {
        State *state = states + path[depth - 1];
        if (state->last_arc == NONE) {
            search->number[path[--depth]] = --left;
            continue;
        }
        const Arc *arc = search->arcs + state->last_arc;
        state->last_arc = arc->next;
        if (search->number[arc->dst] == NONE || states[arc->dst].way == NONE) continue;
        path[depth++] = arc->dst, states[arc->dst].way = NONE;
    }
}

/* Numbers the states on complete paths so that arcs lead upwards, by age if that does; puts them into their order. */
static int keep(Search *search) {
    const int64_t count = search->pairs.count;
    if (sort_states(search) == GIVE_UP) return GIVE_UP;
    for (int64_t at = count - 1; at >= 0; at--) {
        const int64_t number = search->order[at];
        const State *state = search->states + number;
        int is_kept = state->final < INFINITY;
        EACH_ARC(search, state, arc) is_kept |= search->number[arc->dst] != NONE;
        search->number[number] = is_kept ? 0 : NONE;
    }
    for (int64_t number = 0; number < count; number++) {
        if (search->number[number] == NONE) continue;
        search->number[number] = search->kept++;
    }
    int goes_up = 1;
    for (int64_t number = 0; number < count; number++) {
        if (search->number[number] == NONE) continue;
        EACH_ARC(search, search->states + number, arc) {
            if (search->number[arc->dst] == NONE) continue;
            search->kept_arcs++, goes_up &= number < arc->dst;
        }
    }
    if (!goes_up) number_upwards(search);
    for (int64_t number = 0; number < count; number++)
        if (search->number[number] != NONE) search->order[search->number[number]] = number;
    return FOUND;
}

static int begin(Search *search) {
    const Network *network = search->network;
    Rows *pairs = &search->pairs, *new = &search->histories.rows;
    *pairs = (Rows){.width = 3, .compared = 3};
    *new = (Rows){.width = network->width, .compared = network->width};
    if (!new_row(pairs) || !new_row(new)) return GIVE_UP;
    memset(pairs->values, 0, 3 * sizeof *pairs->values);
    memset(new->values, 0, (size_t)new->width * sizeof *new->values);
    new->values[new->width - 1] = network->bos;
    if (nnet3_ngram_begin(search->ngrams, &search->ngram_histories) == GIVE_UP) return GIVE_UP;
    if (entered(&search->histories, NONE, network->bos, 0) == GIVE_UP || paired(search) == GIVE_UP) return GIVE_UP;
    search->states[0] = new_state(search, 0, 0, 0.0, 0.0);
    search->best = search->cutoff = INFINITY, search->penalty = DIVE;
    return grow(search) == GIVE_UP ? GIVE_UP : keep(search);
}

/* Makes the lattice of the states on complete paths. */
static int found_lattice(const Search *search, Lattice *made) {
    const Lattice *lattice = search->lattice;
    int64_t arcs = 0;
    if (nnet3_make_lattice(made, lattice->given, search->kept, search->kept_arcs) == GIVE_UP) return GIVE_UP;
    for (int64_t at = 0; at < search->kept; at++) {
        const State *state = search->states + search->order[at];
        const int64_t own = lattice_state(search, search->order[at]);
        made->first_arc[at] = arcs, made->state[at] = lattice->state[own], made->level[at] = 0;
        made->final[at] = state->final, made->final_acoustic[at] = lattice->final_acoustic[own];
        EACH_ARC(search, state, arc) {
            if (search->number[arc->dst] == NONE) continue;
            made->label[arcs] = lattice->label[arc->arc], made->dst[arcs] = search->number[arc->dst];
            made->arc[arcs] = lattice->arc[arc->arc];
            made->graph[arcs] = arc->graph, made->acoustic[arcs++] = lattice->acoustic[arc->arc];
            if (!isfinite(arc->graph)) return GIVE_UP;
        }
    }
    made->first_arc[search->kept] = arcs;
    return FOUND;
}

/* Puts the good paths of a lattice, composed with both models, into its place: a lattice of composition.c, whose states on
   no way to an end are gone. Returns 0, with the lattice sorted at most, where Python is to do it. */
int64_t nnet3_exchange(Lattice *lattice, const void *ngrams, const void *network, const void *options, int64_t max_arcs) {
    if (!lattice->states) return 1;
    if (nnet3_sort_upwards(lattice) == GIVE_UP) return 0;
    Search search = {.lattice = lattice, .ngrams = ngrams, .network = network, .options = options, .max_arcs = max_arcs};
    Lattice made = {.block = 0};
    int found = look_ahead(lattice, &search.ahead);
    if (found == FOUND) found = begin(&search);
    if (found == FOUND) found = found_lattice(&search, &made);
    for (int64_t number = 0; search.histories.known && number < search.histories.rows.count; number++)
        free(search.histories.known[number].values);
    free_rows(&search.pairs), free_rows(&search.ngram_histories), free_rows(&search.histories.rows);
    free(search.histories.known), free(search.states), free(search.arcs), free(search.queue);
    free(search.order), free(search.number), free(search.ahead.block);
    if (found == GIVE_UP) return free(made.block), 0;
    free(lattice->block);
    *lattice = made;
    return 1;
}
