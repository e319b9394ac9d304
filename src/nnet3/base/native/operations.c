/* Operations on float32 matrices of few rows, and the loop that runs a row of them: the steps of a recurrence.

   A matrix is rows of floats; rows lie `stride` floats apart (0: each row is the same one). An operation writes matrix 0,
   which lies where a matrix that it reads lies, or nowhere near. nnet3/native/operations.py makes the tables. Panels of
   PACK lie in scratch memory, from `stride[SCRATCH]` on, as do those of PANELS, unless they are matrix 2. */

#include "numbers.h"
#include "vectors.h"

#define MATRICES 6
#define SCRATCH 5
#define FEWEST_FOR_THREADS (1 << 21) /* multiplications */

typedef struct {
    int64_t code, rows, columns, inner;
    double number;
    float *matrix[MATRICES];
    int64_t stride[MATRICES];
} Operation;

enum { NNET3_CODES }; /* COPY, FILL, ...: nnet3/native/codes.py */

void nnet3_panel_product(int64_t rows, int64_t columns, int64_t inner, float *y, int64_t of_y, const float *x, int64_t of_x,
                         const float *a, int64_t of_a, const float *panels, int64_t of_panel, int64_t threads);
int64_t nnet3_columns_of_panel(void);
void nnet3_lstm(int64_t rows, int64_t dim, float *y, int64_t of_y, const float *x, int64_t of_x, const float *w,
                int64_t scaled);
void nnet3_gru(int64_t dim, float *h, const float *part, const float *w, const float *previous, const float *z, float *c);
void nnet3_normalize_rows(int64_t rows, int64_t columns, float *y, int64_t of_y, const float *x, int64_t of_x, float target);

/* ---- products ---- */

typedef float Quarter __attribute__((vector_size(16)));

INLINED float sum_of(Vector vector) {
    union { Vector whole; Quarter parts[LANES / 4]; } all = {vector};
    for (int count = LANES / 8; count > 0; count /= 2)
        for (int part = 0; part < count; part++) all.parts[part] += all.parts[part + count];
    const Quarter four = all.parts[0];
    return (four[0] + four[2]) + (four[1] + four[3]);
}

/* Chains of additions that do not wait for each other; as many as four rows of x have registers for, and one row needs. */
#define CHAINS (32 / LANES)

/* sums[row] = x_row . w for so many rows of x, in so many chains; both are constants, so that all of `chain` are
   registers. */
INLINED void dots(const int rows, const int chains, const float *x, int64_t stride, const float *w, int64_t count,
                  float *sums) {
    Vector chain[4][CHAINS] = {{{0.0f}}};
    int64_t i = 0;
    for (; i + LANES * chains <= count; i += LANES * chains)
        for (int c = 0; c < chains; c++)
            for (int row = 0; row < rows; row++)
                chain[row][c] += load(x + row * stride + i + LANES * c) * load(w + i + LANES * c);
    for (int row = 0; row < rows; row++) {
        for (int c = chains / 2; c > 0; c /= 2)
            for (int part = 0; part < c; part++) chain[row][part] += chain[row][part + c];
        sums[row] = sum_of(chain[row][0]);
        for (int64_t rest = i; rest < count; rest++) sums[row] += x[row * stride + rest] * w[rest];
    }
}

/* Rows of y = a + n x W^T for W whose columns of y lie side by side: (inner, columns) in memory. Those of x lie `step`
   floats apart. */
typedef struct {
    int64_t rows, columns, inner;
    float n, *y;
    const float *a, *x, *w;
    int64_t of_y, of_a, of_x, step, of_w;
} Combination;

/* Some rows and some columns, a constant number of rows and of vectors; the last one has `count` columns. Without
   reading behind W, which ends with the columns of the last inner number. */
INLINED void combine_some(const int rows, const int vectors, int64_t count, const Combination *p, int64_t row, int64_t j) {
    const int64_t behind = j + vectors * LANES - p->columns; /* numbers that are read and not used */
    const int64_t whole = behind <= 0 ? p->inner : p->of_w > 0 ? p->inner - (behind + p->of_w - 1) / p->of_w : 0;
    const float *x = p->x + row * p->of_x, *w = p->w + j;
    Vector sums[4][2] = {{{0.0f}}};
    for (int64_t i = 0; i < p->inner; i++, x += p->step, w += p->of_w) {
        Vector weights[2] = {{0.0f}};
        if (i < whole) for (int k = 0; k < vectors; k++) weights[k] = load(w + k * LANES);
        else memcpy(weights, w, (size_t)((vectors - 1) * LANES + count) * sizeof(float));
        for (int r = 0; r < rows; r++)
            for (int k = 0; k < vectors; k++) sums[r][k] += x[r * p->of_x] * weights[k];
    }
    for (int r = 0; r < rows; r++) {
        float *y = p->y + (row + r) * p->of_y + j;
        const float *a = p->a ? p->a + (row + r) * p->of_a + j : 0;
        for (int k = 0; k < vectors; k++, y += LANES) {
            if (k == vectors - 1 && count < LANES) {
                for (int64_t lane = 0; lane < count; lane++) y[lane] = (a ? a[lane] : 0.0f) + p->n * sums[r][k][lane];
                continue;
            }
            const Vector sum = a ? load(a) + p->n * sums[r][k] : p->n * sums[r][k];
            memcpy(y, &sum, sizeof sum);
            if (a) a += LANES;
        }
    }
}

static void combine(const Combination *p) {
    for (int64_t row = 0, rows; row < p->rows; row += rows) {
        rows = p->rows - row >= 4 ? 4 : 1;
        for (int64_t j = 0; j < p->columns; j += 2 * LANES) {
            const int64_t left = p->columns - j, of_last = left > LANES ? left - LANES : left;
            const int64_t count = of_last < LANES ? of_last : LANES;
            if (left > LANES) {
                if (rows == 4) combine_some(4, 2, count, p, row, j);
                else combine_some(1, 2, count, p, row, j);
            } else if (rows == 4) combine_some(4, 1, count, p, row, j);
            else combine_some(1, 1, count, p, row, j);
        }
    }
}

#define SOME 64

/* y = a + n x W^T; matrices y (rows, columns), x (rows, inner), W (columns, inner), a (rows, columns) or none. A row of W
   comes from memory once and is multiplied by all rows of x. */
static void product(const Operation *op, float *const *at) {
    const int64_t *stride = op->stride, inner = op->inner;
    const float number = (float)op->number;
    float sums[4];
    if (inner < LANES && op->rows > 4) { /* too short for dots: some columns of y at a time, with W turned round */
        float turned[LANES * SOME];
        for (int64_t j = 0; j < op->columns; j += SOME) {
            const int64_t some = op->columns - j < SOME ? op->columns - j : SOME;
            for (int64_t i = 0; i < inner; i++)
                for (int64_t k = 0; k < some; k++) turned[i * some + k] = at[2][(j + k) * stride[2] + i];
            combine(&(Combination){op->rows, some, inner, number, at[0] + j, at[3] ? at[3] + j : 0, at[1], turned,
                                   stride[0], stride[3], stride[1], 1, some});
        }
        return;
    }
    for (int64_t j = 0; j < op->columns; j++)
        for (int64_t row = 0, some; row < op->rows; row += some) {
            const int64_t left = op->rows - row;
            const float *x = at[1] + row * stride[1], *w = at[2] + j * stride[2];
            some = left >= 4 ? 4 : left >= 2 ? 2 : 1;
            if (some == 4) dots(4, CHAINS / 2, x, stride[1], w, inner, sums);
            else if (some == 2) dots(2, CHAINS, x, stride[1], w, inner, sums);
            else dots(1, CHAINS, x, stride[1], w, inner, sums);
            for (int64_t k = 0; k < some; k++)
                at[0][(row + k) * stride[0] + j] = number * sums[k] + (at[3] ? at[3][(row + k) * stride[3] + j] : 0.0f);
        }
}

/* Panels of number W, as panels.c has them; columns of y lie `stride[2]` apart in W, those of x `stride[3]`. */
static void pack(const Operation *op, const float *w, float *panels) {
    const int64_t width = nnet3_columns_of_panel(), of_column = op->stride[2], of_inner = op->stride[3];
    const float number = (float)op->number;
    for (int64_t first = 0; first < op->columns; first += width, panels += width * op->inner, w += width * of_column) {
        const int64_t count = op->columns - first < width ? op->columns - first : width;
        if (count < width) memset(panels, 0, (size_t)(width * op->inner) * sizeof(float));
        if (of_column == 1)
            for (int64_t i = 0; i < op->inner; i++)
                EACH (int64_t k = 0; k < count; k++) panels[i * width + k] = number * w[i * of_inner + k];
        else
            for (int64_t i = 0; i < op->inner; i++)
                for (int64_t k = 0; k < count; k++) panels[i * width + k] = number * w[i * of_inner + k * of_column];
    }
}

/* y = a + n sum of rows of x, by element times those of z if there is z */
static void sum_rows(const Operation *op, float *const *at) {
    float *y = at[0], *const a = at[3];
    const float number = (float)op->number;
    for (int64_t first = 0; first < op->columns; first += LANES) {
        const int64_t count = op->columns - first < LANES ? op->columns - first : LANES;
        float sums[LANES] = {0.0f};
        for (int64_t row = 0; row < op->rows; row++) {
            const float *x = at[1] + row * op->stride[1] + first, *z = at[2] ? at[2] + row * op->stride[2] + first : 0;
            if (z) EACH (int64_t k = 0; k < count; k++) sums[k] += x[k] * z[k];
            else EACH (int64_t k = 0; k < count; k++) sums[k] += x[k];
        }
        for (int64_t k = 0; k < count; k++) y[first + k] = (a ? a[first + k] : 0.0f) + number * sums[k];
    }
}

/* ---- rows ---- */

#define ELEMENTS(value) EACH (int64_t j = 0; j < columns; j++) y[j] = value
/* The same, added to matrix 3 if there is one. */
#define ADDING(value) if (c) ELEMENTS(c[j] + (value)); else ELEMENTS(value)

static void run_row(const Operation *op, float *const *at) {
    const int64_t columns = op->columns;
    const float number = (float)op->number;
    float *y = at[0];
    const float *a = at[1], *b = at[2], *c = at[3];
    switch (op->code) {
    case COPY: if (y != a) memcpy(y, a, (size_t)columns * sizeof(float)); break;
    case FILL: ELEMENTS(number); break;
    case ADD: ELEMENTS(b[j] + number * a[j]); break;
    case SCALE: ELEMENTS(number * a[j]); break;
    case MULTIPLY: ADDING(number * a[j] * b[j]); break;
    case SIGMOID: ELEMENTS(sigmoid(a[j])); break;
    case TANH: ELEMENTS(hyperbolic_tangent(a[j])); break;
    case RELU: ELEMENTS(a[j] < 0.0f ? 0.0f : a[j]); break;
    case SIGMOID_BACK: ADDING(a[j] * b[j] * (1.0f - b[j])); break;
    case TANH_BACK: ADDING(a[j] * (1.0f - b[j] * b[j])); break;
    case RELU_BACK: ADDING(a[j] * (b[j] > 0.0f ? 1.0f : 0.0f)); break;
    case GRU: nnet3_gru(columns, y, a, b, at[3], at[4], at[5]); break;
    }
}

/* Runs an operation on whole matrices; returns 0 if it is one on rows. */
static int run_whole(const Operation *op, float *const *at, float *scratch, int64_t threads) {
    const int64_t *stride = op->stride, rows = op->rows, columns = op->columns, inner = op->inner;
    switch (op->code) {
    case PRODUCT: product(op, at); return 1;
    case SUM_ROWS: sum_rows(op, at); return 1;
    case NORMALIZE: nnet3_normalize_rows(rows, columns, at[0], stride[0], at[1], stride[1], (float)op->number); return 1;
    case LSTM: nnet3_lstm(rows, columns, at[0], stride[0], at[1], stride[1], at[2], inner); return 1;
    case PACK: pack(op, at[2], scratch + stride[SCRATCH]); return 1;
    case COMBINE:
        combine(&(Combination){rows, columns, inner, (float)op->number, at[0], at[3], at[1], at[2], stride[0], stride[3],
                               stride[1], stride[4], stride[2]});
        return 1;
    case PANELS:
        if (rows * columns * inner < FEWEST_FOR_THREADS) threads = 1;
        nnet3_panel_product(rows, columns, inner, at[0], stride[0], at[1], stride[1], at[3], stride[3],
                            at[2] ? at[2] : scratch + stride[SCRATCH],
                            at[2] ? stride[2] : nnet3_columns_of_panel() * inner, threads);
        return 1;
    }
    return 0;
}

/* How an operation changes from iteration to iteration: each matrix begins `of_iteration` floats further on an iteration, and `of_row` times
   the first of the rows [first, first + count) that stand for the iteration in a table; rows, columns and the inner size may be
   the count of a table. No table is -1. */
typedef struct {
    int64_t of_iteration[MATRICES], of_row[MATRICES], table[MATRICES], counted[3];
} Moves;
typedef int64_t Block[2];

INLINED Operation in_iteration(const Operation *op, const Moves *moves, const Block *const *tables, int64_t iteration) {
    Operation now = *op;
    for (int m = 0; m < MATRICES; m++) {
        if (!now.matrix[m]) continue;
        now.matrix[m] += iteration * moves->of_iteration[m];
        if (moves->table[m] >= 0) now.matrix[m] += tables[moves->table[m]][iteration][0] * moves->of_row[m];
    }
    int64_t *const sizes[3] = {&now.rows, &now.columns, &now.inner};
    for (int k = 0; k < 3; k++)
        if (moves->counted[k] >= 0) *sizes[k] = tables[moves->counted[k]][iteration][1];
    return now;
}

/* Runs operations [first, end) in each of the iterations [iteration, end_iteration). */
void nnet3_run(const Operation *operations, const Moves *moves, const Block *const *tables, int64_t first, int64_t end,
               int64_t iteration, int64_t end_iteration, float *scratch, int64_t threads) {
    for (; iteration < end_iteration; iteration++)
        for (int64_t number = first; number < end; number++) {
            Operation op = in_iteration(&operations[number], &moves[number], tables, iteration);
            if (run_whole(&op, op.matrix, scratch, threads)) continue;
            for (int64_t row = 0; row < op.rows; row++) {
                run_row(&op, op.matrix);
                for (int m = 0; m < MATRICES; m++)
                    if (op.matrix[m]) op.matrix[m] += op.stride[m];
            }
        }
}

int64_t nnet3_size_of_operation(void) { return sizeof(Operation); }
