/* Determinization of lattices: of all paths with the same labels the best one alone, within a beam.
   nnet3/speech/lattices/determinizing.py does the same with NumPy, in the same order, and says what sets are. */

#include "columns.h"
#include "labelled.h"

#include <math.h>
#include <string.h>

#define NONE (-1)
#define COLUMNS 5 /* of pieces and of members, in the counts of memory */
#define NUMBERS_OF_ARC 5
#define NUMBERS_OF_SET 16
#define SAME 0.0009765625 /* costs this close are taken for equal */

enum { DONE, TOO_LARGE, NO_MEMORY };

typedef Labelled Lattice;

/* backward: what the best path from each state to an end costs. */
typedef struct { Lattice lattice; const double *backward; } Bounded;

/* Numbers that may be held, and numbers that may ever be held. */
typedef struct { double left, work; } Memory;

static int hold(Memory *memory, int64_t rows, int64_t columns) {
    memory->left -= (double)(rows * columns), memory->work -= (double)(rows * columns);
    return memory->left >= 0 && memory->work >= 0;
}

static void release(Memory *memory, int64_t rows, int64_t columns) { memory->left += (double)(rows * columns); }

static int check(Memory *memory, int64_t rows, int64_t columns) {
    const int fits = hold(memory, rows, columns);
    release(memory, rows, columns);
    return fits;
}

/* ---- strings of ids ---- */

typedef struct { int32_t *at; int64_t count, room; } Ids;

static int add_ids(Ids *ids, const int32_t *more, int64_t count) {
    if (ids->count + count > ids->room || !ids->at) {
        const int64_t room = more_room(ids->room, ids->count + count);
        if (!ROOM(ids->at, room)) return 0;
        ids->room = room;
    }
    if (count) memcpy(ids->at + ids->count, more, (size_t)count * sizeof *more);
    ids->count += count;
    return 1;
}

/* ---- rows of results: up to three numbers, two costs and a string ---- */

typedef struct {
    int64_t *numbers[3], *first_id;
    double *graph, *acoustic;
    Ids ids;
    int64_t count, room;
} Table;

/* Adds a row; its string is what was added to the ids since the row before. */
static int add_row(Table *table, int64_t a, int64_t b, int64_t c, double graph, double acoustic) {
    if (table->count + 1 >= table->room) {
        const int64_t room = more_room(table->room, table->count + 2);
        for (int column = 0; column < 3; column++)
            if (!ROOM(table->numbers[column], room)) return 0;
        if (!ROOM(table->first_id, room) || !ROOM(table->graph, room) || !ROOM(table->acoustic, room)) return 0;
        table->room = room;
    }
    const int64_t at = table->count++;
    table->numbers[0][at] = a, table->numbers[1][at] = b, table->numbers[2][at] = c;
    table->graph[at] = graph, table->acoustic[at] = acoustic;
    if (at == 0) table->first_id[0] = 0;
    table->first_id[at + 1] = table->ids.count;
    return 1;
}

static void free_table(Table *table) {
    for (int column = 0; column < 3; column++) free(table->numbers[column]);
    free(table->first_id), free(table->graph), free(table->acoustic), free(table->ids.at);
}

/* ---- leaps: the best ways without labels from entries to ends or to states with labels ahead ---- */

typedef struct { double cost, graph, acoustic; int64_t before, arc, length; } Piece; /* by state; length NONE: none */

typedef struct {
    Table table;      /* entry, state */
    int64_t *offsets; /* of the leaps from each state */
} Leaps;

static void push(int64_t *heap, int64_t *count, int64_t state) {
    int64_t at = (*count)++;
    for (; at > 0 && heap[(at - 1) / 2] > state; at = (at - 1) / 2) heap[at] = heap[(at - 1) / 2];
    heap[at] = state;
}

static int64_t pop(int64_t *heap, int64_t *count) {
    const int64_t least = heap[0], last = heap[--*count];
    int64_t at = 0;
    for (int64_t child = 1; child < *count; child = 2 * at + 1) {
        if (child + 1 < *count && heap[child + 1] < heap[child]) child++;
        if (heap[child] >= last) break;
        heap[at] = heap[child], at = child;
    }
    heap[at] = last;
    return least;
}

static int add_leap(const Lattice *lattice, Leaps *leaps, const Piece *pieces, int64_t entry, int64_t state) {
    Ids *ids = &leaps->table.ids;
    const int64_t end = ids->count + pieces[state].length;
    if (end > ids->room || !ids->at) {
        const int64_t room = more_room(ids->room, end);
        if (!ROOM(ids->at, room)) return 0;
        ids->room = room;
    }
    int32_t *at = ids->at + end;
    for (int64_t back = state; pieces[back].arc != NONE; back = pieces[back].before) {
        const int64_t first = lattice->first_id[pieces[back].arc], count = lattice->first_id[pieces[back].arc + 1] - first;
        at -= count;
        if (count) memcpy(at, lattice->ids + first, (size_t)count * sizeof *at);
    }
    ids->count = end;
    return add_row(&leaps->table, entry, state, 0, pieces[state].graph, pieces[state].acoustic);
}

/* The best ways from one entry. Counts of each level: pieces that arrive, that stay, and arcs that leave them. */
static int leap_from(const Lattice *lattice, int64_t entry, Leaps *leaps, Piece *pieces, int64_t *heap, int64_t *seen,
                     const int64_t *rank, int64_t (*counts)[3], double *work) {
    int64_t waiting = 0, num_seen = 0;
    pieces[entry] = (Piece){0.0, 0.0, 0.0, NONE, NONE, 0};
    push(heap, &waiting, entry);
    counts[rank[entry]][0]++;
    while (waiting) { /* states of lower levels have lower numbers */
        const int64_t state = pop(heap, &waiting);
        const Piece piece = pieces[state];
        seen[num_seen++] = state;
        int is_kept = nnet3_is_final(lattice, state);
        counts[rank[state]][1]++;
        for (int64_t arc = lattice->first_arc[state]; arc < lattice->first_arc[state + 1]; arc++) {
            if (lattice->label[arc]) {
                is_kept = 1;
                continue;
            }
            const int64_t dst = lattice->dst[arc];
            const double cost = piece.cost + (lattice->graph[arc] + lattice->acoustic[arc]);
            counts[rank[state]][2]++, counts[rank[dst]][0]++;
            *work -= 2 * COLUMNS;
            const int is_new = pieces[dst].length == NONE;
            if (!is_new && !(cost < pieces[dst].cost)) continue;
            if (is_new) push(heap, &waiting, dst);
            const int64_t length = piece.length + lattice->first_id[arc + 1] - lattice->first_id[arc];
            pieces[dst] = (Piece){cost, piece.graph + lattice->graph[arc], piece.acoustic + lattice->acoustic[arc],
                                  state, arc, length};
        }
        if (is_kept && !add_leap(lattice, leaps, pieces, entry, state)) return NO_MEMORY;
        if (*work < 0) return TOO_LARGE;
    }
    while (num_seen) pieces[seen[--num_seen]].length = NONE;
    return DONE;
}

static void free_leaps(Leaps *leaps) {
    if (!leaps) return;
    free_table(&leaps->table), free(leaps->offsets), free(leaps);
}

static Leaps *made_leaps(const Lattice *lattice, Memory *memory, int *status) {
    const int64_t states = lattice->states;
    Leaps *leaps = calloc(1, sizeof *leaps);
    char *is_entry = calloc((size_t)states + 1, 1);
    Piece *pieces = malloc((size_t)(states + 1) * sizeof *pieces);
    int64_t *heap = malloc((size_t)(2 * states + 1) * sizeof *heap), *rank = malloc((size_t)(states + 1) * sizeof *rank);
    int64_t(*counts)[3] = calloc((size_t)states + 1, sizeof *counts);
    *status = NO_MEMORY;
    if (leaps) leaps->offsets = calloc((size_t)states + 2, sizeof *leaps->offsets);
    if (!leaps || !leaps->offsets || !is_entry || !pieces || !heap || !rank || !counts) goto end;
    int64_t levels = 0, entries = 0;
    for (int64_t state = 0; state < states; state++) {
        levels += state && lattice->level[state] != lattice->level[state - 1];
        rank[state] = levels, pieces[state].length = NONE;
    }
    if (states) is_entry[0] = 1;
    for (int64_t arc = 0; arc < lattice->arcs; arc++)
        if (lattice->label[arc]) is_entry[lattice->dst[arc]] = 1;
    for (int64_t state = 0; state < states; state++) entries += is_entry[state];
    double work = memory->work - (double)(COLUMNS * entries);
    *status = work < 0 ? TOO_LARGE : DONE;
    for (int64_t state = 0; state < states && *status == DONE; state++) {
        if (is_entry[state]) *status = leap_from(lattice, state, leaps, pieces, heap, heap + states, rank, counts, &work);
        leaps->offsets[state + 1] = leaps->table.count;
    }
    if (*status != DONE) goto end;
    int fits = hold(memory, entries, COLUMNS);
    for (int64_t level = 0; level <= levels && fits; level++) {
        if (!counts[level][0]) continue;
        release(memory, counts[level][0] - counts[level][1], COLUMNS);
        fits = check(memory, counts[level][2], COLUMNS) && hold(memory, counts[level][2], COLUMNS);
    }
    *status = fits ? DONE : TOO_LARGE;
end:
    free(is_entry), free(pieces), free(heap), free(rank), free(counts);
    if (*status != DONE) free_leaps(leaps), leaps = 0;
    return leaps;
}

/* ---- sets ---- */

typedef struct { int64_t label, order, member, arc; double through; } Way;

/* level, best, ways, waiting: of sets with members that have labels ahead; waiting counts groups of ways not followed yet.
   target, rest, rest_end, rest_graph, rest_acoustic: of sets reached just behind a label: the set reached without labels from
   there, and what all ways there have in common. */
typedef struct {
    int64_t members, level, waiting, target, rest, rest_end;
    int64_t *state, *first_id;
    double *graph, *acoustic, best, rest_graph, rest_acoustic;
    int32_t *ids;
    Way *ways;
    void *block; /* all columns of members; 0: the members are gone */
} Set;

typedef struct { /* sets in a hash table */
    Set *sets;
    uint64_t *keys;
    int64_t *slots, count, room, num_slots;
} Family;

/* A state reached from a member of a set, and the string behind the member's. */
typedef struct { int64_t state, order, member, tail; double total, graph, acoustic; } Reached;

typedef struct { const int64_t *first_id; const int32_t *ids; } Tails;

/* The ways out of a set by one label. next: the group that waits at the same level. */
typedef struct { int64_t set, first, end, next; double best; } Group;

typedef struct { double best; int64_t group; } Turn;

typedef struct {
    Family made, behind; /* behind: just behind labels */
    const double *backward;
    Way *ways; /* of one set */
    Group *groups;
    Turn *turns; /* of the groups of one level */
    Reached *reached;
    int64_t *first, *first_id; /* the group that waits at each level; of the strings of reached states */
    int64_t room_of_ways, num_groups, room_of_groups, room_of_turns, room_of_reached;
    Ids whole, rest;  /* strings of reached states, and common to all ways from behind a label */
    Table arcs, ends; /* source, target, label; set */
} Sets;

static uint64_t mixed(uint64_t x) {
    x = (x + UINT64_C(0x9E3779B97F4A7C15));
    x = (x ^ x >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ x >> 27) * UINT64_C(0x94D049BB133111EB);
    return x ^ x >> 31;
}

/* Costs of members, beyond those of the best one, are close to those of a set with the same states and strings. */
static int is_close(const Set *set, const Reached *members, int64_t count, double graph, double acoustic) {
    for (int64_t m = 0; m < count; m++) {
        const double excess = (members[m].graph - graph) + (members[m].acoustic - acoustic);
        if (!(fabs(excess - (set->graph[m] + set->acoustic[m])) < SAME)) return 0;
    }
    return 1;
}

/* The first slot of a set close to some members, or an empty one. Sets whose members are gone are reached no more. */
static int64_t *slot_of(const Family *family, uint64_t key, const Reached *members, int64_t count, double graph,
                        double acoustic) {
    const uint64_t mask = (uint64_t)family->num_slots - 1;
    uint64_t slot = key & mask;
    for (; family->slots[slot]; slot = (slot + 1) & mask) {
        const Set *set = family->sets + family->slots[slot] - 1;
        if (count && family->keys[family->slots[slot] - 1] == key && set->block && set->members == count &&
            is_close(set, members, count, graph, acoustic))
            break;
    }
    return family->slots + slot;
}

static int enlarge(Family *family) {
    const int64_t room = more_room(0, 2 * family->room);
    if (!ROOM(family->sets, room) || !ROOM(family->keys, room)) return 0;
    int64_t *slots = calloc((size_t)(2 * room), sizeof *slots);
    if (!slots) return 0;
    free(family->slots);
    family->slots = slots, family->num_slots = 2 * room, family->room = room;
    for (int64_t set = 0; set < family->count; set++) *slot_of(family, family->keys[set], 0, 0, 0, 0) = set + 1;
    return 1;
}

/* Finds the set of some members, in order of their states, or makes it; the strings follow each other in `ids`, member m's
   from first_id[m] + skipped on. Returns NONE without memory. */
static int64_t entered(Family *family, const Reached *members, int64_t count, double graph, double acoustic,
                       const int64_t *first_id, const int32_t *ids, int64_t skipped) {
    uint64_t key = (uint64_t)count;
    int64_t length = 0;
    for (int64_t m = 0; m < count; m++) {
        key = mixed(key + (uint64_t)members[m].state);
        for (int64_t id = first_id[m] + skipped; id < first_id[m + 1]; id++, length++) key = mixed(key + (uint64_t)ids[id]);
        key = mixed(key ^ (uint64_t)(first_id[m + 1] - first_id[m] - skipped));
    }
    if (family->count == family->room && !enlarge(family)) return NONE;
    int64_t *slot = slot_of(family, key, members, count, graph, acoustic);
    if (*slot) return *slot - 1;
    const size_t bytes = (size_t)(4 * count + 1) * 8 + (size_t)length * 4;
    Set made = {.members = count, .block = malloc(bytes)};
    if (!made.block) return NONE;
    made.state = made.block, made.first_id = made.state + count;
    made.graph = (double *)(made.first_id + count + 1), made.acoustic = made.graph + count;
    made.ids = (int32_t *)(made.acoustic + count);
    made.first_id[0] = 0;
    for (int64_t m = 0; m < count; m++) {
        const int64_t own = first_id[m + 1] - first_id[m] - skipped;
        made.state[m] = members[m].state, made.first_id[m + 1] = made.first_id[m] + own;
        made.graph[m] = members[m].graph - graph, made.acoustic[m] = members[m].acoustic - acoustic;
        if (own) memcpy(made.ids + made.first_id[m], ids + first_id[m] + skipped, (size_t)own * sizeof *ids);
    }
    const int64_t number = family->count++;
    family->sets[number] = made, family->keys[number] = key, *slot = number + 1;
    return number;
}

/* Notes the level of a new set, which is its first member's, and its best path. Adds the numbers it holds to `held`. */
static void note_set(const Lattice *lattice, Set *set, double path, int64_t *held) {
    set->level = lattice->level[set->state[0]], set->best = path;
    held[0]++, held[1] += set->members, held[2] += set->first_id[set->members];
}

static int by_label(const void *a, const void *b) {
    const Way *x = a, *y = b;
    if (x->label != y->label) return x->label < y->label ? -1 : 1;
    return x->order < y->order ? -1 : 1;
}

static int by_turn(const void *a, const void *b) {
    const Turn *x = a, *y = b;
    if (x->best != y->best) return x->best < y->best ? -1 : 1;
    return x->group < y->group ? -1 : 1;
}

static int by_state(const void *a, const void *b) {
    const Reached *x = a, *y = b;
    if (x->state != y->state) return x->state < y->state ? -1 : 1;
    if (x->total != y->total) return x->total < y->total ? -1 : 1;
    if (x->graph != y->graph) return x->graph < y->graph ? -1 : 1; /* as in Kaldi */
    return x->order < y->order ? -1 : 1;
}

/* Ends a set that has a final member, at the cost of the best one. */
static int end_set(Sets *sets, const Lattice *lattice, int64_t number, double most) {
    const Set *set = sets->made.sets + number;
    double best = INFINITY, best_graph = 0, best_acoustic = 0;
    int64_t at = NONE;
    for (int64_t m = 0; m < set->members; m++) {
        if (!nnet3_is_final(lattice, set->state[m])) continue;
        const double graph = set->graph[m] + lattice->final_graph[set->state[m]];
        const double acoustic = set->acoustic[m] + lattice->final_acoustic[set->state[m]];
        if (at == NONE || graph + acoustic < best || (graph + acoustic == best && graph < best_graph))
            at = m, best = graph + acoustic, best_graph = graph, best_acoustic = acoustic;
    }
    if (at == NONE || !(set->best + best <= most)) return 1;
    const int64_t first = lattice->first_final_id[set->state[at]];
    const int64_t more = lattice->first_final_id[set->state[at] + 1] - first;
    return add_ids(&sets->ends.ids, set->ids + set->first_id[at], set->first_id[at + 1] - set->first_id[at]) &&
           add_ids(&sets->ends.ids, lattice->final_ids + first, more) &&
           add_row(&sets->ends, number, 0, 0, best_graph, best_acoustic);
}

/* Lets the good ways out of a set wait: a group is one label, and good if its best path is within the beam. It waits for the
   level of the set it leads to: `first_of_level` has the first state of each state's level. Returns the number of good ways,
   or NONE without memory. */
static int64_t add_ways(Sets *sets, const Lattice *lattice, const Leaps *leaps, const int64_t *first_of_level, int64_t number,
                        double most) {
    Set *set = sets->made.sets + number;
    int64_t count = 0, kept = 0;
    for (int64_t m = 0; m < set->members; m++) {
        const int64_t state = set->state[m], behind = lattice->first_arc[state + 1];
        for (int64_t arc = lattice->first_arc[state]; arc < behind; arc++) {
            const int64_t dst = lattice->dst[arc];
            if (!lattice->label[arc] || leaps->offsets[dst] == leaps->offsets[dst + 1]) continue;
            if (count == sets->room_of_ways) {
                const int64_t room = more_room(sets->room_of_ways, count + 1);
                if (!ROOM(sets->ways, room)) return NONE;
                sets->room_of_ways = room;
            }
            double through = set->best + set->graph[m] + set->acoustic[m];
            through += lattice->graph[arc] + lattice->acoustic[arc] + sets->backward[dst];
            sets->ways[count] = (Way){lattice->label[arc], count, m, arc, through};
            count++;
        }
    }
    if (!count) return 0;
    qsort(sets->ways, (size_t)count, sizeof *sets->ways, by_label);
    set->ways = malloc((size_t)count * sizeof *set->ways);
    if (!set->ways) return NONE;
    for (int64_t first = 0, behind; first < count; first = behind) {
        double best = sets->ways[first].through;
        int64_t state = lattice->states;
        for (behind = first; behind < count && sets->ways[behind].label == sets->ways[first].label; behind++) {
            const int64_t least = leaps->table.numbers[1][leaps->offsets[lattice->dst[sets->ways[behind].arc]]];
            if (least < state) state = least;
            if (sets->ways[behind].through < best) best = sets->ways[behind].through;
        }
        if (!(best <= most)) continue;
        if (sets->num_groups == sets->room_of_groups) {
            const int64_t room = more_room(sets->room_of_groups, sets->num_groups + 1);
            if (!ROOM(sets->groups, room)) return NONE;
            sets->room_of_groups = room;
        }
        memcpy(set->ways + kept, sets->ways + first, (size_t)(behind - first) * sizeof *sets->ways);
        int64_t *waiting = sets->first + first_of_level[state];
        sets->groups[sets->num_groups] = (Group){number, kept, kept + behind - first, *waiting, best};
        *waiting = sets->num_groups++;
        kept += behind - first, set->waiting++;
    }
    return kept;
}

static void free_members(Set *set) {
    free(set->block), free(set->ways);
    set->block = 0, set->ways = 0;
}

static int room_to_reach(Sets *sets, int64_t count) {
    if (count < sets->room_of_reached) return 1;
    const int64_t room = more_room(sets->room_of_reached, count + 1);
    if (!ROOM(sets->reached, room) || !ROOM(sets->first_id, room)) return 0;
    sets->room_of_reached = room;
    return 1;
}

/* Keeps the best of `count` reached rows for each state and writes their strings. Returns the number of rows, 0 without
   memory; `best` is the best row, `common` counts the ids that all begin with. */
static int64_t best_rows(Sets *sets, const Set *source, Tails tails, int64_t count, int64_t *best, int64_t *common) {
    Reached *reached = sets->reached;
    int64_t kept = 0, *first_id = sets->first_id;
    qsort(reached, (size_t)count, sizeof *reached, by_state);
    for (int64_t each = 0; each < count; each++)
        if (each == 0 || reached[each].state != reached[kept - 1].state) reached[kept++] = reached[each];
    Ids *whole = &sets->whole;
    whole->count = first_id[0] = *best = 0;
    for (int64_t m = 0; m < kept; m++) {
        const Reached row = reached[m], least = reached[*best];
        if (row.total < least.total || (row.total == least.total && row.graph < least.graph)) *best = m;
        const int64_t *own = source->first_id + row.member, *tail = tails.first_id + row.tail;
        if (!add_ids(whole, source->ids + own[0], own[1] - own[0]) || !add_ids(whole, tails.ids + tail[0], tail[1] - tail[0]))
            return 0;
        first_id[m + 1] = whole->count;
    }
    *common = first_id[1];
    for (int64_t m = 1; m < kept; m++) {
        const int64_t length = first_id[m + 1] - first_id[m];
        if (length < *common) *common = length;
        for (int64_t id = 0; id < *common; id++)
            if (whole->at[id] != whole->at[first_id[m] + id]) *common = id;
    }
    return kept;
}

/* Follows the ways without labels from a new set behind a label; `path` is the cost of the best path to the set. */
static int leap_on(Sets *sets, const Lattice *lattice, const Leaps *leaps, int64_t number, double path, int64_t *held) {
    const Set source = sets->behind.sets[number];
    int64_t count = 0, best, common;
    for (int64_t m = 0; m < source.members; m++) count += leaps->offsets[source.state[m] + 1] - leaps->offsets[source.state[m]];
    if (!room_to_reach(sets, count)) return 0;
    Reached *reached = sets->reached;
    count = 0;
    for (int64_t m = 0; m < source.members; m++)
        for (int64_t leap = leaps->offsets[source.state[m]]; leap < leaps->offsets[source.state[m] + 1]; leap++, count++) {
            const double graph = source.graph[m] + leaps->table.graph[leap];
            const double acoustic = source.acoustic[m] + leaps->table.acoustic[leap];
            reached[count] = (Reached){leaps->table.numbers[1][leap], count, m, leap, graph + acoustic, graph, acoustic};
        }
    count = best_rows(sets, &source, (Tails){leaps->table.first_id, leaps->table.ids.at}, count, &best, &common);
    if (!count) return 0;
    const Reached chosen = reached[best];
    const int64_t known = sets->made.count;
    const int64_t target =
        entered(&sets->made, reached, count, chosen.graph, chosen.acoustic, sets->first_id, sets->whole.at, common);
    Set *behind = sets->behind.sets + number;
    behind->target = target, behind->rest_graph = chosen.graph, behind->rest_acoustic = chosen.acoustic;
    behind->rest = sets->rest.count, behind->rest_end = behind->rest + common;
    if (target == known) note_set(lattice, sets->made.sets + target, path + chosen.total, held);
    return target != NONE && add_ids(&sets->rest, sets->whole.at + sets->first_id[best], common);
}

/* Follows one label from one set: to a set behind the label first, which may be close to a known one, as in Kaldi. */
static int follow(Sets *sets, const Lattice *lattice, const Leaps *leaps, const Group *group, int64_t *held) {
    const Set source = sets->made.sets[group->set];
    int64_t count = 0, best, common;
    if (!room_to_reach(sets, group->end - group->first)) return 0;
    Reached *reached = sets->reached;
    for (int64_t way = group->first; way < group->end; way++, count++) {
        const int64_t m = source.ways[way].member, arc = source.ways[way].arc;
        const double graph = source.graph[m] + lattice->graph[arc], acoustic = source.acoustic[m] + lattice->acoustic[arc];
        reached[count] = (Reached){lattice->dst[arc], count, m, arc, graph + acoustic, graph, acoustic};
    }
    count = best_rows(sets, &source, (Tails){lattice->first_id, lattice->ids}, count, &best, &common);
    if (!count) return 0;
    const Reached chosen = reached[best];
    const int64_t known = sets->behind.count;
    const int64_t number =
        entered(&sets->behind, reached, count, chosen.graph, chosen.acoustic, sets->first_id, sets->whole.at, common);
    if (number == NONE || !add_ids(&sets->arcs.ids, sets->whole.at + sets->first_id[best], common)) return 0;
    if (number == known && !leap_on(sets, lattice, leaps, number, source.best + chosen.total, held)) return 0;
    const Set *behind = sets->behind.sets + number;
    held[3]++;
    return add_ids(&sets->arcs.ids, sets->rest.at + behind->rest, behind->rest_end - behind->rest) &&
           add_row(&sets->arcs, group->set, behind->target, lattice->label[chosen.tail], chosen.graph + behind->rest_graph,
                   chosen.acoustic + behind->rest_acoustic);
}

/* Makes the sets from number `first` on into ends and into groups that wait. */
static int open_sets(Sets *sets, const Lattice *lattice, const Leaps *leaps, const int64_t *first_of_level, int64_t first,
                     double most, Memory *memory) {
    int64_t members = 0, ids = 0;
    for (int64_t set = first; set < sets->made.count; set++) {
        const int64_t more_ids = sets->made.sets[set].first_id[sets->made.sets[set].members];
        const int64_t more = end_set(sets, lattice, set, most) ? add_ways(sets, lattice, leaps, first_of_level, set, most) : NONE;
        if (more == NONE) return NO_MEMORY;
        members += sets->made.sets[set].members, ids += more_ids;
        if (!more) free_members(sets->made.sets + set);
    }
    release(memory, members + ids / 2, COLUMNS);
    return DONE;
}

/* Follows the groups that wait for one level, the best first, as Kaldi does: a set is close to many, and joins the first. */
static int take_level(Sets *sets, const Lattice *lattice, const Leaps *leaps, const int64_t *first_of_level, int64_t level,
                      double most, Memory *memory) {
    int64_t reached = 0, turns = 0, held[4] = {0};
    const int64_t known = sets->made.count, known_behind = sets->behind.count;
    for (int64_t number = sets->first[level]; number != NONE; number = sets->groups[number].next, turns++) {
        const Group *group = sets->groups + number;
        if (turns == sets->room_of_turns) {
            const int64_t room = more_room(sets->room_of_turns, turns + 1);
            if (!ROOM(sets->turns, room)) return NO_MEMORY;
            sets->room_of_turns = room;
        }
        sets->turns[turns] = (Turn){group->best, number};
        for (int64_t way = group->first; way < group->end; way++) {
            const int64_t dst = lattice->dst[sets->made.sets[group->set].ways[way].arc];
            reached += leaps->offsets[dst + 1] - leaps->offsets[dst];
        }
    }
    if (!check(memory, reached, 2 * COLUMNS)) return TOO_LARGE;
    if (turns) qsort(sets->turns, (size_t)turns, sizeof *sets->turns, by_turn); /* without turns there may be no memory */
    for (int64_t turn = 0; turn < turns; turn++) {
        const Group *group = sets->groups + sets->turns[turn].group;
        if (!follow(sets, lattice, leaps, group, held)) return NO_MEMORY;
        Set *source = sets->made.sets + group->set;
        if (!--source->waiting) free_members(source);
    }
    for (int64_t set = known_behind; set < sets->behind.count; set++) free_members(sets->behind.sets + set);
    sets->rest.count = 0;
    if (held[0] && !(hold(memory, held[1] + held[2] / 2, 1 + COLUMNS) && hold(memory, held[0], NUMBERS_OF_SET)))
        return TOO_LARGE;
    if (!hold(memory, held[3], NUMBERS_OF_ARC)) return TOO_LARGE;
    return open_sets(sets, lattice, leaps, first_of_level, known, most, memory);
}

static void free_family(Family *family) {
    for (int64_t set = 0; set < family->count; set++) free_members(family->sets + set);
    free(family->sets), free(family->slots), free(family->keys);
}

static void free_sets(Sets *sets) {
    if (!sets) return;
    free_family(&sets->made), free_family(&sets->behind);
    free(sets->ways), free(sets->groups), free(sets->turns), free(sets->reached), free(sets->first), free(sets->first_id);
    free(sets->whole.at), free(sets->rest.at);
    free_table(&sets->arcs), free_table(&sets->ends), free(sets);
}

/* Determinizes: paths that cost more than `most` are left out. `status` tells what happened; without success returns 0. */
Sets *nnet3_determinize(const Bounded *given, double most, Memory *memory, int64_t *status_of_all) {
    const Lattice *lattice = &given->lattice;
    const int64_t states = lattice->states;
    int status = DONE;
    Leaps *leaps = made_leaps(lattice, memory, &status);
    Sets *sets = leaps ? calloc(1, sizeof *sets) : 0;
    int64_t *first_of_level = sets ? malloc((size_t)(states + 1) * sizeof *first_of_level) : 0;
    if (sets) {
        sets->backward = given->backward;
        sets->first = malloc((size_t)(states + 1) * sizeof *sets->first);
        status = first_of_level && sets->first ? DONE : NO_MEMORY;
    } else if (leaps) {
        status = NO_MEMORY;
    }
    if (status == DONE) {
        for (int64_t state = 0; state < states; state++) {
            const int is_next = state && lattice->level[state] == lattice->level[state - 1];
            first_of_level[state] = is_next ? first_of_level[state - 1] : state;
            sets->first[state] = NONE;
        }
        const Table *table = &leaps->table;
        const int64_t count = states ? leaps->offsets[1] : 0;
        int64_t held[4] = {0};
        Reached *members = malloc((size_t)(count + 1) * sizeof *members);
        for (int64_t leap = 0; members && leap < count; leap++)
            members[leap] = (Reached){table->numbers[1][leap], 0, 0, 0, 0, table->graph[leap], table->acoustic[leap]};
        if (!members) status = NO_MEMORY;
        else if (count) {
            const int64_t start = entered(&sets->made, members, count, 0, 0, table->first_id, table->ids.at, 0);
            status = start == NONE ? NO_MEMORY : DONE;
            if (status == DONE) note_set(lattice, sets->made.sets, 0, held);
            if (!(hold(memory, held[1] + held[2] / 2, 1 + COLUMNS) && hold(memory, held[0], NUMBERS_OF_SET))) status = TOO_LARGE;
        }
        free(members);
        if (status == DONE) status = open_sets(sets, lattice, leaps, first_of_level, 0, most, memory);
    }
    for (int64_t state = 0; status == DONE && state < states; state++)
        if (sets->first[state] != NONE) status = take_level(sets, lattice, leaps, first_of_level, state, most, memory);
    free(first_of_level), free_leaps(leaps);
    if (status != DONE) free_sets(sets), sets = 0;
    *status_of_all = status;
    return sets;
}

/* ---- results ---- */

static void sizes_of(const Table *table, int64_t *sizes) { sizes[0] = table->count, sizes[1] = table->ids.count; }

/* Copies a table to columns: so many numbers, costs, first ids (one more), ids. Returns the column behind them. */
static void *const *give(const Table *table, int numbers, void *const *columns) {
    const size_t bytes = (size_t)table->count * 8;
    for (int column = 0; column < numbers; column++, columns++)
        if (bytes) memcpy(*columns, table->numbers[column], bytes);
    if (bytes) memcpy(columns[0], table->graph, bytes), memcpy(columns[1], table->acoustic, bytes);
    ((int64_t *)columns[2])[0] = 0;
    if (bytes) memcpy((int64_t *)columns[2] + 1, table->first_id + 1, bytes);
    if (table->ids.count) memcpy(columns[3], table->ids.at, (size_t)table->ids.count * 4);
    return columns + 4;
}

/* The numbers of sets; of arcs and their ids; of ends and their ids. */
void nnet3_sets_sizes(const Sets *sets, int64_t *sizes) {
    sizes[0] = sets->made.count, sizes_of(&sets->arcs, sizes + 1), sizes_of(&sets->ends, sizes + 3);
}

/* Copies levels of sets, arcs and ends to columns, unless these are 0. The sets are gone then. */
void nnet3_sets_end(Sets *sets, void *const *columns) {
    if (columns) {
        for (int64_t set = 0; set < sets->made.count; set++) ((int64_t *)columns[0])[set] = sets->made.sets[set].level;
        give(&sets->ends, 1, give(&sets->arcs, 3, columns + 1));
    }
    free_sets(sets);
}

Leaps *nnet3_leaps(const Lattice *lattice, Memory *memory, int64_t *status_of_all) {
    int status = DONE;
    Leaps *leaps = made_leaps(lattice, memory, &status);
    *status_of_all = status;
    return leaps;
}

void nnet3_leaps_sizes(const Leaps *leaps, int64_t *sizes) { sizes_of(&leaps->table, sizes); }

/* Copies entries and states, costs and ids to columns, unless these are 0. The leaps are gone then. */
void nnet3_leaps_end(Leaps *leaps, void *const *columns) {
    if (columns) give(&leaps->table, 2, columns);
    free_leaps(leaps);
}
