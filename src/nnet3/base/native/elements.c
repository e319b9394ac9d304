/* Arithmetic on elements of a finite field: the instructions that nnet3/ir/proof/recording.py writes, and the loop that
   runs a program of them. nnet3/ir/proof/field.py does the same with NumPy, and says what it is for.

   An element is two numbers below the prime 2^31 - 1, in the halves of 64 bits. An instruction has a result and up to two
   operands: rows and blocks, which lie of_row and of_block elements apart (0: each is the same one). Operands lie in one
   of some spaces, or where an operand of the command lies, for which the instructions were written once. */

#include <stdint.h>

#define PRIME UINT64_C(0x7FFFFFFF)
#define OPERANDS 3
#define SPACES 5 /* constants, what is drawn, elements for numbers of rows, scratch memory, memory */

typedef struct {
    int64_t code, rows, blocks, inner;
    int64_t space[OPERANDS], at[OPERANDS], of_row[OPERANDS], of_block[OPERANDS];
    int64_t table; /* where that begins */
} Instruction;

enum { NNET3_INSTRUCTIONS }; /* COPY, ADD, ...: nnet3/native/codes.py */

typedef uint64_t Element;

static inline uint64_t low(Element x) { return x & UINT64_C(0xFFFFFFFF); }

static inline uint64_t high(Element x) { return x >> 32; }

static inline uint64_t below_prime(uint64_t x) { return x >= PRIME ? x - PRIME : x; } /* x < 2 PRIME */

static inline uint64_t folded(uint64_t x) { return (x & PRIME) + (x >> 31); } /* the same modulo the prime */

static inline uint64_t reduced(uint64_t x) { return below_prime(folded(folded(x))); }

static inline Element added(Element x, Element y) {
    const Element sum = x + y; /* the halves are below 2^32 */
    return below_prime(low(sum)) | below_prime(high(sum)) << 32;
}

static inline Element multiplied(Element x, Element y) {
    return below_prime(folded(low(x) * low(y))) | below_prime(folded(high(x) * high(y))) << 32;
}

/* A permutation of 64 bits whose results look random, cut into two numbers below the prime. */
static inline Element hashed(uint64_t x) {
    x *= UINT64_C(0x9E3779B97F4A7C15);
    x ^= x >> 32;
    x *= UINT64_C(0xBF58476D1CE4E5B9);
    x ^= x >> 32;
    x *= UINT64_C(0x94D049BB133111EB);
    x ^= x >> 32;
    const uint64_t one = x & PRIME, other = x >> 33;
    return (one < PRIME ? one : PRIME - 1) | (other < PRIME ? other : PRIME - 1) << 32;
}

/* keys[0] chooses the function, keys[1] the mark of a sign: its second number is a function of its first. */
static inline Element sign(Element x, const Element *keys) {
    if (x == 0 || high(x) == high(hashed(low(x) + keys[1]))) {
        return x;
    }
    const Element made = low(hashed(x + keys[0]));
    return made | high(hashed(made + keys[1])) << 32;
}

/* Iterations of the next loop do not depend on each other, though it may write where it reads. */
#if defined(__clang__)
#define APART _Pragma("clang loop vectorize(assume_safety)") for
#elif defined(__GNUC__)
#define APART _Pragma("GCC ivdep") for
#else
#define APART for
#endif

#define ROW(step_x, step_y, formula)                                  \
    APART(int64_t j = 0; j < inner; j++) {                            \
        const Element x = xs[j * (step_x)], y = ys[j * (step_y)];     \
        (void)x, (void)y;                                             \
        zs[j * of_z] = (formula);                                     \
    }

/* For each element: x and y are the operands. The longer axis is the inner one; what lies side by side is one row. */
#define EACH(formula)                                                                                     \
    {                                                                                                     \
        const int iteration = c->rows > c->blocks;                                                             \
        int64_t outer = iteration ? c->blocks : c->rows, inner = iteration ? c->rows : c->blocks;                   \
        const int64_t *far = iteration ? c->of_block : c->of_row, *near = iteration ? c->of_row : c->of_block;      \
        int64_t of_z = near[0], of_x = near[1], of_y = near[2];                                           \
        if (of_z == outer && far[0] == 1 && of_x == outer * far[1] && of_y == outer * far[2]) {           \
            inner *= outer, outer = 1, of_z = 1, of_x = far[1], of_y = far[2];                            \
        }                                                                                                 \
        for (int64_t i = 0; i < outer; i++) {                                                             \
            Element *zs = result + i * far[0];                                                            \
            const Element *xs = one + i * far[1], *ys = other + i * far[2];                               \
            if (of_z == 1 && of_x == 1 && of_y == 1) {                                                    \
                of_z = 1;                                                                                 \
                ROW(1, 1, formula)                                                                        \
            } else if (of_z == 1 && of_x == 1 && of_y == 0) {                                             \
                of_z = 1;                                                                                 \
                ROW(1, 0, formula)                                                                        \
            } else {                                                                                      \
                ROW(of_x, of_y, formula)                                                                  \
            }                                                                                             \
        }                                                                                                 \
    }

static void combine(const Instruction *c, Element *result, const Element *values, const Element *coefficients) {
    for (int64_t row = 0; row < c->rows; row++) {
        const Element *x = values + row * c->of_row[1];
        for (int64_t block = 0; block < c->blocks; block++) {
            const Element *w = coefficients + block * c->of_block[2];
            uint64_t first = 0, second = 0;
            for (int64_t k = 0; k < c->inner; k++) {
                const Element a = x[k * c->of_block[1]], b = w[k * c->of_row[2]];
                first += folded(low(a) * low(b));
                second += folded(high(a) * high(b));
            }
            result[row * c->of_row[0] + block * c->of_block[0]] = reduced(first) | reduced(second) << 32;
        }
    }
}

/* The sum of rows [first, end) of a block. */
static Element sum(const Element *values, int64_t first, int64_t end, int64_t of_row) {
    uint64_t one = 0, other = 0;
    for (int64_t row = first; row < end; row++) {
        one += low(values[row * of_row]);
        other += high(values[row * of_row]);
    }
    return reduced(one) | reduced(other) << 32;
}

/* The next random elements after those that were drawn with a counter. */
static void draw(const Instruction *c, Element *result, Element *counter) {
    const uint64_t first = *counter;
    const int is_dense = (c->of_block[0] == 1 || c->blocks == 1) && c->of_row[0] == c->blocks;
    const int64_t rows = is_dense ? 1 : c->rows, blocks = is_dense ? c->rows * c->blocks : c->blocks;
    const int64_t of_block = is_dense ? 1 : c->of_block[0];
    *counter += c->rows * c->blocks;
    for (int64_t row = 0; row < rows; row++) {
        Element *to = result + row * c->of_row[0];
        APART(int64_t block = 0; block < blocks; block++) { to[block * of_block] = hashed(first + row * blocks + block); }
    }
}

static void run(const Instruction *c, Element *result, Element *one, const Element *other, const int64_t *tables) {
    const int64_t *table = tables + c->table;
    switch (c->code) {
    case COPY: EACH(x) break;
    case ADD: EACH(added(x, y)) break;
    case MULTIPLY: EACH(multiplied(x, y)) break;
    case COMBINE: combine(c, result, one, other); break;
    case HASH: EACH(hashed(x + y)) break;
    case SIGNS: EACH(sign(x, other)) break;
    case ZERO_OR: EACH(x == 0 ? 0 : y) break;
    case RANDOM: draw(c, result, one); break;
    default:
        for (int64_t block = 0; block < c->blocks; block++) {
            Element *to = result + block * c->of_block[0];
            const Element *from = one + block * c->of_block[1];
            if (c->code == TOTAL) {
                to[0] = sum(from, 0, c->inner, c->of_row[1]);
                continue;
            }
            for (int64_t row = 0; row < c->rows; row++) {
                const int64_t of_row = c->of_row[0];
                switch (c->code) {
                case TAKE: to[row * of_row] = table[row] < 0 ? 0 : from[table[row] * c->of_row[1]]; break;
                case RANGES: to[row * of_row] = sum(from, table[2 * row], table[2 * row + 1], c->of_row[1]); break;
                case SEND:
                    if (table[row] >= 0) {
                        to[table[row]] = added(to[table[row]], from[row * c->of_row[1]]);
                    }
                }
            }
        }
    }
}

/* Number i of a call is element i of memory, or if it is below 0 element -1 - i of what is drawn. */
static inline Element *base(Element *const *spaces, int64_t number) {
    return number < 0 ? spaces[1] + ~number : spaces[SPACES - 1] + number;
}

/* Runs the calls of a program. A call is the number of a template, then where each operand lies in memory: instructions
   [starts[t], starts[t + 1]) and counts[t] operands are those of template t. */
void nnet3_run_elements(Element *const *spaces, const Instruction *instructions, const int64_t *starts,
                        const int64_t *counts, const int64_t *calls, int64_t length, const int64_t *tables) {
    for (int64_t call = 0; call < length; call += 1 + counts[calls[call]]) {
        const int64_t *bases = calls + call + 1;
        for (int64_t i = starts[calls[call]]; i < starts[calls[call] + 1]; i++) {
            const Instruction *c = instructions + i;
            Element *operands[OPERANDS];
            for (int k = 0; k < OPERANDS; k++) {
                const int64_t space = c->space[k];
                operands[k] = (space < SPACES ? spaces[space] : base(spaces, bases[space - SPACES])) + c->at[k];
            }
            run(c, operands[0], operands[1], operands[2], tables);
        }
    }
}
