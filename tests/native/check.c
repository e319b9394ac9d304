/* Native code beside plain loops of double, for processors on which the tests in Python do not run: products of many
   sizes, elements, sums, a loop, cells, classes, words ahead. Exit status 1 and a line for each difference. See the target
   `native-others`. */

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NNET3_CODES };

typedef struct {
    int64_t code, rows, columns, inner;
    double number;
    float *matrix[6];
    int64_t stride[6];
} Operation;

typedef struct {
    int64_t of_iteration[6], of_row[6], table[6], counted[3];
} Moves;

typedef int64_t Block[2];

typedef struct { int64_t offset, begin_y, end_y, begin_x, end_x, step_x; } Rows; /* those of a term, where it is added */

void nnet3_run(const Operation *, const Moves *, const Block *const *, int64_t, int64_t, int64_t, int64_t, float *, int64_t);
void nnet3_product(int64_t rows, int64_t columns, int64_t inner, float *y, int64_t of_y, const float *x, int64_t of_x,
                   int64_t step_of_x, const float *w, int64_t of_w, int64_t step_of_w, const float *a, int64_t of_a,
                   float alpha, int64_t threads);
void nnet3_lstm(int64_t, int64_t, float *, int64_t, const float *, int64_t, const float *, int64_t);
void nnet3_lstm_backward(int64_t, int64_t, const float *, int64_t, const float *, int64_t, float *, int64_t, const float *,
                         int64_t, const float *, float *);
void nnet3_lstm_layer(int64_t, int64_t, const int64_t *, int64_t, float *, int64_t, const float *, const float *, int64_t);
void nnet3_lstm_layer_backward(int64_t, int64_t, const int64_t *, int64_t, const float *, float *, int64_t, const float *,
                               const float *, int64_t);
void nnet3_moments(int64_t, int64_t, const float *, int64_t, double *, double *);
void nnet3_normalize_columns(int64_t, int64_t, float *, int64_t, const float *, int64_t, const float *, const float *);
void nnet3_batch_norm_sums(int64_t, int64_t, const float *, int64_t, const float *, int64_t, const float *, const float *,
                           double *, double *);
void nnet3_batch_norm_backward(int64_t, int64_t, float *, int64_t, const float *, int64_t, const float *, int64_t,
                               const float *, const float *, const float *, const float *);
void nnet3_batch_norm(int64_t, int64_t, int64_t, float *, int64_t, const float *, int64_t, float, float, float *, float *,
                      float *);
void nnet3_batch_norm_deriv(int64_t, int64_t, int64_t, float *, int64_t, const float *, int64_t, const float *, int64_t,
                            const float *, const float *, float);
void nnet3_normalize_rows_backward(int64_t, int64_t, float *, int64_t, const float *, int64_t, const float *, int64_t, float,
                                   float);
void nnet3_dropout_backward(int64_t, int64_t, float *, int64_t, const float *, int64_t, const float *, int64_t, const float *,
                            int64_t);
void nnet3_make_panels(int64_t, int64_t, float *, const float *, int64_t, int64_t);
int64_t nnet3_sum_of_blocks(int64_t, int64_t, int64_t, int64_t, float *, int64_t, const float *, int64_t, const float *,
                            const float *const *, int64_t, int64_t, const Rows *, int64_t, int64_t, int64_t);
void nnet3_output_gru(int64_t, int64_t, float *, int64_t, const float *, int64_t, const float *);
void nnet3_output_gru_backward(int64_t, int64_t, const float *, int64_t, const float *, int64_t, const float *, int64_t,
                               float *, int64_t, const float *);
void nnet3_output_sums(int64_t, int64_t, int64_t, const float *, int64_t, double *, double *);
void nnet3_output_backward(int64_t, int64_t, int64_t, float *, int64_t, const float *, int64_t, const float *, int64_t,
                           double *);
int64_t nnet3_are_classes(int64_t, const float *, int64_t);
int64_t nnet3_sum_chosen(int64_t, int64_t, int64_t, const int64_t *, const int64_t *, const int64_t *, float *, int64_t,
                         const float *, int64_t, int64_t);
int64_t nnet3_class_cross_entropy(int64_t, int64_t, float *, const float *, int64_t, const float *, int64_t, float *);
void nnet3_class_cross_entropy_backward(int64_t, int64_t, float *, int64_t, const float *, const float *, int64_t,
                                        const float *, int64_t);
void nnet3_words_of_intervals(int64_t, const int64_t *, const int64_t *, const int64_t *, const int32_t *, const int32_t *,
                              const int64_t *, const int64_t *, const double *, const double *, int64_t *, double *,
                              int64_t *);
int64_t nnet3_columns_of_panel(void);
int64_t nnet3_size_of_operation(void);

static int differences;
static uint64_t state = 1;

static float number(void) {
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (float)((double)(state >> 33) / (double)(UINT64_C(1) << 30) - 1.0);
}

static float *numbers(int64_t count) {
    float *made = malloc((size_t)(count + 64) * sizeof(float));
    for (int64_t k = 0; k < count + 64; k++) made[k] = number();
    return made;
}

static void compare(const char *what, int64_t size, double found, double expected, double bound) {
    if (fabs(found - expected) <= bound) return;
    printf("%s of size %lld: %g for %g\n", what, (long long)size, found, expected);
    differences++;
}

static void run(Operation operation, int64_t iterations, int64_t of_iteration) {
    Moves moves = {{0}, {0}, {-1, -1, -1, -1, -1, -1}, {-1, -1, -1}};
    for (int m = 0; m < 6; m++) moves.of_iteration[m] = operation.matrix[m] ? of_iteration : 0;
    nnet3_run(&operation, &moves, 0, 0, 1, 0, iterations, 0, 1);
}

static void products(int64_t rows, int64_t columns, int64_t inner) {
    float *x = numbers(rows * inner), *w = numbers(columns * inner), *a = numbers(columns), *y = numbers(rows * columns);
    float *same = numbers(rows * columns);
    nnet3_product(rows, columns, inner, y, columns, x, inner, 1, w, inner, 1, a, 0, 1.0f, 1);
    Operation op = {PRODUCT, rows, columns, inner, 1.0, {same, x, w, a}, {columns, inner, inner, 0}};
    run(op, 1, 0);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) {
            double sum = a[j];
            for (int64_t k = 0; k < inner; k++) sum += (double)x[i * inner + k] * w[j * inner + k];
            compare("product by panels", columns, y[i * columns + j], sum, 1e-5 * (1.0 + (double)inner));
            compare("product by rows", columns, same[i * columns + j], sum, 1e-5 * (1.0 + (double)inner));
        }
    free(x), free(w), free(a), free(y), free(same);
}

/* Rows of a loop: each iteration works on the next row. */
static void elements(int64_t columns) {
    const int64_t rows = 5;
    float *x = numbers(rows * columns), *y = numbers(rows * columns);
    for (int64_t k = 0; k < rows * columns; k++) x[k] *= 20.0f;
    run((Operation){SIGMOID, 1, columns, 0, 0.0, {y, x}, {columns, columns}}, rows, columns);
    for (int64_t k = 0; k < rows * columns; k++) compare("sigmoid", columns, y[k], 1.0 / (1.0 + exp(-(double)x[k])), 1e-6);
    run((Operation){TANH, rows, columns, 0, 0.0, {y, x}, {columns, columns}}, 1, 0);
    for (int64_t k = 0; k < rows * columns; k++) compare("tanh", columns, y[k], tanh((double)x[k]), 1e-6);
    run((Operation){SUM_ROWS, rows, columns, 0, 2.0, {y, x}, {0, columns}}, 1, 0);
    for (int64_t j = 0; j < columns; j++) {
        double sum = 0.0;
        for (int64_t i = 0; i < rows; i++) sum += 2.0 * x[i * columns + j];
        compare("sum of rows", columns, y[j], sum, 1e-4);
    }
    run((Operation){NORMALIZE, rows, columns, 0, 1.0, {y, x}, {columns, columns}}, 1, 0);
    for (int64_t i = 0; i < rows; i++) {
        double square = 0.0;
        for (int64_t j = 0; j < columns; j++) square += (double)x[i * columns + j] * x[i * columns + j];
        for (int64_t j = 0; j < columns; j++)
            compare("row of norm 1", columns, y[i * columns + j], x[i * columns + j] / sqrt(square / (double)columns), 1e-4);
    }
    free(x), free(y);
}

/* Cells of an LSTM side by side, whose loops are vectors, beside each cell alone. */
static void cells(int64_t dim) {
    const int64_t rows = 3;
    float *x = numbers(rows * 5 * dim), *dy = numbers(rows * 2 * dim), *w = numbers(3 * dim), *repair = numbers(10 * dim);
    float *y = numbers(rows * 2 * dim), *dx = numbers(rows * 5 * dim), *sums = calloc((size_t)(13 * dim), sizeof(float));
    nnet3_lstm(rows, dim, y, 2 * dim, x, 5 * dim, w, 0);
    nnet3_lstm_backward(rows, dim, x, 5 * dim, dy, 2 * dim, dx, 5 * dim, w, 0, repair, sums);
    for (int64_t j = 0; j < dim; j++) {
        float of_w[3], of_repair[10], total[13] = {0.0f};
        for (int64_t k = 0; k < 3; k++) of_w[k] = w[k * dim + j];
        for (int64_t k = 0; k < 10; k++) of_repair[k] = repair[k * dim + j];
        for (int64_t row = 0; row < rows; row++) {
            float of_x[5], of_dy[2], of_y[2], of_dx[5];
            for (int64_t k = 0; k < 5; k++) of_x[k] = x[(row * 5 + k) * dim + j];
            for (int64_t k = 0; k < 2; k++) of_dy[k] = dy[(row * 2 + k) * dim + j];
            nnet3_lstm(1, 1, of_y, 2, of_x, 5, of_w, 0);
            nnet3_lstm_backward(1, 1, of_x, 5, of_dy, 2, of_dx, 5, of_w, 0, of_repair, total);
            for (int64_t k = 0; k < 2; k++) compare("cells of an LSTM", dim, y[(row * 2 + k) * dim + j], of_y[k], 1e-6);
            for (int64_t k = 0; k < 5; k++) compare("their derivatives", dim, dx[(row * 5 + k) * dim + j], of_dx[k], 1e-5);
        }
        for (int64_t k = 0; k < 13; k++) compare("sums over rows", dim, sums[k * dim + j], total[k], 1e-5);
    }
    free(x), free(dy), free(w), free(repair), free(y), free(dx), free(sums);
}

/* Two frames of an LSTM, the second of which has a row less, beside their products and cells. */
static void layer(int64_t dim) {
    const int64_t most = 3, counts[2] = {3, 2}, of_row = 6 * dim + 1, size = 3 * most * of_row, width = nnet3_columns_of_panel();
    float *values = numbers(size), *derivs = numbers(size), *expected = numbers(size);
    float *w = calloc((size_t)(3 * dim), sizeof(float));
    float *r = numbers(4 * dim * dim), *panels = numbers((4 * dim + width) * dim), *turned = numbers(4 * (dim + width) * dim);
    nnet3_make_panels(4 * dim, dim, panels, r, dim, 1);
    nnet3_make_panels(dim, 4 * dim, turned, r, 1, dim);
    memcpy(expected, values, (size_t)size * sizeof(float));
    nnet3_lstm_layer(2, most, counts, dim, values, of_row, panels, w, 1);
    for (int64_t t = 0; t < 2; t++)
        for (int64_t row = t * most; row < t * most + counts[t]; row++) {
            float *x = expected + row * of_row;
            for (int64_t j = 0; j < 4 * dim; j++)
                for (int64_t k = 0; k < dim; k++) x[j] += r[j * dim + k] * x[5 * dim + k];
            nnet3_lstm(1, dim, x + most * of_row + 4 * dim, of_row, x, of_row, w, 0);
        }
    for (int64_t k = 0; k < size; k++) compare("frames of an LSTM", dim, values[k], expected[k], 1e-4);
    memcpy(expected, derivs, (size_t)size * sizeof(float));
    nnet3_lstm_layer_backward(2, most, counts, dim, values, derivs, of_row, turned, w, 1);
    for (int64_t t = 1; t >= 0; t--)
        for (int64_t row = t * most; row < t * most + counts[t]; row++) {
            float *x = values + row * of_row, *dx = expected + row * of_row, *dy = dx + most * of_row + 4 * dim;
            nnet3_lstm_backward(1, dim, x, of_row, dy, of_row, dx, of_row, w, 0, 0, 0);
            for (int64_t k = 0; k < dim; k++)
                for (int64_t j = 0; j < 4 * dim; j++) dx[5 * dim + k] += r[j * dim + k] * dx[j];
        }
    for (int64_t k = 0; k < size; k++) compare("frames of its derivatives", dim, derivs[k], expected[k], 1e-3);
    free(values), free(derivs), free(expected), free(w), free(r), free(panels), free(turned);
}

/* Derivatives of rows of one norm, and of dropout, beside each element alone. */
static void rows_of_layers(int64_t columns) {
    const int64_t rows = 3;
    float *x = numbers(rows * columns), *g = numbers(rows * columns), *y = numbers(rows * columns);
    float *of_norm = numbers(rows * columns), *of_mask = numbers(rows * columns);
    nnet3_normalize_rows_backward(rows, columns, of_norm, columns, x, columns, g, columns, (float)columns, 1e-9f);
    nnet3_dropout_backward(rows, columns, of_mask, columns, x, columns, y, columns, g, columns);
    for (int64_t row = 0; row < rows; row++) {
        double square = 0.0, dot = 0.0;
        for (int64_t k = row * columns; k < (row + 1) * columns; k++) square += (double)x[k] * x[k], dot += (double)x[k] * g[k];
        const double f = sqrt((double)columns / square), bound = 1e-4 * f * (1.0 + f * f);
        for (int64_t k = row * columns; k < (row + 1) * columns; k++) {
            compare("derivative of a norm", columns, of_norm[k], f * (g[k] - dot * x[k] / square), bound);
            compare("derivative of dropout", columns, of_mask[k], (double)g[k] * y[k] / x[k], 1e-5 * fabs(y[k] / x[k]));
        }
    }
    free(x), free(g), free(y), free(of_norm), free(of_mask);
}

/* Batch-norm of columns side by side beside each column alone, forward and backward. */
static void batch_norm(int64_t columns) {
    const int64_t rows = 15;
    float *x = numbers(rows * columns), *g = numbers(rows * columns), *y = numbers(rows * columns);
    float *dx = numbers(rows * columns), *mean = numbers(columns), *scale = numbers(columns), *factor = numbers(columns);
    double *sums = calloc((size_t)(4 * columns), sizeof(double));
    nnet3_moments(rows, columns, x, columns, sums, sums + columns);
    nnet3_normalize_columns(rows, columns, y, columns, x, columns, mean, scale);
    nnet3_batch_norm_sums(rows, columns, x, columns, g, columns, mean, scale, sums + 2 * columns, sums + 3 * columns);
    nnet3_batch_norm_backward(rows, columns, dx, columns, y, columns, g, columns, 0, scale, mean, factor);
    for (int64_t j = 0; j < columns; j++) {
        double total[4] = {0.0};
        for (int64_t row = 0; row < rows; row++) {
            const double value = x[row * columns + j], deriv = g[row * columns + j];
            const double normal = (value - mean[j]) * scale[j];
            total[0] += value, total[1] += value * value, total[2] += deriv, total[3] += deriv * normal;
            compare("batch-norm", columns, y[row * columns + j], normal, 1e-5);
            compare("its derivative", columns, dx[row * columns + j], (deriv - mean[j] - factor[j] * normal) * scale[j], 1e-5);
        }
        for (int64_t k = 0; k < 4; k++) compare("sums of batch-norm", columns, sums[k * columns + j], total[k], 1e-4);
    }
    free(x), free(g), free(y), free(dx), free(mean), free(scale), free(factor), free(sums);
}

/* Batch-norm from its input beside its derivative from the output, in place: both use mean and scale of the columns. */
static void batch_norm_by_moments(int64_t columns) {
    const int64_t rows = 15;
    const float target = 0.5f;
    float *x = numbers(rows * columns), *g = numbers(rows * columns), *y = numbers(rows * columns);
    float *mean = numbers(columns), *variance = numbers(columns), *scale = numbers(columns), *dx = numbers(rows * columns);
    nnet3_batch_norm(rows, 1, columns, y, columns, x, columns, 1e-3f, target, mean, variance, scale);
    nnet3_batch_norm_deriv(rows, 1, columns, dx, columns, x, columns, g, columns, mean, scale, target);
    nnet3_batch_norm_deriv(rows, 1, columns, g, columns, y, columns, g, columns, 0, scale, target);
    for (int64_t j = 0; j < columns; j++) {
        double total = 0.0, square = 0.0;
        for (int64_t row = 0; row < rows; row++) {
            const double value = y[row * columns + j];
            total += value, square += value * value;
            compare("derivative of batch-norm", columns, dx[row * columns + j], g[row * columns + j], 1e-4);
        }
        compare("mean of batch-norm", columns, total / rows, 0.0, 1e-5);
        compare("square of batch-norm", columns, square / rows, target * target * variance[j] / (variance[j] + 1e-3), 1e-4);
    }
    free(x), free(g), free(y), free(mean), free(variance), free(scale), free(dx);
}

/* A sum of products of rows at two offsets, the second of which has a row less. */
static void offsets(int64_t columns, int64_t inner) {
    const int64_t rows = 9, width = nnet3_columns_of_panel(), of_panel = inner * width;
    float *x = numbers((rows + 2) * inner), *w = numbers(2 * columns * inner), *b = numbers(columns);
    float *y = numbers(rows * columns);
    float *one = numbers((columns + width) * inner), *other = numbers((columns + width) * inner);
    const float *const panels[2] = {one, other};
    const Rows terms[2] = {{0, 0, 0, 1, -1, 1}, {1, 1, 0, 2, -1, 1}};
    nnet3_make_panels(columns, inner, one, w, inner, 1);
    nnet3_make_panels(columns, inner, other, w + columns * inner, inner, 1);
    if (!nnet3_sum_of_blocks(rows, rows + 2, columns, inner, y, columns, x, inner, b, panels, 2, of_panel, terms, 2, 0, 1))
        compare("terms that are taken", columns, 0, 1, 0);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) {
            double sum = b[j];
            for (int64_t k = 0; k < inner; k++) {
                sum += (double)x[(i + 1) * inner + k] * w[j * inner + k];
                if (i) sum += (double)x[(i + 1) * inner + k] * w[(columns + j) * inner + k];
            }
            compare("product at offsets", columns, y[i * columns + j], sum, 1e-5 * (1.0 + (double)inner));
        }
    free(x), free(w), free(b), free(y), free(one), free(other);
}

/* A GRU with output layer: z, the recurrent part of c, and x behind them; c' times w is added to that part. */
static void gru(int64_t dim) {
    const int64_t rows = 3;
    float *x = numbers(rows * 3 * dim), *w = numbers(dim), *y = numbers(rows * 2 * dim);
    float *dy = numbers(rows * 2 * dim), *dx = numbers(rows * 3 * dim);
    nnet3_output_gru(rows, dim, y, 2 * dim, x, 3 * dim, w);
    nnet3_output_gru_backward(rows, dim, x, 3 * dim, y, 2 * dim, dy, 2 * dim, dx, 3 * dim, w);
    for (int64_t row = 0; row < rows; row++)
        for (int64_t j = 0; j < dim; j++) {
            const double z = x[3 * row * dim + j], part = x[(3 * row + 1) * dim + j], before = x[(3 * row + 2) * dim + j];
            const double h = tanh(part + w[j] * before), dc = dy[(2 * row + 1) * dim + j];
            const double dpart = (dy[2 * row * dim + j] + (1.0 - z) * dc) * (1.0 - h * h);
            compare("h of a GRU", dim, y[2 * row * dim + j], h, 1e-6);
            compare("c of a GRU", dim, y[(2 * row + 1) * dim + j], (1.0 - z) * h + z * before, 1e-5);
            compare("derivative of z", dim, dx[3 * row * dim + j], (before - h) * dc, 1e-5);
            compare("derivative of the part", dim, dx[(3 * row + 1) * dim + j], dpart, 1e-5);
            compare("derivative of c before", dim, dx[(3 * row + 2) * dim + j], z * dc + w[j] * dpart, 1e-5);
        }
    free(x), free(w), free(y), free(dy), free(dx);
}

/* Sums of outputs of a nonlinearity and of their slopes, derivatives of its inputs, and squares of those of its outputs. */
static void outputs(int64_t code, int64_t columns) {
    const int64_t rows = 15;
    float *y = numbers(rows * columns), *g = numbers(rows * columns), *dx = numbers(rows * columns);
    double *sums = calloc((size_t)(3 * columns), sizeof(double));
    nnet3_output_sums(code, rows, columns, y, columns, sums, sums + columns);
    nnet3_output_backward(code, rows, columns, dx, columns, y, columns, g, columns, sums + 2 * columns);
    for (int64_t j = 0; j < columns; j++) {
        double total[3] = {0.0};
        for (int64_t row = 0; row < rows; row++) {
            const double value = y[row * columns + j], deriv = g[row * columns + j];
            const double slope = code == SIGMOID ? value * (1.0 - value) : code == TANH ? 1.0 - value * value : value > 0.0;
            total[0] += value, total[1] += slope, total[2] += deriv * deriv;
            compare("derivative of a nonlinearity", columns, dx[row * columns + j], deriv * slope, 1e-5);
        }
        for (int64_t k = 0; k < 3; k++) compare("sums of a nonlinearity", columns, sums[k * columns + j], total[k], 1e-4);
    }
    free(y), free(g), free(dx), free(sums);
}

/* Rows of a table that indexes choose, and cross-entropies of classes; an index of -1 chooses nothing. */
static void classes(int64_t columns) {
    const int64_t indexes[5] = {2, -1, 0, 2, 1}, group[5] = {0, 0, 1, 1, 1}, sizes[2] = {1, 3};
    float *table = numbers(3 * columns), *y = numbers(2 * columns), *p = numbers(5 * columns), *dy = numbers(5 * columns);
    float *scores = numbers(5 * columns), wanted[5], value;
    const float of_value = 0.5f;
    if (nnet3_sum_chosen(5, 2, columns, indexes, group, sizes, y, columns, table, columns, 3) != 4)
        compare("chosen rows", columns, 0, 1, 0);
    for (int64_t j = 0; j < columns; j++) {
        compare("a chosen row", columns, y[j], table[2 * columns + j], 1e-6);
        const double mean = (table[j] + (double)table[columns + j] + table[2 * columns + j]) / 3;
        compare("a mean of rows", columns, y[columns + j], mean, 1e-6);
    }
    for (int64_t row = 0; row < 5; row++) wanted[row] = (float)(indexes[row] < columns ? indexes[row] : -1);
    compare("whether they are classes", columns, (double)nnet3_are_classes(5, wanted, columns), 1, 0);
    const int64_t good = nnet3_class_cross_entropy(5, columns, p, scores, columns, wanted, 1, &value);
    compare("rows with classes", columns, (double)good, 5, 0);
    nnet3_class_cross_entropy_backward(5, columns, dy, columns, p, wanted, 1, &of_value, 0);
    double total = 0.0;
    for (int64_t row = 0; row < 5; row++) {
        double sum = 0.0;
        for (int64_t j = 0; j < columns; j++) sum += exp((double)scores[row * columns + j]);
        for (int64_t j = 0; j < columns; j++) {
            const int64_t at = row * columns + j;
            const double part = exp((double)scores[at]) / sum, slope = part - (j == (int64_t)wanted[row]);
            compare("softmax", columns, p[at], part, 1e-6);
            compare("derivative of a score", columns, dy[at], wanted[row] < 0 ? 0 : 0.5 * slope, 1e-6);
            if (j == (int64_t)wanted[row]) total -= log(part);
        }
    }
    compare("cross-entropy", columns, value, total, 1e-4);
    free(table), free(y), free(p), free(dy), free(scores);
}

/* Words of two histories in two intervals of a state, which are not in order. */
static void words(int64_t count) {
    const int64_t state_of[2] = {0, 0}, history[2] = {0, 1}, intervals[2] = {0, 2}, first_arc[3] = {0, count, 2 * count};
    const int32_t begin[2] = {40, 3}, end[2] = {(int32_t)(41 + count), 30};
    int64_t *key = malloc((size_t)(2 * count) * sizeof *key), found[2], arc[2];
    double *mass = malloc((size_t)(4 * count) * sizeof *mass), *before = mass + 2 * count, sum[2];
    for (int64_t k = 0; k < 2 * count; k++) {
        key[k] = (k / count) << 32 | (2 * (k % count) + k / count);
        mass[k] = 1.0 + number(), before[k] = k % count ? before[k - 1] + mass[k - 1] : 0.0;
    }
    nnet3_words_of_intervals(2, state_of, history, intervals, begin, end, first_arc, key, mass, before, found, sum, arc);
    for (int64_t pair = 0; pair < 2; pair++) {
        int64_t expected = 0, last = -1;
        double total = 0.0;
        for (int64_t i = 0; i < 2; i++)
            for (int64_t k = pair * count; k < (pair + 1) * count; k++) {
                const int64_t word = key[k] & 0xffffffff;
                if (word >= begin[i] && word < end[i]) expected++, total += mass[k], last = k;
            }
        compare("words ahead", count, (double)found[pair], (double)expected, 0);
        compare("their masses", count, sum[pair], total, 1e-9);
        compare("the last of them", count, (double)arc[pair], (double)last, 0);
    }
    free(key), free(mass);
}

int main(void) {
    if (nnet3_size_of_operation() != sizeof(Operation)) return 2;
    for (int64_t size = 1; size < 80; size += 1 + size / 9) {
        elements(size);
        cells(size);
        layer(size);
        batch_norm(size);
        batch_norm_by_moments(size);
        rows_of_layers(size);
        gru(size);
        outputs(SIGMOID, size), outputs(TANH, size), outputs(RELU, size);
        classes(size);
        words(size);
        for (int64_t rows = 1; rows < 30; rows += 1 + rows / 3) {
            products(rows, size, 37);
            products(rows, 35, size);
        }
        offsets(size, 37), offsets(35, size);
    }
    products(100, 600, 800);
    printf("%d differences\n", differences);
    return differences != 0;
}
