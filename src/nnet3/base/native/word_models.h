/* Language models that are asked for arcs of words, and lattices whose costs they change: between ngrams.c, composition.c,
   rescoring.c and rescored.c. */

#ifndef NNET3_WORD_MODELS
#define NNET3_WORD_MODELS

#include "rows.h"

#include <math.h>

#define NONE (-1)
#define MOST_WORDS 16 /* of histories that are compared */

enum { GIVE_UP = -1, ABSENT, FOUND };

/* An n-gram model: const_arpa.py says how its arrays lie. */
typedef struct {
    const void *states, *unigrams, *overflow;
    int64_t num_states, num_unigrams, num_overflow, bos, eos, unk, width;
} Ngrams;

/* Begins histories: rows of what `nnet3_ngram_arc` writes before a history, by which rows are equal, and the history. */
int nnet3_ngram_begin(const Ngrams *model, Rows *histories);

/* Finds the cost of a word behind the history `number` and, if the word has an arc, the next history. */
int nnet3_ngram_next(const Ngrams *model, Rows *histories, int64_t number, int64_t word, int64_t *next, float *cost);

int nnet3_ngram_final(const Ngrams *model, const Rows *histories, int64_t number, float *cost);

/* A lattice, its arcs by source state. state, arc: those that each comes from in the lattice that was given, of `given`
   states, where arcs lead upwards. level: the number of arcs of the longest path, once it is asked for. */
typedef struct {
    int64_t given, states, arcs;
    int64_t *first_arc, *label, *dst, *state, *arc, *level;
    double *graph, *acoustic, *final, *final_acoustic;
    void *block;      /* in which all columns lie */
    const void *from; /* for rescored.c */
} Lattice;

int nnet3_make_lattice(Lattice *made, int64_t given, int64_t states, int64_t arcs);

/* Numbers the states so that arcs lead upwards, as OpenFst does, unless arcs already do. */
int nnet3_sort_upwards(Lattice *lattice);

/* A lattice, costs of which are rounded. */
typedef struct {
    int64_t states, arcs, start;
    const int64_t *first_arc, *label, *dst;
    const double *graph, *acoustic, *final, *final_acoustic;
} Given;

int64_t nnet3_is_deterministic(const Given *given);

Lattice *nnet3_compose(const Given *given, const void *models, int64_t count);

int64_t nnet3_exchange(Lattice *lattice, const void *ngrams, const void *network, const void *options, int64_t max_arcs);

int64_t nnet3_composed_levels(Lattice *lattice);

void nnet3_composed_end(Lattice *lattice, void *const *columns);

static inline double single(double value) { return (float)value; }

static inline float product(float scale, float value) {
    volatile float found = scale * value; /* which is rounded before it is added to another */
    return found;
}

#endif
