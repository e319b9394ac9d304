/* Lattices of words whose arcs begin and end with the words' phones: follows all paths of a lattice, level by level.
   nnet3/speech/lattices/timed_lattice.py does the same with NumPy, in the same order, and says what nodes are. */

#include "alignment.h"

enum { DONE, MISFIT, NO_MEMORY };

typedef struct { int64_t first, count; } String; /* in `ids` or in `words` */

typedef struct { int64_t state; String ids, words; } Node;

typedef struct { int64_t number, taken; } Front; /* a node to expand, and the ids of its first word or phone */

/* arc: of the lattice, or behind those a state that ends. */
typedef struct { int64_t src, next, arc; Node node; } Arrival;

typedef struct { int64_t src, dst, arc; } Silent;

typedef struct { int64_t src, dst, label; String ids; } Spoken;

struct Alignment {
    const Given *given;
    int64_t silence, partial_word, most;
    Node *nodes;
    Arrival *arrivals;
    Silent *silent;
    Spoken *spoken;
    int32_t *ids;
    Front *front;
    int64_t *words, *last, *slots, *first, *newest, *row; /* arrivals by level; rows up to each state, the last one the end */
    int64_t num_nodes, num_arrivals, num_silent, num_spoken, num_ids, num_words, num_last, num_slots, num_front;
    int64_t room_of_nodes, room_of_arrivals, room_of_silent, room_of_spoken, room_of_ids, room_of_words, room_of_last,
        room_of_front;
    int64_t is_whole;
};

#define GROW(alignment, column, count, room, more)                                                                     \
    ((alignment)->count + (more) <= (alignment)->room ||                                                               \
     (ROOM((alignment)->column, more_room((alignment)->room, (alignment)->count + (more))) &&                          \
      ((alignment)->room = more_room((alignment)->room, (alignment)->count + (more)))))

/* ---- phones ---- */

/* Counts the ids of the first word, or of the first phone outside words; 0 where it may go on behind them. A phone ends with
   the transition to its last state and the self-loops, which follow it, of the state before. */
static int64_t first_unit(const Given *given, const int32_t *ids, int64_t count) {
    int64_t left = -1; /* the last transition that is no self-loop */
    int is_over = 0;
    for (int64_t at = 0; at < count; at++) {
        const int32_t id = ids[at];
        const int is_loop = given->is_self_loop[id], goes_on = is_loop && given->state_of_id[id] == given->state_of_id[ids[left < 0 ? 0 : left]];
        if (at && is_over && !goes_on && !given->is_inside[ids[0]] && !(given->is_inside[id] && given->begins_word[ids[0]]))
            return at;
        if (!is_loop) left = at;
        is_over = left >= 0 && given->ends_phone[ids[left]] && (left == at || goes_on);
    }
    return 0;
}

static int are_over(const Given *given, const int32_t *ids, int64_t count) {
    while (count && given->is_self_loop[ids[count - 1]]) count--;
    return count && given->ends_phone[ids[count - 1]];
}

/* ---- nodes ---- */

static uint64_t mixed(uint64_t hash, uint64_t value) {
    hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 32;
}

static int64_t *slot_of(const Alignment *alignment, const Node *node) {
    const int32_t *ids = alignment->ids + node->ids.first;
    const int64_t *words = alignment->words + node->words.first;
    uint64_t hash = mixed(mixed((uint64_t)node->state, (uint64_t)node->ids.count), (uint64_t)node->words.count);
    for (int64_t at = 0; at < node->ids.count; at++) hash = mixed(hash, (uint64_t)ids[at]);
    for (int64_t at = 0; at < node->words.count; at++) hash = mixed(hash, (uint64_t)words[at]);
    int64_t at = (int64_t)(hash & (uint64_t)(alignment->num_slots - 1));
    for (; alignment->slots[at]; at = (at + 1) & (alignment->num_slots - 1)) {
        const Node *other = alignment->nodes + alignment->slots[at] - 1;
        if (other->state == node->state && other->ids.count == node->ids.count && other->words.count == node->words.count &&
            (!node->ids.count || !memcmp(alignment->ids + other->ids.first, ids, (size_t)node->ids.count * sizeof *ids)) &&
            (!node->words.count || !memcmp(alignment->words + other->words.first, words, (size_t)node->words.count * sizeof *words)))
            break;
    }
    return alignment->slots + at;
}

/* Finds the number of a node, a new number for a new node. */
static int number_of(Alignment *alignment, Node node, int64_t *number) {
    if (2 * alignment->num_nodes >= alignment->num_slots) {
        const int64_t slots = 2 * more_room(0, alignment->num_slots);
        free(alignment->slots);
        alignment->slots = calloc((size_t)slots, sizeof *alignment->slots), alignment->num_slots = slots;
        if (!alignment->slots) return NO_MEMORY;
        for (int64_t each = 0; each < alignment->num_nodes; each++) *slot_of(alignment, alignment->nodes + each) = each + 1;
    }
    int64_t *slot = slot_of(alignment, &node);
    *number = *slot - 1;
    if (*slot) return DONE;
    if (!GROW(alignment, nodes, num_nodes, room_of_nodes, 1)) return NO_MEMORY;
    *number = alignment->num_nodes, alignment->nodes[alignment->num_nodes++] = node, *slot = alignment->num_nodes;
    return alignment->num_nodes > alignment->most ? MISFIT : DONE;
}

/* Puts a node into the front. A word is taken where one waits. */
static int push(Alignment *alignment, int64_t number) {
    const Given *given = alignment->given;
    const Node *node = alignment->nodes + number;
    if (!GROW(alignment, front, num_front, room_of_front, 1)) return NO_MEMORY;
    int64_t taken = 0;
    if (node->ids.count) {
        const int32_t *ids = alignment->ids + node->ids.first;
        if (node->words.count || !given->begins_word[ids[0]]) taken = first_unit(given, ids, node->ids.count);
    }
    alignment->front[alignment->num_front++] = (Front){number, taken};
    return DONE;
}

/* Lets an arc with a label and the first `taken` ids lead from a node to the node without them and, if the label is a word,
   without its first word. */
static int speak(Alignment *alignment, int64_t src, int64_t label, int64_t taken, int64_t num_words, int64_t *dst) {
    Node node = alignment->nodes[src];
    const String own = {node.ids.first, taken};
    node.ids.first += taken, node.ids.count -= taken, node.words.first += num_words, node.words.count -= num_words;
    const int status = number_of(alignment, node, dst);
    if (status != DONE) return status;
    if (!GROW(alignment, spoken, num_spoken, room_of_spoken, 1)) return NO_MEMORY;
    alignment->spoken[alignment->num_spoken++] = (Spoken){src, *dst, label, own};
    return DONE;
}

/* Ends a path, the last word or phone of which may be cut off: all ids go to one arc. */
static int end_path(Alignment *alignment, int64_t number) {
    const Given *given = alignment->given;
    const Node node = alignment->nodes[number];
    int64_t end = number;
    if (!node.ids.count) {
        alignment->is_whole &= !node.words.count;
    } else {
        const int32_t *ids = alignment->ids + node.ids.first, last = ids[node.ids.count - 1];
        const int is_inside = given->is_inside[ids[0]], is_word = is_inside || given->begins_word[ids[0]];
        const int is_part = !node.words.count && is_word;
        const int is_cut = (is_word && !given->ends_word[last]) || !are_over(given, ids, node.ids.count);
        int64_t label = node.words.count ? alignment->words[node.words.first] : alignment->silence;
        if (is_part) label = alignment->partial_word;
        alignment->is_whole &= !(is_part || is_inside || is_cut);
        const int status = speak(alignment, number, label, node.ids.count, node.words.count, &end);
        if (status != DONE) return status;
    }
    if (!GROW(alignment, last, num_last, room_of_last, 1)) return NO_MEMORY;
    alignment->last[alignment->num_last++] = end;
    return DONE;
}

/* Lets a node go on along an arc, which has a label and ids, to a state. */
static int step(Alignment *alignment, int64_t number, int64_t arc, int64_t dst, int64_t label, const int32_t *ids, int64_t more) {
    const Labelled *lattice = &alignment->given->lattice;
    const Node node = alignment->nodes[number];
    Node next = {dst, node.ids, node.words};
    if (more) {
        if (!GROW(alignment, ids, num_ids, room_of_ids, node.ids.count + more)) return NO_MEMORY;
        int32_t *to = alignment->ids + alignment->num_ids;
        if (node.ids.count) memcpy(to, alignment->ids + node.ids.first, (size_t)node.ids.count * sizeof *to);
        memcpy(to + node.ids.count, ids, (size_t)more * sizeof *to);
        next.ids = (String){alignment->num_ids, node.ids.count + more}, alignment->num_ids += next.ids.count;
    }
    if (label) {
        if (!GROW(alignment, words, num_words, room_of_words, node.words.count + 1)) return NO_MEMORY;
        int64_t *to = alignment->words + alignment->num_words;
        if (node.words.count) memcpy(to, alignment->words + node.words.first, (size_t)node.words.count * sizeof *to);
        to[node.words.count] = label;
        next.words = (String){alignment->num_words, node.words.count + 1}, alignment->num_words += next.words.count;
    }
    if (!GROW(alignment, arrivals, num_arrivals, room_of_arrivals, 1)) return NO_MEMORY;
    const int is_end = dst == lattice->states;
    const int64_t own = alignment->num_arrivals++, level = is_end ? lattice->level[dst - 1] + 1 : lattice->level[dst];
    alignment->arrivals[own] = (Arrival){number, 0, arc, next};
    if (alignment->first[level]) alignment->arrivals[alignment->newest[level] - 1].next = own + 1;
    else alignment->first[level] = own + 1;
    alignment->newest[level] = own + 1;
    return DONE;
}

/* Lets a node go on along the arcs of the lattice, and end. */
static int go_on(Alignment *alignment, int64_t number) {
    const Labelled *lattice = &alignment->given->lattice;
    const int64_t state = alignment->nodes[number].state;
    int status = DONE;
    for (int64_t arc = lattice->first_arc[state]; arc < lattice->first_arc[state + 1] && status == DONE; arc++) {
        const int64_t first = lattice->first_id[arc], count = lattice->first_id[arc + 1] - first;
        status = step(alignment, number, arc, lattice->dst[arc], lattice->label[arc], lattice->ids + first, count);
    }
    if (status != DONE || !nnet3_is_final(lattice, state)) return status;
    const int64_t first = lattice->first_final_id[state], count = lattice->first_final_id[state + 1] - first;
    return step(alignment, number, lattice->arcs + state, lattice->states, 0, lattice->final_ids + first, count);
}

/* ---- paths ---- */

/* Lets the nodes of the front go on or end that have nothing to take; takes words and silence off the others. */
static int expand(Alignment *alignment) {
    const Given *given = alignment->given;
    int status = DONE;
    for (int64_t begin = 0, end = alignment->num_front; begin < end; begin = end, end = alignment->num_front) {
        for (int64_t at = begin; at < end && status == DONE; at++) {
            const Front own = alignment->front[at];
            if (own.taken) continue;
            const int is_end = alignment->nodes[own.number].state == given->lattice.states;
            status = is_end ? end_path(alignment, own.number) : go_on(alignment, own.number);
        }
        for (int64_t at = begin; at < end && status == DONE; at++) {
            const Front own = alignment->front[at];
            if (!own.taken) continue;
            const Node node = alignment->nodes[own.number];
            const int is_word = given->begins_word[alignment->ids[node.ids.first]];
            const int64_t label = is_word ? alignment->words[node.words.first] : alignment->silence, known = alignment->num_nodes;
            int64_t dst;
            status = speak(alignment, own.number, label, own.taken, is_word, &dst);
            if (status == DONE && dst == known) status = push(alignment, dst);
        }
        if (status != DONE) return status;
    }
    alignment->num_front = 0;
    return DONE;
}

/* Counts the rows up to each state. */
static void count_rows(const Labelled *lattice, int64_t *row) {
    int64_t *last = row + lattice->states;
    for (int64_t state = 0; state < lattice->states; state++) {
        for (int64_t arc = lattice->first_arc[state]; arc < lattice->first_arc[state + 1]; arc++)
            row[lattice->dst[arc]] = row[state] + lattice->first_id[arc + 1] - lattice->first_id[arc];
        const int64_t end = row[state] + lattice->first_final_id[state + 1] - lattice->first_final_id[state];
        if (nnet3_is_final(lattice, state) && end > *last) *last = end;
    }
}

static int follow(Alignment *alignment) {
    const Labelled *lattice = &alignment->given->lattice;
    const int64_t states = lattice->states, levels = states ? lattice->level[states - 1] + 2 : 1;
    alignment->first = calloc((size_t)(2 * levels + states + 1), sizeof *alignment->first);
    if (!alignment->first) return NO_MEMORY;
    alignment->newest = alignment->first + levels, alignment->row = alignment->newest + levels;
    count_rows(lattice, alignment->row);
    int64_t number;
    int status = number_of(alignment, (Node){.state = 0}, &number);
    if (status == DONE) status = push(alignment, number);
    if (status == DONE) status = expand(alignment);
    for (int64_t level = 0; level < levels && status == DONE; level++) {
        for (int64_t next = alignment->first[level]; next && status == DONE; next = alignment->arrivals[next - 1].next) {
            const Arrival own = alignment->arrivals[next - 1];
            const int64_t known = alignment->num_nodes;
            status = number_of(alignment, own.node, &number);
            if (status == DONE && number == known) status = push(alignment, number);
            if (status == DONE && !GROW(alignment, silent, num_silent, room_of_silent, 1)) status = NO_MEMORY;
            if (status == DONE) alignment->silent[alignment->num_silent++] = (Silent){own.src, number, own.arc};
        }
        if (status == DONE) status = expand(alignment);
    }
    return status;
}

/* Frees an alignment; before, copies to columns, if these are there: rows of nodes; sources and destinations of silent arcs,
   their costs; sources, destinations and labels of others, where their ids begin, ids; nodes where paths end. */
void nnet3_aligned_end(Alignment *alignment, void *const *columns) {
    if (columns) {
        const Labelled *lattice = &alignment->given->lattice;
        const int64_t silent = alignment->num_silent, spoken = alignment->num_spoken;
        int64_t *rows = columns[0], *steps = columns[1], *words = columns[3], *first_id = columns[4], count = 0;
        double *costs = columns[2];
        int32_t *ids = columns[5];
        for (int64_t each = 0; each < alignment->num_nodes; each++)
            rows[each] = alignment->row[alignment->nodes[each].state] - alignment->nodes[each].ids.count;
        for (int64_t each = 0; each < silent; each++) {
            const Silent own = alignment->silent[each];
            steps[each] = own.src, steps[silent + each] = own.dst;
            const int64_t end = own.arc - lattice->arcs;
            costs[each] = end < 0 ? lattice->graph[own.arc] : lattice->final_graph[end];
            costs[silent + each] = end < 0 ? lattice->acoustic[own.arc] : lattice->final_acoustic[end];
        }
        for (int64_t each = 0; each < spoken; each++) {
            const Spoken own = alignment->spoken[each];
            words[each] = own.src, words[spoken + each] = own.dst, words[2 * spoken + each] = own.label;
            first_id[each] = count;
            for (int64_t id = 0; id < own.ids.count; id++) ids[count++] = alignment->ids[own.ids.first + id];
        }
        first_id[spoken] = count;
        if (alignment->num_last) memcpy(columns[6], alignment->last, (size_t)alignment->num_last * sizeof(int64_t));
    }
    free(alignment->nodes), free(alignment->arrivals), free(alignment->silent), free(alignment->spoken), free(alignment->ids);
    free(alignment->words), free(alignment->last), free(alignment->slots), free(alignment->front), free(alignment->first);
    free(alignment);
}

/* Follows all paths; returns 0 unless the status is that of success. */
Alignment *nnet3_align(const Given *given, int64_t silence, int64_t partial_word, int64_t most, int64_t *status) {
    Alignment *alignment = calloc(1, sizeof *alignment);
    *status = NO_MEMORY;
    if (!alignment) return 0;
    alignment->given = given, alignment->is_whole = 1;
    alignment->silence = silence, alignment->partial_word = partial_word, alignment->most = most;
    *status = follow(alignment);
    if (*status == DONE) return alignment;
    nnet3_aligned_end(alignment, 0);
    return 0;
}

/* Nodes, silent arcs, other arcs and their ids, nodes where paths end; whether all paths end with a whole word or silence. */
void nnet3_aligned_sizes(const Alignment *alignment, int64_t *sizes) {
    sizes[0] = alignment->num_nodes, sizes[1] = alignment->num_silent, sizes[2] = alignment->num_spoken, sizes[3] = 0;
    for (int64_t each = 0; each < alignment->num_spoken; each++) sizes[3] += alignment->spoken[each].ids.count;
    sizes[4] = alignment->num_last, sizes[5] = alignment->is_whole;
}
