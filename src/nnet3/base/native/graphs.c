/* Decoding graphs in OpenFst's files: where the arcs of states begin, counted in words of four bytes, and whether the arcs
   can be followed. An arc is four words: labels of input and output, cost, next state. */

#include "columns.h"

#define STATE_WORDS 3 /* a final cost and a number of arcs, before the arcs of a state in a file of type vector */
#define ARC_WORDS 4

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
