/* Lattices by levels composed with language models (composition.c, rescoring.c), with their transition-ids. */

#include "labelled.h"
#include "word_models.h"

/* Models whose costs are added, one after the other; an n-gram model and an RNNLM that are exchanged then, or 0. */
typedef struct { const void *added; int64_t num_added; const void *ngrams, *network, *options; int64_t max_arcs; } Models;

static int64_t length_of(const int64_t *first, int64_t at) { return first[at + 1] - first[at]; }

/* Finds numbers of states and arcs, of ids of arcs and of ends. Returns 0 where Python is to do it: also for a lattice with
   arcs without labels, or several for a label. */
Lattice *nnet3_rescored(const Labelled *from, const Models *models, int64_t *sizes) {
    const Given given = {from->states, from->arcs, 0, from->first_arc, from->label, from->dst, from->graph, from->acoustic,
                         from->final_graph, from->final_acoustic};
    Lattice *made = nnet3_is_deterministic(&given) ? nnet3_compose(&given, models->added, models->num_added) : 0;
    if (!made) return 0;
    const int is_done = !models->network || nnet3_exchange(made, models->ngrams, models->network, models->options, models->max_arcs);
    if (!is_done || !nnet3_composed_levels(made)) return nnet3_composed_end(made, 0), (Lattice *)0;
    sizes[0] = made->states, sizes[1] = made->arcs, sizes[2] = sizes[3] = 0;
    for (int64_t arc = 0; arc < made->arcs; arc++) sizes[2] += length_of(from->first_id, made->arc[arc]);
    for (int64_t state = 0; state < made->states; state++)
        if (made->final[state] < INFINITY) sizes[3] += length_of(from->first_final_id, made->state[state]);
    made->from = from;
    return made;
}

static int64_t copied(const int64_t *first, const int32_t *ids, int64_t at, int32_t *to) {
    const int64_t count = length_of(first, at);
    if (count) memcpy(to, ids + first[at], (size_t)count * sizeof *to);
    return count;
}

/* Frees a lattice; before, copies to columns, if these are there: levels; sources, destinations and labels; costs of arcs and
   of ends; where ids of arcs begin, the ids; where those of ends begin, the ids. */
void nnet3_rescored_end(Lattice *lattice, void *const *columns) {
    if (columns) {
        const Labelled *from = lattice->from;
        const int64_t states = lattice->states, arcs = lattice->arcs;
        int64_t *src = columns[1], *first_id = columns[4], *first_final_id = columns[6], count = 0;
        int32_t *ids = columns[5], *final_ids = columns[7];
        double *costs = columns[2], *ends = columns[3];
        memcpy(columns[0], lattice->level, (size_t)states * sizeof *src);
        memcpy(src + arcs, lattice->dst, (size_t)arcs * sizeof *src);
        memcpy(src + 2 * arcs, lattice->label, (size_t)arcs * sizeof *src);
        memcpy(costs, lattice->graph, (size_t)arcs * sizeof *costs);
        memcpy(costs + arcs, lattice->acoustic, (size_t)arcs * sizeof *costs);
        for (int64_t state = 0; state < states; state++)
            for (int64_t arc = lattice->first_arc[state]; arc < lattice->first_arc[state + 1]; arc++) {
                src[arc] = state, first_id[arc] = count;
                count += copied(from->first_id, from->ids, lattice->arc[arc], ids + count);
            }
        first_id[arcs] = count, count = 0;
        for (int64_t state = 0; state < states; state++) {
            const int is_end = lattice->final[state] < INFINITY;
            ends[state] = lattice->final[state], ends[states + state] = is_end ? lattice->final_acoustic[state] : INFINITY;
            first_final_id[state] = count;
            if (is_end) count += copied(from->first_final_id, from->final_ids, lattice->state[state], final_ids + count);
        }
        first_final_id[states] = count;
    }
    nnet3_composed_end(lattice, 0);
}
