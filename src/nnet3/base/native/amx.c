/* Products y = a + alpha x W^T of float32 by the units of AMX, which multiply matrices of bfloat16 and add up in float32.

   A float32 is the sum of three parts, bfloat16 with eight bits each: v = v0 + v1 + v2. Six of the nine products of parts
   are added up; x1 w2 + x2 w1 + x2 w2 is at most about 2^-24 of x w. Numbers below 2^-102 lose their last bits, those below
   2^-126 all. Where a row or a column has a number that is not finite, or of 2^128 - 2^119 or more, the result is NaN. */

#include <stdint.h>

#if defined(__AMX_BF16__) && defined(__AVX512F__) && defined(__AVX512BW__) && defined(__linux__)

#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "team.h"
#include "vectors.h"

#define SIDE 32           /* of a block: numbers of rows or columns of y, and inner numbers */
#define HALF 16           /* of them, as many as a tile has rows */
#define PARTS 3           /* of a number */
#define MOST_INNER 512    /* inner numbers of what is kept of W or x */
#define MOST_NUMBERS (2 << 16) /* of what is kept, whose parts stay in the second cache */
#define INNER_AT_ONCE 4   /* blocks, whose parts stay in the first cache */
#define FEW_ROWS 256      /* whose blocks stay in the second cache while those of W come and go */
#define LINE 64           /* bytes of the cache */

/* Compilers do not know that loads of tiles read memory. */
#define BARRIER(pointer) __asm__ volatile("" : : "r"(pointer) : "memory")

/* SIDE rows of x or W and SIDE inner numbers, by parts and halves, each of which is a tile. Two numbers that lie 16 inner
   numbers apart are a pair. Of x a row of a tile has the pairs of one row, of W the pairs number i of all rows. */
typedef struct { __m512i pairs[PARTS][2][HALF]; } Block;

/* A matrix (outer, inner), and how many floats lie from one outer or inner number to the next, one of both is 1, and from SIDE
   outer numbers to the next SIDE, which for panels are elsewhere. */
typedef struct { const float *numbers; int64_t outer, inner, of_outer, of_inner, of_strip; } Factor;

typedef struct {
    int64_t rows, columns;
    float *y;
    const float *a;
    int64_t of_y, of_a;
    float alpha;
    Factor x, w;
    double *squares; /* of the rows of x, to which they are added; or none */
    int keeps_x;     /* see multiply */
} Product;

INLINED int64_t least(int64_t one, int64_t other) { return one < other ? one : other; }

/* `outer`: a multiple of SIDE */
static Factor part_of(const Factor *f, int64_t outer, int64_t outers, int64_t inner, int64_t inners) {
    Factor part = *f;
    part.numbers += outer / SIDE * f->of_strip + inner * f->of_inner;
    part.outer = least(outers, f->outer - outer);
    part.inner = least(inners, f->inner - inner);
    return part;
}

/* ---- memory that is asked for, line by line, before it is needed ---- */

typedef struct { const char *row; int64_t rows, of_row, bytes, byte; } Soon;

static Soon soon(const Factor *f) {
    const int by_outer = f->of_inner == 1;
    return (Soon){(const char *)f->numbers, by_outer ? f->outer : f->inner, 4 * (by_outer ? f->of_outer : f->of_inner),
                  4 * (by_outer ? f->inner : f->outer), 0};
}

INLINED void ask(Soon *s, int64_t lines) {
    for (; lines > 0 && s->rows > 0; lines--) {
        __builtin_prefetch(s->row + s->byte, 0, 2);
        s->byte += LINE;
        if (s->byte < s->bytes) continue;
        s->byte = 0, s->row += s->of_row, s->rows--;
    }
}

/* ---- blocks ---- */

INLINED void put(__m512 one, __m512 other, Block *block, int half, int row) {
    const __m512i round = _mm512_set1_epi32(1 << 15), upper = _mm512_set1_epi32((int)0xFFFF0000);
    for (int part = 0; part < PARTS; part++) {
        __m512i first = _mm512_castps_si512(one), second = _mm512_castps_si512(other);
        if (part < PARTS - 1) {
            first = _mm512_and_si512(_mm512_add_epi32(first, round), upper);
            second = _mm512_and_si512(_mm512_add_epi32(second, round), upper);
        }
        block->pairs[part][half][row] = _mm512_mask_blend_epi16(0xAAAAAAAA, _mm512_srli_epi32(first, 16), second);
        one = _mm512_sub_ps(one, _mm512_castsi512_ps(first));
        other = _mm512_sub_ps(other, _mm512_castsi512_ps(second));
    }
}

INLINED __mmask16 lanes(int64_t count) { return (__mmask16)(count >= HALF ? 0xFFFF : count > 0 ? (1 << count) - 1 : 0); }

/* Exchanges the blocks beside the diagonal of each square of 2 `size` rows and lanes; `size` is a constant. */
INLINED void exchange(__m512i *rows, const int size) {
    const __m512i lane = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    const __m512i step = _mm512_set1_epi32(size), other_row = _mm512_add_epi32(lane, _mm512_set1_epi32(HALF));
    const __mmask16 odd = _mm512_test_epi32_mask(lane, step);
    const __m512i low = _mm512_mask_sub_epi32(lane, odd, other_row, step);
    const __m512i high = _mm512_mask_mov_epi32(_mm512_add_epi32(lane, step), odd, other_row);
    for (int row = 0; row < HALF; row++) {
        if (row & size) continue;
        const __m512i one = rows[row], other = rows[row + size];
        rows[row] = _mm512_permutex2var_epi32(one, low, other);
        rows[row + size] = _mm512_permutex2var_epi32(one, high, other);
    }
}

/* Rows of pairs become columns. */
static void transpose(__m512i *pairs) {
    __m512i rows[HALF];
    memcpy(rows, pairs, sizeof rows);
    exchange(rows, 1);
    exchange(rows, 2);
    exchange(rows, 4);
    exchange(rows, 8);
    memcpy(pairs, rows, sizeof rows);
}

/* Makes blocks of at most SIDE outer numbers and all inner ones; asks for so many lines with each row of a tile. */
static void make_blocks(const Factor *f, int of_w, Block *blocks, Soon *s, const int64_t lines) {
    const int64_t count = (f->inner + SIDE - 1) / SIDE;
    const int by_outer = f->of_inner == 1;
    for (int64_t number = 0; number < count; number++) {
        const int64_t inner = f->inner - number * SIDE;
        const float *numbers = f->numbers + number * SIDE * f->of_inner;
        for (int half = 0; half < 2; half++)
            for (int row = 0; row < HALF; row++) {
                const int64_t outer = by_outer ? half * HALF + row : half * HALF, pair = by_outer ? 0 : row;
                __mmask16 one = 0, other = 0;
                if (by_outer && outer < f->outer) one = lanes(inner), other = lanes(inner - HALF);
                if (!by_outer && pair < inner) one = lanes(f->outer - outer);
                if (!by_outer && pair + HALF < inner) other = lanes(f->outer - outer);
                const float *from = numbers + outer * f->of_outer + pair * f->of_inner;
                put(one ? _mm512_maskz_loadu_ps(one, from) : _mm512_setzero_ps(),
                    other ? _mm512_maskz_loadu_ps(other, from + HALF * f->of_inner) : _mm512_setzero_ps(),
                    blocks + number, half, row);
                ask(s, lines);
            }
        for (int part = 0; by_outer == of_w && part < PARTS; part++)
            for (int half = 0; half < 2; half++) transpose(blocks[number].pairs[part][half]);
    }
}

/* ---- products ---- */

/* The sums of one or two halves of rows, over some blocks: (SIDE, SIDE). They are in tiles 0 to 3, rows of x in 4 and 5,
   columns of W in 6 and 7. */
INLINED void add_up(const int halves, const Block *x, const Block *w, int64_t count, float *sums, Soon *s, int64_t lines) {
#define LOAD(tile, from) _tile_loadd(tile, from, LINE)
#define ROWS_OF(part) do { LOAD(4, x->pairs[part][0]); if (halves > 1) LOAD(5, x->pairs[part][1]); } while (0)
#define COLUMNS_OF(part) do { LOAD(6, w->pairs[part][0]); LOAD(7, w->pairs[part][1]); } while (0)
#define ADD_PRODUCTS do { \
        _tile_dpbf16ps(0, 4, 6); _tile_dpbf16ps(1, 4, 7); \
        if (halves > 1) { _tile_dpbf16ps(2, 5, 6); _tile_dpbf16ps(3, 5, 7); } \
    } while (0)
    BARRIER(x);
    _tile_zero(0); _tile_zero(1); _tile_zero(2); _tile_zero(3);
    for (; count > 0; count--, x++, w++) {
        COLUMNS_OF(0); ROWS_OF(2); ADD_PRODUCTS; ROWS_OF(1); ADD_PRODUCTS;
        COLUMNS_OF(1); ADD_PRODUCTS; ROWS_OF(0); ADD_PRODUCTS;
        COLUMNS_OF(2); ADD_PRODUCTS; COLUMNS_OF(0); ADD_PRODUCTS;
        ask(s, lines);
    }
    _tile_stored(0, sums, SIDE * sizeof(float)); _tile_stored(1, sums + HALF, SIDE * sizeof(float));
    if (halves < 2) return;
    _tile_stored(2, sums + HALF * SIDE, SIDE * sizeof(float)); _tile_stored(3, sums + HALF * SIDE + HALF, SIDE * sizeof(float));
}

/* y = a + alpha sums */
static void finish(int64_t rows, int64_t columns, float *y, int64_t of_y, const float *a, int64_t of_a, float alpha,
                   const float *sums) {
    const __m512 factor = _mm512_set1_ps(alpha);
    for (int64_t row = 0; row < rows; row++, y += of_y, sums += SIDE, a = a ? a + of_a : a)
        for (int64_t column = 0; column < columns; column += HALF) {
            const __mmask16 some = lanes(columns - column);
            const __m512 sum = _mm512_loadu_ps(sums + column);
            const __m512 addend = a ? _mm512_maskz_loadu_ps(some, a + column) : _mm512_setzero_ps();
            _mm512_mask_storeu_ps(y + column, some, _mm512_fmadd_ps(factor, sum, addend));
        }
}

/* Some inner numbers. Blocks of W, or of x if `keeps_x`, were made before and stay in the second cache; SIDE outer numbers of
   the other factor are made here: of x all blocks, and of W, which come from memory, those that stay in the first cache. */
static void multiply(const Product *p, const Block *kept, int adds_to_y) {
    static _Thread_local Block made[MOST_INNER / SIDE];
    float sums[SIDE * SIDE] __attribute__((aligned(LINE)));
    const Factor *f = p->keeps_x ? &p->w : &p->x;
    const int64_t count = (f->inner + SIDE - 1) / SIDE, times = (count + INNER_AT_ONCE - 1) / INNER_AT_ONCE;
    const int64_t strips = ((p->keeps_x ? p->rows : p->columns) + SIDE - 1) / SIDE;
    const int64_t most = p->keeps_x ? INNER_AT_ONCE * SIDE : f->inner;
    const int64_t lines = ((p->keeps_x ? 1 : 2) * SIDE + strips - 1) / strips;
    Soon s = {0};
    for (int64_t outer = 0; outer < f->outer; outer += SIDE) {
        const Factor strip = part_of(f, outer, SIDE, 0, f->inner);
        const Factor after = part_of(f, least(outer + SIDE, f->outer), SIDE, 0, most);
        if (p->squares) add_squares(strip.outer, strip.inner, strip.numbers, strip.of_outer, p->squares + outer);
        for (int64_t time = 0, block = 0, some; time < times; time++, block += some) {
            some = (count - block + times - time - 1) / (times - time);
            if (p->keeps_x || time == 0) {
                const Factor part = part_of(&strip, 0, SIDE, block * SIDE, p->keeps_x ? some * SIDE : most);
                const int is_last = !p->keeps_x || time + 1 == times;
                const Factor next = is_last ? after : part_of(&strip, 0, SIDE, (block + some) * SIDE, most);
                s = soon(&next);
                make_blocks(&part, p->keeps_x, made, &s, p->keeps_x);
            }
            for (int64_t number = 0; number < strips; number++) {
                const int64_t row = p->keeps_x ? number * SIDE : outer, column = p->keeps_x ? outer : number * SIDE;
                const int64_t rows = least(SIDE, p->rows - row), is_first = !adds_to_y && time == 0;
                const Block *ready = kept + number * count + block;
                float *y = p->y + row * p->of_y + column;
                const float *a = is_first ? (p->a ? p->a + row * p->of_a + column : 0) : y;
                for (int64_t k = 0; time == 0 && k < rows; k++) {
                    __builtin_prefetch(y + k * p->of_y, 1);
                    __builtin_prefetch(y + k * p->of_y + HALF, 1);
                }
                const Block *x = p->keeps_x ? ready : made + block, *w = p->keeps_x ? made : ready;
                if (rows > HALF) add_up(2, x, w, some, sums, &s, lines);
                else add_up(1, x, w, some, sums, &s, lines);
                finish(rows, least(SIDE, p->columns - column), y, p->of_y, a, is_first ? p->of_a : p->of_y, p->alpha, sums);
            }
        }
    }
}

static void set_tiles(void) {
    struct { uint8_t palette, first; uint8_t reserved[14]; uint16_t bytes[16]; uint8_t rows[16]; } tiles = {.palette = 1};
    for (int tile = 0; tile < 8; tile++) tiles.bytes[tile] = LINE, tiles.rows[tile] = HALF;
    BARRIER(&tiles);
    _tile_loadconfig(&tiles);
}

/* What one of the threads does: some of the rows if there are many, else some of the columns. */
static void share(const void *product, int64_t number, int64_t threads) {
    static _Thread_local Block kept[MOST_NUMBERS / SIDE / SIDE];
    Product p = *(const Product *)product;
    const int64_t tall = (p.rows + SIDE - 1) / SIDE, wide = (p.columns + SIDE - 1) / SIDE, parts = tall > wide ? tall : wide;
    const int64_t first = parts * number / threads * SIDE, count = parts * (number + 1) / threads * SIDE - first;
    if (count == 0) return;
    const Factor x = tall > wide ? part_of(&p.x, first, count, 0, p.x.inner) : p.x;
    const Factor w = tall > wide ? p.w : part_of(&p.w, first, count, 0, p.w.inner);
    const int64_t outer_of_kept = p.keeps_x ? x.outer : w.outer;
    const int64_t from_row = tall > wide ? first : 0, from_column = tall > wide ? 0 : first;
    const int64_t times = (x.inner + MOST_INNER - 1) / MOST_INNER, inner = ((x.inner + times - 1) / times + SIDE - 1) / SIDE * SIDE;
    const int64_t most = MOST_NUMBERS / inner / SIDE * SIDE;
    const int64_t stretches = (outer_of_kept + most - 1) / most;
    const int64_t outers = ((outer_of_kept + stretches - 1) / stretches + SIDE - 1) / SIDE * SIDE;
    set_tiles();
    for (int64_t step = 0; step < x.inner; step += inner)
        for (int64_t outer = 0; outer < outer_of_kept; outer += outers) {
            const Factor some_x = p.keeps_x ? part_of(&x, outer, outers, step, inner) : part_of(&x, 0, x.outer, step, inner);
            const Factor some_w = p.keeps_x ? part_of(&w, 0, w.outer, step, inner) : part_of(&w, outer, outers, step, inner);
            const Factor *some = p.keeps_x ? &some_x : &some_w, *other = p.keeps_x ? &some_w : &some_x;
            const int64_t row = from_row + (p.keeps_x ? outer : 0), column = from_column + (p.keeps_x ? 0 : outer);
            const Product block = {some_x.outer, some_w.outer, p.y + row * p.of_y + column,
                                   p.a ? p.a + row * p.of_a + column : 0, p.of_y, p.of_a, p.alpha, some_x, some_w,
                                   p.squares && column == 0 ? p.squares + row : 0, p.keeps_x};
            for (int64_t k = 0; k < some->outer; k += SIDE) {
                const Factor strip = part_of(some, k, SIDE, 0, inner);
                const Factor next = k + SIDE < some->outer ? part_of(some, k + SIDE, SIDE, 0, inner)
                                                           : part_of(other, 0, SIDE, 0, INNER_AT_ONCE * SIDE);
                Soon s = soon(&next);
                make_blocks(&strip, !p.keeps_x, kept + k / SIDE * ((some->inner + SIDE - 1) / SIDE), &s, 3);
            }
            multiply(&block, kept, step > 0);
        }
    _tile_release();
}

/* Linux lets processes use tiles that ask for them. */
int64_t nnet3_has_amx(void) {
    static int asked, has; /* who asks at the same time gets the same answer */
    if (!__atomic_load_n(&asked, __ATOMIC_ACQUIRE)) {
        __atomic_store_n(&has, syscall(SYS_arch_prctl, 0x1023, 18) == 0, __ATOMIC_RELAXED);
        __atomic_store_n(&asked, 1, __ATOMIC_RELEASE);
    }
    return __atomic_load_n(&has, __ATOMIC_RELAXED);
}

/* The product of nnet3_product. Returns 0, and computes nothing, where there is no AMX, if neither rows nor columns of x or
   W lie side by side, and for few columns, which take less time than it takes to split x into parts. */
int64_t nnet3_amx_product(int64_t rows, int64_t columns, int64_t inner, float *y, int64_t of_y, const float *x, int64_t of_x,
                          int64_t step_of_x, const float *w, int64_t of_w, int64_t step_of_w, const float *a, int64_t of_a,
                          float alpha, double *squares, int64_t threads) {
    if ((of_x != 1 && step_of_x != 1) || (of_w != 1 && step_of_w != 1) || inner == 0 || columns <= SIDE ||
        !nnet3_has_amx()) return 0;
    const Product product = {rows, columns, y, a, of_y, of_a, alpha, {x, rows, inner, of_x, step_of_x, SIDE * of_x},
                             {w, columns, inner, of_w, step_of_w, SIDE * of_w}, squares, 0};
    if (rows && columns) by_team(share, &product, threads);
    return 1;
}

/* The product of nnet3_panel_product. A row of y does not depend on how many there are. Returns 0, and computes nothing, where
   there is no AMX, and for few columns. */
int64_t nnet3_amx_panel_product(int64_t rows, int64_t columns, int64_t inner, float *y, int64_t of_y, const float *x,
                                int64_t of_x, const float *a, int64_t of_a, const float *panels, int64_t of_panel,
                                int64_t threads) {
    if (inner == 0 || columns <= SIDE || !nnet3_has_amx()) return 0;
    const Product product = {rows, columns, y, a, of_y, of_a, 1.0f, {x, rows, inner, of_x, 1, SIDE * of_x},
                             {panels, columns, inner, 1, SIDE, of_panel}, 0, rows <= FEW_ROWS};
    by_team(share, &product, threads);
    return 1;
}

#else

int64_t nnet3_has_amx(void) { return 0; }

int64_t nnet3_amx_product(int64_t rows, int64_t columns, int64_t inner, float *y, int64_t of_y, const float *x, int64_t of_x,
                          int64_t step_of_x, const float *w, int64_t of_w, int64_t step_of_w, const float *a, int64_t of_a,
                          float alpha, double *squares, int64_t threads) {
    (void)rows, (void)columns, (void)inner, (void)y, (void)of_y, (void)x, (void)of_x, (void)step_of_x, (void)w, (void)of_w;
    (void)step_of_w, (void)a, (void)of_a, (void)alpha, (void)squares, (void)threads;
    return 0;
}

int64_t nnet3_amx_panel_product(int64_t rows, int64_t columns, int64_t inner, float *y, int64_t of_y, const float *x,
                                int64_t of_x, const float *a, int64_t of_a, const float *panels, int64_t of_panel,
                                int64_t threads) {
    (void)rows, (void)columns, (void)inner, (void)y, (void)of_y, (void)x, (void)of_x, (void)a, (void)of_a, (void)panels;
    (void)of_panel, (void)threads;
    return 0;
}

#endif
