/* Products y = a + x W^T of float32 with weights in panels: W (columns, inner) is cut into stretches of PANEL columns of
   y, each of which lies as (inner, PANEL), filled up with zeros. One panel times ROWS rows of x is a tile of y that stays
   in registers, so that a panel is read once for so many rows. nnet3/native/panels.py makes panels and calls. */

#include <stdint.h>
#include <string.h>

/* As many floats as a register has, and as many rows and vectors as fill the registers that there are. */
#if defined(__AVX512F__)
#define LANES 16
#define ROWS 12
#elif defined(__AVX__)
#define LANES 8
#define ROWS 6
#else
#define LANES 4
#define ROWS 6
#endif
#define PANEL (2 * LANES)
#define AHEAD 24 /* steps for which a panel is asked for before it is read */
#define ROWS_AT_ONCE (16 * ROWS)

typedef float Vector __attribute__((vector_size(LANES * sizeof(float))));
#define INLINED static inline __attribute__((always_inline))

INLINED Vector load(const float *from) {
    Vector vector;
    memcpy(&vector, from, sizeof vector);
    return vector;
}

typedef struct {
    int64_t rows, columns, inner;
    float *y;
    const float *x, *a, *panels;
    int64_t of_y, of_x, of_a; /* floats from one row to the next; 0: each row is the same one */
} Product;

/* A tile of y: some rows, which is a constant, of one panel's columns. */
INLINED void tile(const int rows, int64_t inner, const float *panel, const float *x, int64_t of_x, const float *a,
                  int64_t of_a, float *y, int64_t of_y) {
    Vector sums[ROWS][2];
    for (int row = 0; row < rows; row++)
        for (int half = 0; half < 2; half++) sums[row][half] = load(a + row * of_a + half * LANES);
    for (int row = 0; row < rows; row++)
        for (int half = 0; half < 2; half++) __builtin_prefetch(y + row * of_y + half * LANES, 1);
    for (int64_t i = 0; i < inner; i++) {
        const Vector left = load(panel + i * PANEL), right = load(panel + i * PANEL + LANES);
        __builtin_prefetch(panel + (i + AHEAD) * PANEL);
        __builtin_prefetch(panel + (i + AHEAD) * PANEL + LANES);
        for (int row = 0; row < rows; row++) {
            const float factor = x[row * of_x + i];
            sums[row][0] += factor * left;
            sums[row][1] += factor * right;
        }
    }
    for (int row = 0; row < rows; row++) memcpy(y + row * of_y, sums[row], sizeof sums[row]);
}

static void tile_of(int64_t rows, int64_t inner, const float *panel, const float *x, int64_t of_x, const float *a,
                    int64_t of_a, float *y, int64_t of_y) {
#define TILE(count) case count: tile(count, inner, panel, x, of_x, a, of_a, y, of_y); break
    switch (rows) {
        TILE(1); TILE(2); TILE(3); TILE(4); TILE(5); TILE(6);
#if ROWS == 12
        TILE(7); TILE(8); TILE(9); TILE(10); TILE(11); TILE(12);
#endif
    }
}

/* The rows [first_row, end_row) of the columns of some panels. Tiles have about equally many rows. */
static void rows_of(const Product *p, int64_t panel, int64_t end_panel, int64_t first_row, int64_t end_row) {
    float edge[ROWS * PANEL] = {0}; /* for the last panel, which may have columns that y has not */
    for (; panel < end_panel; panel++) {
        const int64_t column = panel * PANEL, left = p->columns - column;
        const float *weights = p->panels + column * p->inner;
        const size_t bytes = (size_t)left * sizeof(float);
        int64_t row = first_row, rows;
        for (int64_t tiles = (end_row - row + ROWS - 1) / ROWS; tiles > 0; tiles--, row += rows) {
            const float *x = p->x + row * p->of_x, *a = p->a + row * p->of_a + column;
            float *y = p->y + row * p->of_y + column;
            rows = (end_row - row + tiles - 1) / tiles;
            if (left >= PANEL) {
                tile_of(rows, p->inner, weights, x, p->of_x, a, p->of_a, y, p->of_y);
                continue;
            }
            for (int64_t k = 0; k < rows; k++) memcpy(edge + k * PANEL, a + k * p->of_a, bytes);
            tile_of(rows, p->inner, weights, x, p->of_x, edge, PANEL, edge, PANEL);
            for (int64_t k = 0; k < rows; k++) memcpy(y + k * p->of_y, edge + k * PANEL, bytes);
        }
    }
}

/* The same for any number of rows: some at a time, so that they stay in the cache while panels come and go. */
static void part(const Product *p, int64_t panel, int64_t end_panel, int64_t row, int64_t end_row) {
    for (; row < end_row; row += ROWS_AT_ONCE)
        rows_of(p, panel, end_panel, row, end_row - row < ROWS_AT_ONCE ? end_row : row + ROWS_AT_ONCE);
}

/* What one of the threads does: some of the rows if there are many, else some of the panels. */
static void share(const Product *p, int64_t number, int64_t threads) {
    const int64_t panels = (p->columns + PANEL - 1) / PANEL, tiles = (p->rows + ROWS - 1) / ROWS;
    const int by_rows = tiles >= panels;
    const int64_t parts = by_rows ? tiles : panels;
    const int64_t first = parts * number / threads, end = parts * (number + 1) / threads;
    if (by_rows) part(p, 0, panels, first * ROWS, end * ROWS < p->rows ? end * ROWS : p->rows);
    else part(p, first, end, 0, p->rows);
}

/* The threads are those of OpenMP that PyTorch has loaded and computes with: others would wait for them, as they go on
   looking for work for a while. Where there are none one thread does all. */
#if defined(__linux__)
#define WEAK __attribute__((weak))
extern WEAK void GOMP_parallel(void (*)(void *), void *, unsigned, unsigned);
extern WEAK int omp_get_thread_num(void), omp_get_num_threads(void);
#define HAS_TEAM (GOMP_parallel && omp_get_thread_num && omp_get_num_threads)

typedef struct { const Product *product; int64_t shares; } Work;

static void do_shares(void *given) {
    const Work *work = given;
    for (int64_t number = omp_get_thread_num(); number < work->shares; number += omp_get_num_threads())
        share(work->product, number, work->shares);
}
#endif

/* y = a + x W^T; `a` may be y itself. A row of y does not depend on how many there are. */
void nnet3_panel_product(int64_t rows, int64_t columns, int64_t inner, float *y, int64_t of_y, const float *x,
                         int64_t of_x, const float *a, int64_t of_a, const float *panels, int64_t threads) {
    const Product product = {rows, columns, inner, y, x, a, panels, of_y, of_x, of_a};
#if defined(__linux__)
    if (threads > 1 && HAS_TEAM) {
        Work work = {&product, threads};
        GOMP_parallel(do_shares, &work, (unsigned)threads, 0);
        return;
    }
#else
    (void)threads;
#endif
    share(&product, 0, 1);
}

int64_t nnet3_columns_of_panel(void) { return PANEL; }
