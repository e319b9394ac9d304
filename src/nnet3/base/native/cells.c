/* The cells of LSTMs and GRUs, forward and backward: what their steps do to elements, some cells at a time, so that all
   in between stays in the first cache. Rows of a matrix lie `of_` floats apart. */

#include "numbers.h"
#include "vectors.h"

int64_t nnet3_columns_of_panel(void);
void nnet3_panel_product(int64_t rows, int64_t columns, int64_t inner, float *y, int64_t of_y, const float *x,
                         int64_t of_x, const float *a, int64_t of_a, const float *panels, int64_t of_panel,
                         int64_t threads);

#define CELLS 128
#define ROWS_AT_ONCE 4 /* whose memory is read side by side */
#define SUMS 13

static const float ONES[3] = {1.0f, 1.0f, 1.0f}; /* the scales of gates without dropout */

/* y = [c | m], x = [I | F | Cp | O | c' | scales of i, f and o if `scaled`], w = [w_ic | w_fc | w_oc]; C = dim */
void nnet3_lstm(int64_t rows, int64_t dim, float *y, int64_t of_y, const float *x, int64_t of_x, const float *w,
                int64_t scaled) {
    for (int64_t row = 0; row < rows; row++, x += of_x, y += of_y) {
        const float *scales = scaled ? x + 5 * dim : ONES;
        const float of_i = scales[0], of_f = scales[1], of_o = scales[2];
        EACH (int64_t j = 0; j < dim; j++) {
            const float previous = x[4 * dim + j];
            const float i = of_i * sigmoid(x[j] + w[j] * previous);
            const float f = of_f * sigmoid(x[dim + j] + w[dim + j] * previous);
            const float c = f * previous + i * hyperbolic_tangent(x[2 * dim + j]);
            y[j] = c;
            y[dim + j] = of_o * sigmoid(x[3 * dim + j] + w[2 * dim + j] * c) * hyperbolic_tangent(c);
        }
    }
}

/* Factors of the five values, then offsets, (10, dim), as the next functions have them: config is five thresholds, below
   which a mean of derivatives is repaired, and five scales. Factors of sigmoids, 2 v - 1, are twice as large. */
void nnet3_lstm_repair(int64_t dim, float *repair, const double *deriv_sum, double count, const float *config) {
    for (int64_t k = 0; k < 5; k++) {
        const float is_sigmoid = k == 2 || k == 4 ? 0.0f : 1.0f, scale = config[5 + k] * (1.0f + is_sigmoid);
        EACH (int64_t j = 0; j < dim; j++) {
            const float factor = deriv_sum[k * dim + j] / count < (double)config[k] ? scale : 0.0f;
            repair[k * dim + j] = factor;
            repair[(k + 5) * dim + j] = factor * (0.5f * is_sigmoid);
        }
    }
}

/* The values i, f, tanh(Cp), o, tanh(c) of some cells, their c, and the derivatives of I, F, Cp, O and c'. A value v has
   a factor and an offset in `repair` (10, dim), if `repairs`, and factor v - offset is subtracted from the derivative. */
static inline __attribute__((always_inline)) void lstm_backward(
    const int repairs, int64_t count, int64_t dim, const float *x, const float *scales, const float *dy, const float *w,
    const float *repair, float values[5][CELLS], float derivs[5][CELLS], float *cells) {
    const float of_i = scales[0], of_f = scales[1], of_o = scales[2];
#define REPAIR(value, k) (repairs ? repair[(k) * dim + j] * (value) - repair[((k) + 5) * dim + j] : 0.0f)
    EACH (int64_t j = 0; j < count; j++) {
        const float previous = x[4 * dim + j];
        const float i = sigmoid(x[j] + w[j] * previous);
        const float f = sigmoid(x[dim + j] + w[dim + j] * previous);
        const float candidate = hyperbolic_tangent(x[2 * dim + j]);
        const float c = of_f * f * previous + of_i * i * candidate;
        const float o = sigmoid(x[3 * dim + j] + w[2 * dim + j] * c);
        const float tanh_c = hyperbolic_tangent(c);
        const float dm = of_o * dy[dim + j];
        const float d_o = tanh_c * dm * o * (1.0f - o) - REPAIR(o, 3);
        const float dc = o * dm * (1.0f - tanh_c * tanh_c) + dy[j] + d_o * w[2 * dim + j] - REPAIR(tanh_c, 4);
        const float d_i = of_i * dc * candidate * i * (1.0f - i) - REPAIR(i, 0);
        const float d_f = of_f * dc * previous * f * (1.0f - f) - REPAIR(f, 1);
        values[0][j] = i, values[1][j] = f, values[2][j] = candidate, values[3][j] = o, values[4][j] = tanh_c;
        derivs[0][j] = d_i, derivs[1][j] = d_f, derivs[3][j] = d_o;
        derivs[2][j] = of_i * dc * i * (1.0f - candidate * candidate) - REPAIR(candidate, 2);
        derivs[4][j] = of_f * f * dc + d_i * w[j] + d_f * w[dim + j];
        cells[j] = c;
    }
}

/* Derivatives of x, unless dx is 0, from those of y, which are dy. Unless `sums` (13, dim) is 0, over the rows are added
   to it the five values, their squares, and the derivatives of w. */
void nnet3_lstm_backward(int64_t rows, int64_t dim, const float *x, int64_t of_x, const float *dy, int64_t of_dy, float *dx,
                         int64_t of_dx, const float *w, int64_t scaled, const float *repair, float *sums) {
    float values[5][CELLS], derivs[5][CELLS], cells[CELLS];
    const int64_t at_once = sums ? ROWS_AT_ONCE : 1; /* without sums rows are read in the order of memory */
    for (int64_t top = 0; top < rows; top += at_once)
        for (int64_t first = 0; first < dim; first += CELLS) {
            const int64_t count = dim - first < CELLS ? dim - first : CELLS;
            float total[SUMS][CELLS] = {{0.0f}};
            for (int64_t row = top; row < rows && row < top + at_once; row++) {
                const float *some = x + row * of_x + first, *previous = some + 4 * dim;
                const float *scales = scaled ? x + row * of_x + 5 * dim : ONES, *some_dy = dy + row * of_dy + first;
                if (repair) lstm_backward(1, count, dim, some, scales, some_dy, w + first, repair + first, values, derivs, cells);
                else lstm_backward(0, count, dim, some, scales, some_dy, w + first, 0, values, derivs, cells);
                if (dx)
                    for (int k = 0; k < 5; k++)
                        memcpy(dx + row * of_dx + k * dim + first, derivs[k], (size_t)count * sizeof(float));
                if (!sums) continue;
                for (int k = 0; k < 5; k++)
                    for (int64_t j = 0; j < count; j++) {
                        total[k][j] += values[k][j];
                        total[5 + k][j] += values[k][j] * values[k][j];
                    }
                for (int64_t j = 0; j < count; j++) {
                    total[10][j] += derivs[0][j] * previous[j];
                    total[11][j] += derivs[1][j] * previous[j];
                    total[12][j] += derivs[3][j] * cells[j];
                }
            }
            for (int k = 0; sums && k < SUMS; k++)
                for (int64_t j = 0; j < count; j++) sums[k * dim + first + j] += total[k][j];
        }
    for (int64_t row = 0; dx && scaled && row < rows; row++) memset(dx + row * of_dx + 5 * dim, 0, 3 * sizeof(float));
}

/* All frames of a layer. Frame t has counts[t] rows of `values`, from row t `most` on: [I | F | Cp | O | c' | h'], where
   c' and h' are of the frame before and I to O have all but R h'. R is in panels. c and h go to the frame after. */
void nnet3_lstm_layer(int64_t frames, int64_t most, const int64_t *counts, int64_t dim, float *values, int64_t of_row,
                      const float *panels, const float *w, int64_t threads) {
    for (; frames > 0; frames--, counts++, values += most * of_row) {
        nnet3_panel_product(*counts, 4 * dim, dim, values, of_row, values + 5 * dim, of_row, values, of_row, panels,
                            nnet3_columns_of_panel() * dim, threads);
        nnet3_lstm(*counts, dim, values + most * of_row + 4 * dim, of_row, values, of_row, w, 0);
    }
}

/* The derivatives of `values`, in the same places, from the last frame to the first. Those of h stand where h is, and
   R^T times those of I to O is added; those of the last c are 0. R^T is in panels. */
void nnet3_lstm_layer_backward(int64_t frames, int64_t most, const int64_t *counts, int64_t dim, const float *values,
                               float *derivs, int64_t of_row, const float *panels, const float *w, int64_t threads) {
    for (int64_t t = frames - 1; t >= 0; t--) {
        const float *x = values + t * most * of_row;
        float *dx = derivs + t * most * of_row, *dy = dx + most * of_row + 4 * dim;
        nnet3_lstm_backward(counts[t], dim, x, of_row, dy, of_row, dx, of_row, w, 0, 0, 0);
        nnet3_panel_product(counts[t], dim, 4 * dim, dx + 5 * dim, of_row, dx, of_row, dx + 5 * dim, of_row, panels,
                            nnet3_columns_of_panel() * 4 * dim, threads);
    }
}

/* A row: h = tanh(part + w c'), or tanh(part) without w; c = (1 - z) h + z c' */
void nnet3_gru(int64_t dim, float *h, const float *part, const float *w, const float *previous, const float *z, float *c) {
    EACH (int64_t j = 0; j < dim; j++) {
        h[j] = hyperbolic_tangent(w ? part[j] + w[j] * previous[j] : part[j]);
        const float further = previous[j] - h[j];
        c[j] = z[j] < 0.5f ? h[j] + z[j] * further : previous[j] - further * (1.0f - z[j]);
    }
}

/* y = [h | c], x = [z | part | c'] */
void nnet3_output_gru(int64_t rows, int64_t dim, float *y, int64_t of_y, const float *x, int64_t of_x, const float *w) {
    for (int64_t row = 0; row < rows; row++, x += of_x, y += of_y) nnet3_gru(dim, y, x + dim, w, x + 2 * dim, x, y + dim);
}

/* dx = [dz | dpart | dc'] from dy = [dh | dc]: dz = (c' - h) dc; dpart = (dh + (1 - z) dc) (1 - h^2);
   dc' = z dc + w dpart */
void nnet3_output_gru_backward(int64_t rows, int64_t dim, const float *x, int64_t of_x, const float *h, int64_t of_h,
                               const float *dy, int64_t of_dy, float *dx, int64_t of_dx, const float *w) {
    for (int64_t row = 0; row < rows; row++, x += of_x, h += of_h, dy += of_dy, dx += of_dx) {
        EACH (int64_t j = 0; j < dim; j++) {
            const float dc = dy[dim + j], dpart = (dy[j] + dc - x[j] * dc) * (1.0f - h[j] * h[j]);
            dx[j] = (x[2 * dim + j] - h[j]) * dc;
            dx[dim + j] = dpart;
            dx[2 * dim + j] = x[j] * dc + w[j] * dpart;
        }
    }
}

/* y = f x with f = scale min(1, limit / n) for rows whose norm times scale is n, or f = 0 if n > zeroed at a boundary.
   Counts rows with n > limit, and rows with f = 0. y may be x. */
void nnet3_truncate(int64_t rows, int64_t columns, float *y, int64_t of_y, const float *x, int64_t of_x, float scale,
                    float limit, float zeroed, const uint8_t *is_boundary, int64_t *counts) {
    for (int64_t row = 0; row < rows; row++, x += of_x, y += of_y) {
        Vector chains[2] = {{0.0f}};
        int64_t i = 0;
        for (; i + 2 * LANES <= columns; i += 2 * LANES) {
            const Vector one = load(x + i), other = load(x + i + LANES);
            chains[0] += one * one;
            chains[1] += other * other;
        }
        chains[0] += chains[1];
        float square = 0.0f;
        for (int lane = 0; lane < LANES; lane++) square += chains[0][lane];
        for (; i < columns; i++) square += x[i] * x[i];
        const float norm = scale * sqrtf(square);
        const int is_zero = is_boundary[row] && norm > zeroed;
        counts[0] += norm > limit;
        counts[1] += is_zero;
        const float factor = is_zero ? 0.0f : norm > limit ? scale * (limit / norm) : scale;
        EACH (int64_t j = 0; j < columns; j++) y[j] = factor * x[j];
    }
}
