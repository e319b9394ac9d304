/* Products y = a + alpha x W^T of float32 with weights in panels: W (columns, inner) is cut into stretches of PANEL
   columns of y, each of which lies as (inner, PANEL), filled up with zeros. One panel times ROWS rows of x is a tile of
   y that stays in registers, so that a panel is read once for so many rows. nnet3/native/panels.py makes panels of
   weights that are multiplied many times; others are made here, some columns and steps of the sums at a time. */

#include "team.h"
#include "vectors.h"

/* As many rows as fill the registers that there are. */
#if LANES == 16
#define ROWS 12
#else
#define ROWS 6
#endif
#define PANEL (2 * LANES)
#define PANELS_AT_ONCE 2 /* for FEW_ROWS, whose sums would wait for each other */
#define FEW_ROWS 2
#define LINE 16 /* floats of the cache */
#define STEPS 4 /* of a loop, between which memory is asked for */
#define STEPS_IN_CACHE 256 /* of a panel, in the first cache */
#define MOST_AT_ONCE 16 /* products that are added up at once */
#define ROWS_AT_ONCE (16 * ROWS)
#define LONG_ROWS_AT_ONCE (2 * ROWS) /* whole ones, which the second cache still holds when their squares are added up */
#define COLUMNS_AT_ONCE 512
#define STEPS_AT_ONCE 384
#define OF_COPY (STEPS_AT_ONCE + LANES)
#define SAME_PLACE 1024 /* rows that lie so many floats apart have the same few places in the first cache */

typedef float Half __attribute__((vector_size(LANES / 2 * sizeof(float))));
INLINED Half load_half(const float *from) {
    Half half;
    memcpy(&half, from, sizeof half);
    return half;
}

INLINED int64_t least(int64_t one, int64_t other) { return one < other ? one : other; }

typedef struct { int64_t x, panels; } Place;

/* Matrices x (rows, inner), W (columns, inner), `a` and y (rows, columns). `of_`: floats from one row to the next, 0 if
   each is the same one; `step_`: floats from one of the inner numbers to the next, 1 where there are panels. */
typedef struct {
    int64_t rows, columns, inner;
    float *y;
    const float *x, *a, *w, *panels;
    int64_t of_y, of_x, of_a, of_w, step_of_x, step_of_w, of_panel;
    float alpha;
    int64_t steps, tile; /* most inner numbers of a panel that is made, most rows of a tile */
    int64_t more;        /* products that are added to this one, and how far their x and panels are from its own */
    const Place *places;
    double *squares; /* of the rows of x, to which they are added; or none */
} Product;

/* Where a tile of y lies, and what it is made of: `steps` of the inner numbers of x and a panel. Between its first and its
   last steps the sums of its rows lie in `sums`, side by side. */
typedef struct {
    const float *panel, *x, *a, *soon;
    float *y, *sums;
    int64_t of_a, of_y, steps, step_soon;
    int begins, ends;
} Tile;

/* Computes a tile: some rows of a panel's columns, of which there are a half, three quarters or all, or of two panels;
   both numbers are constants. Meanwhile memory from `soon` on is asked for, so many floats each STEPS steps; few rows
   read panels as fast as these come without being asked for. */
INLINED void tile(const int rows, const int columns, const Product *p, const Tile *t) {
    const int64_t of_x = p->of_x, of_a = t->of_a, of_y = t->of_y, of_panel = p->of_panel, steps = t->steps;
    const int vectors = columns / LANES, has_half = columns % LANES != 0;
    const float *panel = t->panel, *x = t->x, *a = t->a, *soon = t->soon;
    float *y = t->y;
    Vector sums[ROWS][2 * PANELS_AT_ONCE];
    Half halves[ROWS];
    for (int row = 0; row < rows; row++) {
        const float *kept = t->sums + row * columns;
        for (int k = 0; k < vectors; k++) sums[row][k] = t->begins ? (Vector){0.0f} : load(kept + k * LANES);
        halves[row] = t->begins || !has_half ? (Half){0.0f} : load_half(kept + LANES);
        for (int column = 0; t->ends && column < columns; column += LINE) {
            __builtin_prefetch(a + row * of_a + column);
            __builtin_prefetch(y + row * of_y + column, 1);
        }
    }
    const float *const threes[] = {x, x + 3 * of_x, x + 6 * of_x, x + 9 * of_x}; /* rows that few registers lead to */
#define STEP(k) \
    do { \
        Vector weights[2 * PANELS_AT_ONCE]; \
        for (int v = 0; v < vectors; v++) weights[v] = load(panel + v / 2 * of_panel + v % 2 * LANES); \
        const Half half = load_half(panel + LANES); \
        if (rows > FEW_ROWS && t->step_soon > k * PANEL) \
            for (int line = k * PANEL; line < (k + 1) * PANEL; line += LINE) __builtin_prefetch(soon + line, 0, 2); \
        for (int row = 0; row < rows; row++) { \
            const float factor = threes[row / 3][row % 3 * of_x + i + k]; \
            for (int v = 0; v < vectors; v++) sums[row][v] += factor * weights[v]; \
            if (has_half) halves[row] += factor * half; \
        } \
        panel += PANEL; \
    } while (0)
    int64_t i = 0;
    for (; i + STEPS <= steps; i += STEPS, soon += t->step_soon) {
        STEP(0); STEP(1); STEP(2); STEP(3);
    }
    for (; i < steps; i++) STEP(0);
    for (int row = 0; row < rows; row++) {
        float *to = t->ends ? y + row * of_y : t->sums + row * columns;
        for (int k = 0; k < vectors; k++) {
            if (t->ends) sums[row][k] = load(a + row * of_a + k * LANES) + p->alpha * sums[row][k];
            memcpy(to + k * LANES, &sums[row][k], sizeof(Vector));
        }
        if (has_half) {
            if (t->ends) halves[row] = load_half(a + row * of_a + LANES) + p->alpha * halves[row];
            memcpy(to + LANES, &halves[row], sizeof(Half));
        }
    }
}

static void tile_of(int64_t rows, int quarters, const Product *p, const Tile *t) {
#define TILE_OF(count, part) case count + ROWS * part: tile(count, part * PANEL / 4, p, t); break
#define TILE(count) TILE_OF(count, 2); TILE_OF(count, 3); TILE_OF(count, 4)
    switch (rows + ROWS * quarters) {
        TILE_OF(1, 4 * PANELS_AT_ONCE); TILE_OF(2, 4 * PANELS_AT_ONCE);
        TILE(1); TILE(2); TILE(3); TILE(4); TILE(5); TILE(6);
#if ROWS == 12
        TILE(7); TILE(8); TILE(9); TILE(10); TILE(11); TILE(12);
#endif
    }
}

/* Some rows of all products, which stay in the second cache while panels come and go. Tiles have about equally many rows.
   All tiles go through some steps of a panel, which stay in the first cache, then through the next ones. Together they ask
   for what follows in memory: a step of one tile is over too soon for memory. */
static void rows_of(const Product *p) {
    static const float nothing[PANELS_AT_ONCE * PANEL];
    float edge[ROWS * PANEL] = {0}; /* for the last panel, which may have columns that y has not */
    float sums[ROWS_AT_ONCE * PANEL], products[ROWS_AT_ONCE * PANEL];
    const int64_t count = (p->rows + p->tile - 1) / p->tile, stretches = 1 + (p->inner - 1) / STEPS_IN_CACHE;
    Tile t = {.step_soon = (STEPS * PANEL + count - 1) / count};
    for (int64_t column = 0, next; column < p->columns; column = next) {
        const int64_t left = least(p->columns - column, PANEL);
        const int at_once = p->rows <= FEW_ROWS && p->columns - column >= PANELS_AT_ONCE * PANEL ? PANELS_AT_ONCE : 1;
        const int quarters = left <= LANES ? 2 : left <= LANES + LANES / 2 ? 3 : 4 * at_once;
        const int is_whole = at_once > 1 || left == quarters * PANEL / 4;
        const size_t bytes = (size_t)left * sizeof(float);
        const float *first_panel = p->panels + column / PANEL * p->of_panel;
        next = column + at_once * PANEL;
        for (int64_t number = 0; number <= p->more; number++) {
            const Place place = number > 0 ? p->places[number - 1] : (Place){0, 0};
            int64_t step = 0;
            for (int64_t part = stretches; part > 0; part--, step += t.steps) {
                t.steps = (p->inner - step + part - 1) / part;
                t.panel = first_panel + place.panels + step * PANEL;
                t.begins = step == 0, t.ends = part == 1;
                t.soon = !t.ends            ? t.panel + t.steps * PANEL
                         : number < p->more ? first_panel + p->places[number].panels
                                            : p->panels + next / PANEL * p->of_panel;
                const int has_edge = !is_whole && t.ends, is_first = number == 0, is_last = number == p->more;
                int64_t row = 0, rows;
                for (int64_t tiles = count; tiles > 0; tiles--, row += rows, t.soon += t.steps / STEPS * t.step_soon) {
                    const float *a = p->a ? p->a + row * p->of_a + column : nothing;
                    float *y = p->y + row * p->of_y + column, *product = products + row * PANEL;
                    rows = (p->rows - row + tiles - 1) / tiles;
                    t.x = p->x + place.x + row * p->of_x + step;
                    t.sums = sums + row * PANEL;
                    t.a = is_first ? a : product, t.of_a = is_first ? p->of_a : at_once * PANEL;
                    t.y = is_last ? y : product, t.of_y = is_last ? p->of_y : at_once * PANEL;
                    if (has_edge && is_first) {
                        for (int64_t k = 0; k < rows; k++) memcpy(edge + k * PANEL, a + k * p->of_a, bytes);
                        t.a = edge, t.of_a = PANEL;
                    }
                    if (has_edge && is_last) t.y = edge, t.of_y = PANEL;
                    tile_of(rows, quarters, p, &t);
                    if (has_edge && is_last)
                        for (int64_t k = 0; k < rows; k++) memcpy(y + k * p->of_y, edge + k * PANEL, bytes);
                }
            }
        }
    }
}

/* Returns a product of some of the rows and columns; `column` is the first one of a panel. */
static Product some_of(const Product *p, int64_t row, int64_t rows, int64_t column, int64_t columns) {
    Product some = *p;
    some.rows = least(rows, p->rows - row);
    some.columns = least(columns, p->columns - column);
    some.y += row * p->of_y + column;
    some.x += row * p->of_x;
    if (p->a) some.a += row * p->of_a + column;
    if (p->squares) some.squares = column ? 0 : some.squares + row;
    if (p->panels) some.panels += column / PANEL * p->of_panel;
    else some.w += column * p->of_w;
    return some;
}

/* ---- panels that are made for one product ---- */

#if defined(__GNUC__) && !defined(__clang__)
typedef int32_t Places __attribute__((vector_size(LANES * sizeof(int32_t))));

/* Exchanges the blocks beside the diagonal of each square of 2 `size` rows and lanes; `size` is a constant. */
INLINED void exchange(Vector *rows, const int size) {
    Places low, high;
    for (int lane = 0; lane < LANES; lane++) {
        low[lane] = lane & size ? LANES + lane - size : lane;
        high[lane] = lane & size ? LANES + lane : lane + size;
    }
    for (int row = 0; row < LANES; row++) {
        if (row & size) continue;
        const Vector one = rows[row], other = rows[row + size];
        rows[row] = __builtin_shuffle(one, other, low);
        rows[row + size] = __builtin_shuffle(one, other, high);
    }
}

/* to[j][i] = from[i][j] for LANES rows and columns */
INLINED void transpose(const float *from, int64_t of_from, float *to, int64_t of_to) {
    Vector rows[LANES];
    for (int row = 0; row < LANES; row++) rows[row] = load(from + row * of_from);
    exchange(rows, 1);
    exchange(rows, 2);
#if LANES >= 8
    exchange(rows, 4);
#endif
#if LANES >= 16
    exchange(rows, 8);
#endif
    for (int row = 0; row < LANES; row++) memcpy(to + row * of_to, &rows[row], sizeof rows[row]);
}
#else
static void transpose(const float *from, int64_t of_from, float *to, int64_t of_to) {
    for (int i = 0; i < LANES; i++)
        for (int j = 0; j < LANES; j++) to[j * of_to + i] = from[i * of_from + j];
}
#endif

/* to[i][j] = from[i][j]; columns of `to` lie side by side, those of `from` lie `step` floats apart. */
static void copy(int64_t rows, int64_t columns, float *to, int64_t of_to, const float *from, int64_t of_from,
                 int64_t step) {
    if (step == 1) {
        for (int64_t i = 0; i < rows; i++, to += of_to, from += of_from)
            if (columns == PANEL) memcpy(to, from, PANEL * sizeof(float));
            else memcpy(to, from, (size_t)columns * sizeof(float));
        return;
    }
    const int64_t in_blocks = of_from == 1 ? rows / LANES * LANES : 0;
    for (int64_t j = 0, count; j < columns; j += count) {
        count = least(LANES, columns - j);
        int64_t i = 0;
        if (count == LANES)
            for (; i < in_blocks; i += LANES) transpose(from + i + j * step, step, to + i * of_to + j, of_to);
        for (; i < rows; i++)
            for (int64_t k = j; k < j + count; k++) to[i * of_to + k] = from[i * of_from + k * step];
    }
}

/* Panels of all columns, one after the other. Where those of W lie side by side all panels get some steps, then the
   next ones: memory is read in its order. */
static void make_panels(const Product *p, float *panels) {
    const int64_t some = p->of_w == 1 ? LANES : p->inner;
    const int64_t whole = p->columns / PANEL * PANEL;
    if (whole < p->columns) memset(panels + whole * p->inner, 0, (size_t)(PANEL * p->inner) * sizeof(float));
    for (int64_t step = 0; step < p->inner; step += some)
        for (int64_t column = 0; column < p->columns; column += PANEL)
            copy(least(some, p->inner - step), least(p->columns - column, PANEL),
                 panels + column * p->inner + step * PANEL, PANEL,
                 p->w + column * p->of_w + step * p->step_of_w, p->step_of_w, p->of_w);
}

/* Panels of W (columns, inner), for nnet3_panel_product. */
void nnet3_make_panels(int64_t columns, int64_t inner, float *panels, const float *w, int64_t of_w, int64_t step_of_w) {
    const Product product = {.columns = columns, .inner = inner, .w = w, .of_w = of_w, .step_of_w = step_of_w};
    make_panels(&product, panels);
}

/* A product of any size, by blocks that the second cache holds. Where rows of x do not lie well they are copied. */
static void in_blocks(const Product *p) {
    static _Thread_local float panels[COLUMNS_AT_ONCE * STEPS_AT_ONCE], copied[ROWS_AT_ONCE * OF_COPY];
    const int64_t blocks = 1 + (p->inner - 1) / p->steps;
    const int64_t at_once = p->steps > STEPS_AT_ONCE ? LONG_ROWS_AT_ONCE : ROWS_AT_ONCE;
    for (int64_t column = 0; column < p->columns; column += COLUMNS_AT_ONCE) {
        Product block = some_of(p, 0, p->rows, column, COLUMNS_AT_ONCE);
        int64_t step = 0;
        for (int64_t left = blocks; left > 0; left--, step += block.inner) {
            block.inner = (p->inner - step + left - 1) / left;
            block.panels = 0;
            make_panels(&block, panels);
            block.panels = panels;
            block.of_panel = block.inner * PANEL;
            for (int64_t row = 0; row < p->rows; row += at_once) {
                Product some = some_of(&block, row, at_once, 0, block.columns);
                if (p->step_of_x != 1 || (p->of_x % SAME_PLACE == 0 && p->tile == ROWS)) {
                    copy(some.rows, some.inner, copied, OF_COPY, some.x, p->of_x, p->step_of_x);
                    some.x = copied;
                    some.of_x = OF_COPY;
                }
                rows_of(&some);
                if (some.squares) add_squares(some.rows, some.inner, some.x, some.of_x, some.squares);
            }
            block.x += block.inner * p->step_of_x;
            block.w += block.inner * p->step_of_w;
            block.a = block.y;
            block.of_a = block.of_y;
        }
    }
}

/* What one of the threads does: some of the rows if there are many, else some of the columns. */
static void share(const void *product, int64_t number, int64_t threads) {
    const Product *p = product;
    const int64_t panels = (p->columns + PANEL - 1) / PANEL, tiles = (p->rows + ROWS - 1) / ROWS;
    const int by_rows = tiles >= panels;
    const int64_t parts = by_rows ? tiles : panels, first = parts * number / threads;
    const int64_t count = parts * (number + 1) / threads - first;
    if (count == 0) return;
    const Product mine = by_rows ? some_of(p, first * ROWS, count * ROWS, 0, p->columns)
                                 : some_of(p, 0, p->rows, first * PANEL, count * PANEL);
    if (!p->panels) in_blocks(&mine);
    else {
        const int64_t times = (mine.rows + ROWS_AT_ONCE - 1) / ROWS_AT_ONCE;
        const int64_t rows = times ? ((mine.rows + ROWS - 1) / ROWS + times - 1) / times * ROWS : 0;
        for (int64_t row = 0; row < mine.rows; row += rows) {
            const Product some = some_of(&mine, row, rows, 0, mine.columns);
            rows_of(&some);
        }
    }
}

/* y = a + x W^T; `a` may be y itself. A row of y does not depend on how many there are. Panels begin `of_panel` floats
   apart: they may be parts of longer ones, which have further inner numbers. */
void nnet3_panel_product(int64_t rows, int64_t columns, int64_t inner, float *y, int64_t of_y, const float *x,
                         int64_t of_x, const float *a, int64_t of_a, const float *panels, int64_t of_panel,
                         int64_t threads) {
    const Product product = {rows, columns, inner, y, x, a, 0, panels, of_y, of_x, of_a, 0, 1, 1, of_panel, 1.0f,
                             STEPS_AT_ONCE, ROWS, 0, 0, 0};
    by_team(share, &product, threads);
}

/* Rows of y from `begin_y` on get the panels of one offset times rows of x, every `step_x`-th one from `begin_x` on. Ends
   count from the last row. */
typedef struct { int64_t offset, begin_y, end_y, begin_x, end_x, step_x; } Block;

int64_t nnet3_amx_panel_product(int64_t rows, int64_t columns, int64_t inner, float *y, int64_t of_y, const float *x,
                                int64_t of_x, const float *a, int64_t of_a, const float *panels, int64_t of_panel,
                                int64_t threads);

/* y = b + sum over blocks of x W^T; panels of each offset as above. Blocks on the same rows of y are multiplied together,
   panel by panel; if `by_amx`, one by one by AMX, where it can. Returns 0, and computes nothing, if a block has an offset or
   rows that there are not. */
int64_t nnet3_sum_of_blocks(int64_t rows, int64_t rows_of_x, int64_t columns, int64_t inner, float *y, int64_t of_y,
                            const float *x, int64_t of_x, const float *b, const float *const *panels, int64_t offsets,
                            int64_t of_panel, const Block *blocks, int64_t count, int64_t by_amx, int64_t threads) {
    Place places[MOST_AT_ONCE];
    for (int64_t k = 0; k < count; k++) {
        const Block *block = blocks + k;
        if (block->offset < 0 || block->offset >= offsets || block->begin_y < 0 || block->begin_y > rows ||
            block->end_y > 0 || block->end_y < -rows || block->begin_x < 0 || block->begin_x >= rows_of_x ||
            block->step_x < 1 || block->step_x > rows_of_x) return 0;
        const int64_t some = rows + block->end_y - block->begin_y;
        if (some < 1 || some - 1 > (rows_of_x - 1 - block->begin_x) / block->step_x) return 0;
    }
    const float *a = b;
    if (!count || blocks[0].begin_y || blocks[0].end_y) {
        for (int64_t row = 0; row < rows; row++) memcpy(y + row * of_y, b, (size_t)columns * sizeof(float));
        a = y;
    }
    for (int64_t k = 0, next; k < count; k = next, a = y) {
        const Block *block = blocks + k;
        const int64_t some = rows + block->end_y - block->begin_y;
        const float *first_x = x + block->begin_x * of_x, *first_panels = panels[block->offset];
        Product product = {some, columns, inner, y + block->begin_y * of_y, first_x, a == b ? b : a + block->begin_y * of_y,
                           0, first_panels, of_y, of_x * block->step_x, a == b ? 0 : of_y, 0, 1, 1, of_panel, 1.0f,
                           STEPS_AT_ONCE, ROWS, 0, places, 0};
        next = k + 1;
        if (by_amx && nnet3_amx_panel_product(some, columns, inner, product.y, of_y, first_x, product.of_x, product.a,
                                              product.of_a, first_panels, of_panel, threads)) continue;
        for (; next < count && product.more < MOST_AT_ONCE; next++, product.more++) {
            const Block *other = blocks + next;
            if (other->begin_y != block->begin_y || other->end_y != block->end_y || other->step_x != block->step_x) break;
            places[product.more].x = (other->begin_x - block->begin_x) * of_x;
            places[product.more].panels = panels[other->offset] - first_panels;
        }
        by_team(share, &product, threads);
    }
    return 1;
}

/* y = a + alpha x W^T of matrices that may lie in any way, but for y and `a`; `a` may be y itself, or none. A row of
   y does not depend on how many there are, nor its numbers on those beside them, but on whether one panel holds all.
   Adds the squares of row i of x to squares[i], if there are any. */
void nnet3_product(int64_t rows, int64_t columns, int64_t inner, float *y, int64_t of_y, const float *x, int64_t of_x,
                   int64_t step_of_x, const float *w, int64_t of_w, int64_t step_of_w, const float *a, int64_t of_a,
                   float alpha, double *squares, int64_t threads) {
    Product product = {rows, columns, inner, y, x, a, w, 0, of_y, of_x, of_a, of_w, step_of_x, step_of_w, 0, alpha,
                       STEPS_AT_ONCE, ROWS, 0, 0, squares};
    if (columns <= PANEL && step_of_x == 1) { /* x comes once: few rows side by side, as far as one panel goes */
        product.steps = COLUMNS_AT_ONCE / PANEL * STEPS_AT_ONCE;
        if (of_x % SAME_PLACE == 0) product.tile = ROWS / 2;
    }
    by_team(share, &product, threads);
}

int64_t nnet3_columns_of_panel(void) { return PANEL; }
