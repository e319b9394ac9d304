/* Look-up of words in n-gram models. const_arpa_acceptor.py of nnet3/speech/language_models does the same, and is asked where
   this file gives up: without memory, for damaged models and longer histories. */

#include "word_models.h"

#define HEAD 3     /* numbers of an n-gram state before its children */
#define START (-2) /* in the row of <s> that begins no n-grams */

static int64_t offset_at(const void *offsets, int64_t at) { /* they are stored as one more */
    return (int64_t)((uint64_t)long_at(offsets, at) - 1);
}

static int64_t unigram(const Ngrams *model, int64_t word) {
    return 0 < word && word < model->num_unigrams ? offset_at(model->unigrams, word) : NONE;
}

static int real(const Ngrams *model, int64_t offset, float *value) {
    if (offset < 0 || offset >= model->num_states) return GIVE_UP;
    *value = float_at(model->states, offset);
    return *value < INFINITY ? FOUND : GIVE_UP;
}

static int64_t num_children(const Ngrams *model, int64_t state) { /* or GIVE_UP */
    if (state < 0 || state > model->num_states - HEAD) return GIVE_UP;
    const int64_t size = int_at(model->states, state + HEAD - 1);
    return 0 <= size && 2 * size <= model->num_states - HEAD - state ? size : GIVE_UP;
}

static int child(const Ngrams *model, int64_t state, int64_t word, float *log_prob, int64_t *inner) {
    const int64_t size = num_children(model, state);
    if (size == GIVE_UP) return GIVE_UP;
    const int64_t first = state + HEAD;
    int64_t low = 0, high = size;
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (int_at(model->states, first + 2 * middle) < word) low = middle + 1;
        else high = middle;
    }
    const int64_t offset = first + 2 * low;
    *inner = NONE;
    if (low == size || int_at(model->states, offset) != word) return ABSENT;
    const int64_t info = int_at(model->states, offset + 1), far = -info / 2;
    if (info % 2 == 0) return real(model, offset + 1, log_prob);
    if (info <= 1 && far >= model->num_overflow) return GIVE_UP;
    *inner = info > 1 ? state + info / 2 : offset_at(model->overflow, far);
    return real(model, *inner, log_prob);
}

static int find(const Ngrams *model, const int64_t *words, int64_t count, int64_t *state) {
    *state = unigram(model, words[0]);
    for (int64_t k = 1; k < count && *state != NONE; k++) {
        float log_prob;
        if (child(model, *state, words[k], &log_prob, state) == GIVE_UP) return GIVE_UP;
    }
    return *state == NONE ? ABSENT : FOUND;
}

/* `history`: the model's width, zeros before its first word. */
static int ngram_log_prob(const Ngrams *model, const int64_t *history, int64_t word, float *log_prob) {
    int64_t known[MOST_WORDS + 1], state = NONE, count = 0, num_back_offs = 0;
    float back_offs[MOST_WORDS];
    if (model->width > MOST_WORDS) return GIVE_UP;
    for (int64_t k = 0; k <= model->width; k++) {
        const int64_t each = k < model->width ? history[k] : word;
        if (k < model->width && !each) continue;
        known[count++] = model->unk != NONE && unigram(model, each) == NONE ? model->unk : each;
    }
    const int64_t last = known[--count];
    state = unigram(model, last), *log_prob = -INFINITY;
    if (state != NONE && real(model, state, log_prob) == GIVE_UP) return GIVE_UP;
    for (int64_t first = 0; first < count; first++) {
        const int is_there = find(model, known + first, count - first, &state);
        if (is_there == ABSENT) continue;
        int64_t inner;
        float own;
        const int found = is_there == GIVE_UP ? GIVE_UP : child(model, state, last, &own, &inner);
        if (found == GIVE_UP) return GIVE_UP;
        if (found == FOUND) {
            *log_prob = own;
            break;
        }
        if (real(model, state + 1, &back_offs[num_back_offs++]) == GIVE_UP) return GIVE_UP;
    }
    while (num_back_offs) *log_prob = back_offs[--num_back_offs] + *log_prob;
    return FOUND;
}

/* Finds the longest end of a history that begins longer n-grams, and puts zeros before; returns one more than the offset
   of its state, 0 for the empty end, or GIVE_UP. */
static int64_t shorten(const Ngrams *model, int64_t *history) {
    for (int64_t first = 0, state; first < model->width; history[first++] = 0) {
        const int found = history[first] ? find(model, history + first, model->width - first, &state) : ABSENT;
        const int64_t size = found == FOUND ? num_children(model, state) : 0;
        if (found == GIVE_UP || size == GIVE_UP) return GIVE_UP;
        if (size > 0) return state + 1;
    }
    return 0;
}

/* Looks up a word after a history, which becomes that behind the word; writes what `shorten` returns before it. */
int64_t nnet3_ngram_arc(const Ngrams *model, int64_t *row, int64_t word, float *cost) {
    int64_t *history = row + 1;
    if (ngram_log_prob(model, history, word, cost) == GIVE_UP) return GIVE_UP;
    if (*cost == -INFINITY) return ABSENT;
    for (int64_t k = 0; k < model->width; k++) history[k] = k + 1 < model->width ? history[k + 1] : word;
    row[0] = shorten(model, history), *cost = -*cost;
    return row[0] == GIVE_UP ? GIVE_UP : FOUND;
}

int nnet3_ngram_begin(const Ngrams *model, Rows *histories) {
    *histories = (Rows){.width = model->width + 1, .compared = 1};
    int64_t *start = new_row(histories);
    if (!start) return GIVE_UP;
    memset(start, 0, (size_t)histories->width * sizeof *start);
    if (model->width) start[model->width] = model->bos;
    if ((start[0] = shorten(model, start + 1)) == GIVE_UP) return GIVE_UP;
    if (!start[0]) {
        start[0] = START;
        if (model->width) start[model->width] = model->bos;
    }
    numbered(histories);
    return FOUND;
}

int nnet3_ngram_next(const Ngrams *model, Rows *histories, int64_t number, int64_t word, int64_t *next, float *cost) {
    int64_t *made = new_row(histories);
    if (!made) return GIVE_UP;
    memcpy(made, row_at(histories, number), (size_t)histories->width * sizeof *made);
    const int found = (int)nnet3_ngram_arc(model, made, word, cost);
    if (found == FOUND) *next = numbered(histories);
    return found;
}

int nnet3_ngram_final(const Ngrams *model, const Rows *histories, int64_t number, float *cost) {
    const int found = ngram_log_prob(model, row_at(histories, number) + 1, model->eos, cost);
    *cost = -*cost;
    return found;
}
