/* Decoding graphs in OpenFst's files: their symbols, where the arcs of states begin, counted in words of four bytes, whether
   the arcs can be followed, and the labels that states reach. An arc is four words: labels of input and output, cost, next
   state. */

#include "columns.h"

#define STATE_WORDS 3 /* a final cost and a number of arcs, before the arcs of a state in a file of type vector */
#define ARC_WORDS 4
#define CONST_WORDS 5 /* a final cost, the first arc, numbers of arcs and of two kinds of epsilons: a state of type const */
#define LEAST_SYMBOL 12 /* bytes: a length, and a label behind the text */

/* Finds the states `from` to `to` - 1 of a file of type vector: their first arcs and final costs. first[from] must be known
   unless it is that of the first state; first[to] is as if one more state followed. Says if all lie within the words. */
int64_t nnet3_vector_states(const int32_t *words, int64_t count, int64_t from, int64_t to, int64_t *first, float *final) {
    int64_t at = from ? first[from] - STATE_WORDS : 0;
    for (int64_t state = from; state < to; state++) {
        if (count - at < STATE_WORDS) return 0;
        final[state] = float_at(words, at);
        const int64_t arcs = (int64_t)((uint64_t)(uint32_t)int_at(words, at + 2) << 32 | (uint32_t)int_at(words, at + 1));
        at += STATE_WORDS;
        if (arcs < 0 || arcs > (count - at) / ARC_WORDS) return 0;
        first[state] = at, at += ARC_WORDS * arcs;
    }
    first[to] = at + STATE_WORDS;
    return 1;
}

/* Says if the arcs of the states `from` to `to` - 1 lead to one of all `states`, with labels from 0 on and finite costs.
   Raises `largest` to their largest label of input. */
int64_t nnet3_arcs_are_sound(const int32_t *words, const int64_t *first, int64_t from, int64_t to, int64_t states,
                             int64_t *largest) {
    int32_t most = (int32_t)*largest, least = 0, is_infinite = 0;
    for (int64_t state = from; state < to; state++)
        for (int64_t arc = first[state]; arc + ARC_WORDS <= first[state + 1]; arc += ARC_WORDS) {
            const int32_t input = int_at(words, arc), output = int_at(words, arc + 1), dst = int_at(words, arc + 3);
            const int32_t lowest = input < output ? input : output, dst_or_none = dst < states ? dst : -1;
            most = input > most ? input : most;
            least = lowest < least ? lowest : least, least = dst_or_none < least ? dst_or_none : least;
            is_infinite |= (int_at(words, arc + 2) & 0x7f800000) == 0x7f800000;
        }
    *largest = most;
    return least == 0 && !is_infinite;
}

/* Finds the final costs of so many states of type const, and their first arcs, of which first[0] is known. Says if each
   state has its arcs behind those of the state before. */
int64_t nnet3_const_states(int64_t count, const int32_t *states, int64_t *first, float *final) {
    for (int64_t state = 0, place = 0; state < count; state++, place += CONST_WORDS) {
        const uint32_t arcs = (uint32_t)int_at(states, place + 2);
        if (arcs && (uint32_t)int_at(states, place + 1) != first[state]) return 0;
        final[state] = float_at(states, place);
        first[state + 1] = first[state] + arcs;
    }
    return 1;
}

/* Reads the labels that states reach: for each state the number of intervals (two words), their begins and ends, and the
   number of labels. There is room for (count - 3 states) / 2 intervals. Returns how many words were read, -1 for damage. */
int64_t nnet3_intervals(int64_t count, int64_t states, const int32_t *words, int64_t *offsets, int32_t *begin, int32_t *end) {
    int64_t at = 0, found = 0;
    offsets[0] = 0;
    for (int64_t state = 0; state < states; state++) {
        const int64_t left = count - at - 3 * (states - state); /* beyond the counts of this state and all others */
        if (left < 0) return -1;
        const int64_t intervals = (uint32_t)int_at(words, at);
        if (int_at(words, at + 1) || intervals > left / 2) return -1;
        int64_t labels = 0;
        at += 2;
        for (const int64_t behind = at + 2 * intervals; at < behind; at += 2, found++) {
            begin[found] = int_at(words, at), end[found] = int_at(words, at + 1);
            if (begin[found] < 0 || end[found] < begin[found]) return -1;
            labels += end[found] - begin[found];
        }
        if (labels != int_at(words, at++)) return -1;
        offsets[state + 1] = found;
    }
    return at;
}

/* Finds where symbols begin in so many bytes, and the end of the last one, and their labels. Says if all lie within. */
int64_t nnet3_symbols(int64_t size, int64_t count, const char *bytes, int64_t *starts, int64_t *labels) {
    starts[0] = 0;
    for (int64_t symbol = 0; symbol < count; symbol++) {
        const int64_t left = size - starts[symbol] - LEAST_SYMBOL;
        if (left < 0) return 0;
        const int32_t length = int_at(bytes + starts[symbol], 0);
        if (length < 0 || length > left) return 0;
        starts[symbol + 1] = starts[symbol] + LEAST_SYMBOL + length;
        labels[symbol] = long_at(bytes + starts[symbol + 1] - sizeof *labels, 0);
    }
    return 1;
}
