/* Lattices composed with language models, one model after another, breadth first.
   nnet3/speech/lattices/lattice_composition.py and cheapest_acceptor.py do the same, round alike, and are asked where this
   file gives up: without memory, for damaged models, and grammars with many arcs without words in a row. */

#include "word_models.h"

#define MOST_MEMBERS 16
#define SAME 1024.0     /* steps in a unit of cost: sets whose costs round to equal numbers of steps are one */
#define MOST_STEPS 1e18 /* that fit a number */

/* ---- grammars, of which a word takes the cheapest way: a state is a set of the grammar's states ---- */

typedef struct { const void *first_arc, *label, *dst, *cost, *final; int64_t states, start; } Grammar;

/* A state of the grammar, and how much worse it is than the best one. */
typedef struct { int64_t state; double cost; } Member;

typedef struct { int64_t count; Member of[MOST_MEMBERS]; } Members;

/* Lets a state belong to a set at a cost; says if that is cheaper than before. */
static int enter(Members *members, int64_t state, double cost) {
    int64_t at = 0;
    while (at < members->count && members->of[at].state != state) at++;
    if (at < members->count && !(cost < members->of[at].cost)) return ABSENT;
    if (at == MOST_MEMBERS) return GIVE_UP;
    members->of[at] = (Member){state, cost};
    if (at == members->count) members->count++;
    return FOUND;
}

/* Enters the destinations of a member's arcs with a label; says if some are cheaper than before. */
static int go_on(const Grammar *grammar, Member member, int64_t label, Members *members) {
    int64_t low = long_at(grammar->first_arc, member.state), is_cheaper = ABSENT;
    const int64_t end = long_at(grammar->first_arc, member.state + 1);
    for (int64_t high = end; low < high;) {
        const int64_t middle = low + (high - low) / 2;
        if (int_at(grammar->label, middle) < label) low = middle + 1;
        else high = middle;
    }
    for (; low < end && int_at(grammar->label, low) == label; low++) {
        const int found = enter(members, int_at(grammar->dst, low), member.cost + float_at(grammar->cost, low));
        if (found == GIVE_UP) return GIVE_UP;
        is_cheaper |= found;
    }
    return (int)is_cheaper;
}

/* Enters all states behind arcs without words. */
static int close_set(const Grammar *grammar, Members *members) {
    for (int is_cheaper = FOUND; is_cheaper;) {
        is_cheaper = ABSENT;
        for (int64_t at = 0; at < members->count; at++) {
            const int found = go_on(grammar, members->of[at], 0, members);
            if (found == GIVE_UP) return GIVE_UP;
            is_cheaper |= found;
        }
    }
    return FOUND;
}

/* ---- a model while a lattice is composed with it ---- */

enum { GRAMMAR, NGRAMS }; /* kinds, as native_composition.py has them */

typedef struct { int64_t kind; const void *table; double scale; } Model;

/* Rows: histories of an n-gram model; of a grammar the members of a set, states and rounded costs. */
typedef struct { Rows rows; Members *sets; int64_t room; } States;

static int number_set(States *states, Members *members, int64_t *number) {
    int64_t *row = new_row(&states->rows);
    if (!row) return GIVE_UP;
    for (int64_t at = 1; at < members->count; at++) {
        const Member own = members->of[at];
        int64_t before = at;
        for (; before && members->of[before - 1].state > own.state; before--) members->of[before] = members->of[before - 1];
        members->of[before] = own;
    }
    memset(row, 0, (size_t)states->rows.width * sizeof *row);
    for (int64_t at = 0; at < members->count; at++) {
        const double steps = members->of[at].cost * SAME;
        if (!(fabs(steps) < MOST_STEPS)) return GIVE_UP;
        row[2 * at] = members->of[at].state + 1, row[2 * at + 1] = (int64_t)nearbyint(steps);
    }
    const int64_t known = states->rows.count;
    *number = numbered(&states->rows);
    if (*number < known) return FOUND;
    if (*number >= states->room) {
        const int64_t room = more_room(states->room, *number + 1);
        if (!ROOM(states->sets, room)) return GIVE_UP;
        states->room = room;
    }
    states->sets[*number] = *members;
    return FOUND;
}

static int begin(const Model *model, States *states) {
    if (model->kind == NGRAMS) return nnet3_ngram_begin(model->table, &states->rows);
    const Grammar *grammar = model->table;
    Members start = {.count = grammar->states > 0, .of = {{grammar->start, 0.0}}};
    int64_t number;
    states->rows = (Rows){.width = 2 * MOST_MEMBERS, .compared = 2 * MOST_MEMBERS};
    return close_set(grammar, &start) == GIVE_UP ? GIVE_UP : number_set(states, &start, &number);
}

static int next_state(const Model *model, States *states, int64_t number, int64_t word, int64_t *next, float *cost) {
    if (model->kind == NGRAMS) return nnet3_ngram_next(model->table, &states->rows, number, word, next, cost);
    const Grammar *grammar = model->table;
    const Members before = states->sets[number];
    Members behind = {.count = 0};
    for (int64_t at = 0; at < before.count; at++)
        if (go_on(grammar, before.of[at], word, &behind) == GIVE_UP) return GIVE_UP;
    if (!behind.count) return ABSENT;
    if (close_set(grammar, &behind) == GIVE_UP) return GIVE_UP;
    double best = behind.of[0].cost;
    for (int64_t at = 1; at < behind.count; at++) best = fmin(best, behind.of[at].cost);
    for (int64_t at = 0; at < behind.count; at++) behind.of[at].cost -= best;
    *cost = (float)best;
    return number_set(states, &behind, next);
}

static int final_cost(const Model *model, const States *states, int64_t number, float *cost) {
    if (model->kind == NGRAMS) return nnet3_ngram_final(model->table, &states->rows, number, cost);
    const Grammar *grammar = model->table;
    const Members *members = states->sets + number;
    double best = INFINITY;
    for (int64_t at = 0; at < members->count; at++)
        best = fmin(best, members->of[at].cost + float_at(grammar->final, members->of[at].state));
    *cost = (float)best;
    return FOUND;
}

/* ---- lattices ---- */

int nnet3_make_lattice(Lattice *made, int64_t given, int64_t states, int64_t arcs) {
    int64_t *at = malloc((size_t)(5 * states + 5 * arcs + 1) * sizeof *at);
    if (!at) return GIVE_UP;
    *made = (Lattice){.given = given, .states = states, .arcs = arcs, .block = at};
    made->first_arc = at, at += states + 1, made->state = at, at += states, made->level = at, at += states;
    made->label = at, at += arcs, made->dst = at, at += arcs, made->arc = at, at += arcs;
    made->graph = (double *)at, made->acoustic = made->graph + arcs;
    made->final = made->acoustic + arcs, made->final_acoustic = made->final + states;
    return FOUND;
}

static int all_go_up(const Lattice *lattice) {
    for (int64_t state = 0; state < lattice->states; state++)
        for (int64_t arc = lattice->first_arc[state]; arc < lattice->first_arc[state + 1]; arc++)
            if (lattice->dst[arc] <= state) return 0;
    return 1;
}

/* Makes the lattice of some states, in order: number[s] of state s, from 0 on, or NONE. */
static int with_states(const Lattice *lattice, const int64_t *order, int64_t count, const int64_t *number, Lattice *made) {
    int64_t arcs = 0;
    for (int64_t arc = 0; arc < lattice->arcs; arc++) arcs += number[lattice->dst[arc]] != NONE;
    if (nnet3_make_lattice(made, lattice->given, count, arcs) == GIVE_UP) return GIVE_UP;
    arcs = 0;
    for (int64_t at = 0; at < count; at++) {
        const int64_t state = order[at];
        made->first_arc[at] = arcs, made->state[at] = lattice->state[state];
        made->level[at] = lattice->level[state], made->final[at] = lattice->final[state], made->final_acoustic[at] = lattice->final_acoustic[state];
        for (int64_t arc = lattice->first_arc[state]; arc < lattice->first_arc[state + 1]; arc++) {
            if (number[lattice->dst[arc]] == NONE) continue;
            made->label[arcs] = lattice->label[arc], made->dst[arcs] = number[lattice->dst[arc]];
            made->arc[arcs] = lattice->arc[arc];
            made->graph[arcs] = lattice->graph[arc], made->acoustic[arcs++] = lattice->acoustic[arc];
        }
    }
    made->first_arc[count] = arcs, made->arcs = arcs;
    return FOUND;
}

static int take_states(Lattice *lattice, const int64_t *order, int64_t count, const int64_t *number) {
    Lattice made;
    if (with_states(lattice, order, count, number, &made) == GIVE_UP) return GIVE_UP;
    free(lattice->block);
    *lattice = made;
    return FOUND;
}

int nnet3_sort_upwards(Lattice *lattice) {
    if (all_go_up(lattice)) return FOUND;
    const int64_t states = lattice->states;
    int64_t *path = malloc((size_t)(4 * states) * sizeof *path), depth = 0, left = states;
    if (!path) return GIVE_UP;
    int64_t *next = path + states, *order = next + states, *number = order + states;
    for (int64_t state = 0; state < states; state++) next[state] = lattice->first_arc[state], number[state] = NONE;
    path[depth++] = 0, number[0] = 0; /* it is seen */
    while (depth) {
        const int64_t state = path[depth - 1], arc = next[state]++;
        if (arc == lattice->first_arc[state + 1]) {
            number[state] = --left, order[left] = state, depth--;
        } else if (number[lattice->dst[arc]] == NONE) {
            path[depth++] = lattice->dst[arc], number[lattice->dst[arc]] = 0;
        }
    }
    const int found = take_states(lattice, order, states, number);
    free(path);
    return found;
}

/* Returns the states in an order in which arcs lead upwards, and room for as many numbers twice, or 0 without memory. */
static int64_t *upwards(const Lattice *lattice) {
    const int64_t states = lattice->states;
    int64_t *order = calloc((size_t)(3 * states + lattice->given + 1), sizeof *order), *begin_of = order + 3 * states;
    if (!order) return 0;
    for (int64_t state = 0; state < states; state++) begin_of[lattice->state[state] + 1]++;
    for (int64_t state = 0; state < lattice->given; state++) begin_of[state + 1] += begin_of[state];
    for (int64_t state = 0; state < states; state++) order[begin_of[lattice->state[state]]++] = state;
    return order;
}

/* Removes the states without a way to an end. */
static int connect(Lattice *lattice) {
    const int64_t states = lattice->states;
    int64_t *order = upwards(lattice), kept = 0;
    if (!order) return GIVE_UP;
    int64_t *number = order + states;
    for (int64_t at = states - 1; at >= 0; at--) {
        const int64_t state = order[at];
        int is_kept = lattice->final[state] < INFINITY;
        for (int64_t arc = lattice->first_arc[state]; arc < lattice->first_arc[state + 1]; arc++)
            is_kept |= number[lattice->dst[arc]] != NONE;
        number[state] = is_kept ? 0 : NONE;
    }
    for (int64_t state = 0; state < states; state++)
        if (number[state] != NONE) number[state] = kept, order[kept++] = state;
    const int found = kept == states ? FOUND : take_states(lattice, order, kept, number);
    free(order);
    return found;
}

/* Finds the states' levels, and sorts the states by level. Returns 0 without memory. */
int64_t nnet3_composed_levels(Lattice *lattice) {
    const int64_t states = lattice->states;
    int64_t *order = upwards(lattice), *level = lattice->level;
    if (!order) return 0;
    int64_t *number = order + states, *begin_of = number + states; /* a level has a state at least */
    for (int64_t state = 0; state < states; state++) level[state] = 0;
    for (int64_t at = 0; at < states; at++) {
        const int64_t state = order[at];
        for (int64_t arc = lattice->first_arc[state]; arc < lattice->first_arc[state + 1]; arc++)
            if (level[lattice->dst[arc]] <= level[state]) level[lattice->dst[arc]] = level[state] + 1;
    }
    for (int64_t state = 0; state < states; state++)
        if (level[state] + 1 < states) begin_of[level[state] + 1]++;
    for (int64_t each = 1; each < states; each++) begin_of[each] += begin_of[each - 1];
    for (int64_t state = 0; state < states; state++) number[state] = begin_of[level[state]]++, order[number[state]] = state;
    const int found = take_states(lattice, order, states, number);
    free(order);
    return found != GIVE_UP;
}

/* ---- composition ---- */

typedef struct { int64_t dst, arc; double graph; } Arc;

typedef struct { Rows pairs; States states; Arc *arcs; int64_t *first_arc, arcs_room, states_room, num_arcs; } Growing;

static int follow(Growing *growing, const Lattice *lattice, const Model *model, int64_t src, int64_t arc) {
    int64_t *made = new_row(&growing->pairs);
    if (!made) return GIVE_UP;
    float cost = 0;
    made[0] = lattice->dst[arc], made[1] = row_at(&growing->pairs, src)[1];
    if (lattice->label[arc]) {
        const int found = next_state(model, &growing->states, made[1], lattice->label[arc], &made[1], &cost);
        if (found != FOUND) return found;
        cost = product((float)model->scale, cost);
    }
    if (growing->num_arcs == growing->arcs_room) {
        const int64_t room = more_room(growing->arcs_room, growing->num_arcs + 1);
        if (!ROOM(growing->arcs, room)) return GIVE_UP;
        growing->arcs_room = room;
    }
    const float graph = (float)lattice->graph[arc] + cost;
    growing->arcs[growing->num_arcs++] = (Arc){numbered(&growing->pairs), arc, graph};
    return isfinite(graph) ? FOUND : GIVE_UP;
}

static int grow(Growing *growing, const Lattice *lattice, const Model *model, int64_t start) {
    growing->pairs = (Rows){.width = 2, .compared = 2};
    int64_t *first = new_row(&growing->pairs);
    if (!first || begin(model, &growing->states) == GIVE_UP) return GIVE_UP;
    first[0] = start, first[1] = 0, numbered(&growing->pairs);
    for (int64_t src = 0; src < growing->pairs.count; src++) {
        if (src == growing->states_room) {
            const int64_t room = more_room(growing->states_room, src + 1);
            if (!ROOM(growing->first_arc, room)) return GIVE_UP;
            growing->states_room = room;
        }
        growing->first_arc[src] = growing->num_arcs;
        const int64_t state = row_at(&growing->pairs, src)[0];
        for (int64_t arc = lattice->first_arc[state]; arc < lattice->first_arc[state + 1]; arc++)
            if (follow(growing, lattice, model, src, arc) == GIVE_UP) return GIVE_UP;
    }
    return FOUND;
}

/* Makes the lattice of what has grown. */
static int ripe(const Growing *growing, const Lattice *lattice, const Model *model, Lattice *made) {
    const int64_t states = growing->pairs.count, arcs = growing->num_arcs;
    if (nnet3_make_lattice(made, lattice->given, states, arcs) == GIVE_UP) return GIVE_UP;
    for (int64_t state = 0; state < states; state++) {
        const int64_t *pair = row_at(&growing->pairs, state);
        float cost = INFINITY;
        if (lattice->final[pair[0]] < INFINITY && final_cost(model, &growing->states, pair[1], &cost) == GIVE_UP) return GIVE_UP;
        if (cost < INFINITY) cost = (float)lattice->final[pair[0]] + product((float)model->scale, cost);
        made->first_arc[state] = growing->first_arc[state], made->state[state] = lattice->state[pair[0]];
        made->final[state] = cost, made->final_acoustic[state] = lattice->final_acoustic[pair[0]];
    }
    made->first_arc[states] = arcs;
    for (int64_t arc = 0; arc < arcs; arc++) {
        const Arc own = growing->arcs[arc];
        made->label[arc] = lattice->label[own.arc], made->dst[arc] = own.dst, made->arc[arc] = lattice->arc[own.arc];
        made->graph[arc] = own.graph, made->acoustic[arc] = lattice->acoustic[own.arc];
    }
    return FOUND;
}

/* Puts the composition with a model into the place of a lattice. */
static int add_model(Lattice *lattice, const Model *model, int64_t start) {
    Growing growing = {.num_arcs = 0};
    Lattice made = {.block = 0};
    int found = grow(&growing, lattice, model, start);
    if (found == FOUND) found = ripe(&growing, lattice, model, &made);
    if (found == FOUND) found = connect(&made);
    free_rows(&growing.pairs), free_rows(&growing.states.rows);
    free(growing.states.sets), free(growing.arcs), free(growing.first_arc);
    if (found == GIVE_UP) return free(made.block), GIVE_UP;
    free(lattice->block);
    *lattice = made;
    return FOUND;
}

static int take(const Given *given, Lattice *made) {
    if (nnet3_make_lattice(made, given->states, given->states, given->arcs) == GIVE_UP) return GIVE_UP;
    for (int64_t state = 0; state < given->states; state++) {
        made->first_arc[state] = given->first_arc[state], made->state[state] = state, made->level[state] = 0;
        made->final[state] = single(given->final[state]);
        made->final_acoustic[state] = single(given->final_acoustic[state]);
        for (int64_t arc = given->first_arc[state]; arc < given->first_arc[state + 1]; arc++) {
            if (given->dst[arc] <= state) return GIVE_UP;
            made->label[arc] = given->label[arc], made->dst[arc] = given->dst[arc], made->arc[arc] = arc;
            made->graph[arc] = single(given->graph[arc]), made->acoustic[arc] = single(given->acoustic[arc]);
        }
    }
    made->first_arc[given->states] = given->arcs;
    return FOUND;
}

/* Says if each arc has a label, and no two arcs of a state have the same. */
int64_t nnet3_is_deterministic(const Given *given) {
    int64_t *labels = malloc((size_t)(given->arcs + 1) * sizeof *labels), is_so = labels != 0;
    if (labels) memcpy(labels, given->label, (size_t)given->arcs * sizeof *labels);
    for (int64_t state = 0; state < given->states && is_so; state++) {
        const int64_t first = given->first_arc[state], end = given->first_arc[state + 1];
        qsort(labels + first, (size_t)(end - first), sizeof *labels, by_number);
        for (int64_t arc = first; arc < end; arc++) is_so &= labels[arc] > (arc == first ? 0 : labels[arc - 1]);
    }
    free(labels);
    return is_so;
}

/* Frees a lattice; before, copies to columns, if these are there: states, costs of ends; sources, destinations and arcs;
   costs of the graph. */
void nnet3_composed_end(Lattice *lattice, void *const *columns) {
    if (columns) {
        const size_t of_states = (size_t)lattice->states * sizeof(int64_t), of_arcs = (size_t)lattice->arcs * sizeof(int64_t);
        int64_t *src = columns[2];
        for (int64_t state = 0; state < lattice->states; state++)
            for (int64_t arc = lattice->first_arc[state]; arc < lattice->first_arc[state + 1]; arc++) src[arc] = state;
        memcpy(columns[0], lattice->state, of_states), memcpy(columns[1], lattice->final, of_states);
        memcpy(src + lattice->arcs, lattice->dst, of_arcs), memcpy(src + 2 * lattice->arcs, lattice->arc, of_arcs);
        memcpy(columns[3], lattice->graph, of_arcs);
    }
    free(lattice->block), free(lattice);
}

void nnet3_composed_sizes(const Lattice *lattice, int64_t *sizes) { sizes[0] = lattice->states, sizes[1] = lattice->arcs; }

/* Adds the costs of models to a lattice, one after the other; returns 0 where Python is to do it. */
Lattice *nnet3_compose(const Given *given, const void *models, int64_t count) {
    const Model *model = models;
    Lattice *lattice = calloc(1, sizeof *lattice);
    int found = lattice ? take(given, lattice) : GIVE_UP;
    for (int64_t at = 0; at < count && found == FOUND && lattice->states; at++)
        found = add_model(lattice, model + at, at ? 0 : given->start);
    if (found == FOUND) return lattice;
    if (lattice) nnet3_composed_end(lattice, 0);
    return 0;
}
