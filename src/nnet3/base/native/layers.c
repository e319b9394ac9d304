/* What layers do to the elements between products, forward and backward, as often as memory must be read. Rows of a matrix
   lie `of_` floats apart; sums over rows are of float32 over few rows, then of float64. */

#include "numbers.h"
#include "vectors.h"

enum { NNET3_CODES }; /* RELU, SIGMOID, TANH: nnet3/native/codes.py */

#define ROWS 8 /* whose elements of a column stay in registers */
#define SOME 256 /* columns */
#define MANY 2048 /* columns whose sums lie on the stack */

/* The next number of rows for loops over a constant number of rows. */
#define SOME_ROWS(left) ((left) >= ROWS ? ROWS : (left) >= 4 ? 4 : (left) >= 2 ? 2 : 1)
#define BY_ROWS(some, call) \
    switch (some) { \
        case ROWS: call(ROWS); break; \
        case 4: call(4); break; \
        case 2: call(2); break; \
        default: call(1); \
    }

INLINED void moments(const int rows, int64_t columns, const float *x, int64_t of_x, double *sums, double *squares) {
    EACH (int64_t j = 0; j < columns; j++) {
        float sum = 0.0f, square = 0.0f;
        for (int row = 0; row < rows; row++) sum += x[row * of_x + j];
        const float mean = sum * (1.0f / (float)rows);
        for (int row = 0; row < rows; row++) square += (x[row * of_x + j] - mean) * (x[row * of_x + j] - mean);
        sums[j] += (double)sum;
        squares[j] += (double)square + (2.0 * (double)sum - (double)rows * (double)mean) * (double)mean;
    }
}

/* Sums over rows of x and of its squares, (columns,) each, which are 0 before. Squares are taken about the mean of some
   rows, then moved. */
void nnet3_moments(int64_t rows, int64_t columns, const float *x, int64_t of_x, double *sums, double *squares) {
    for (int64_t some; rows > 0; rows -= some, x += some * of_x) {
        some = SOME_ROWS(rows);
#define CALL(count) moments(count, columns, x, of_x, sums, squares)
        BY_ROWS(some, CALL)
#undef CALL
    }
}

/* y = (x - mean) scale; mean and scale are (columns,) */
void nnet3_normalize_columns(int64_t rows, int64_t columns, float *y, int64_t of_y, const float *x, int64_t of_x,
                             const float *mean, const float *scale) {
    for (int64_t row = 0; row < rows; row++, x += of_x, y += of_y)
        EACH (int64_t j = 0; j < columns; j++) y[j] = (x[j] - mean[j]) * scale[j];
}

/* The element of batch-norm's output: of v itself, or of its input v. */
#define OUTPUT(v) (normalizes ? ((v) - mean[j]) * scale[j] : (v))

INLINED void deriv_sums(const int normalizes, const int rows, int64_t columns, const float *v, int64_t of_v, const float *g,
                        int64_t of_g, const float *mean, const float *scale, double *sums, double *products) {
    EACH (int64_t j = 0; j < columns; j++) {
        float sum = 0.0f, product = 0.0f;
        for (int row = 0; row < rows; row++) {
            sum += g[row * of_g + j];
            product += OUTPUT(v[row * of_v + j]) * g[row * of_g + j];
        }
        sums[j] += (double)sum;
        products[j] += (double)product;
    }
}

/* Sums over rows of g and of g y, (columns,) each, which are 0 before; y is v, or (v - mean) scale if there is a mean. */
void nnet3_batch_norm_sums(int64_t rows, int64_t columns, const float *v, int64_t of_v, const float *g, int64_t of_g,
                           const float *mean, const float *scale, double *sums, double *products) {
    for (int64_t some; rows > 0; rows -= some, v += some * of_v, g += some * of_g) {
        some = SOME_ROWS(rows);
#define CALL(count) \
    if (mean) deriv_sums(1, count, columns, v, of_v, g, of_g, mean, scale, sums, products); \
    else deriv_sums(0, count, columns, v, of_v, g, of_g, mean, scale, sums, products)
        BY_ROWS(some, CALL)
#undef CALL
    }
}

INLINED void row_deriv(const int normalizes, int64_t columns, float *dx, const float *v, const float *g, const float *mean,
                       const float *scale, const float *of_g, const float *of_y) {
    EACH (int64_t j = 0; j < columns; j++) dx[j] = (g[j] - of_g[j] - of_y[j] * OUTPUT(v[j])) * scale[j];
}

/* dx = (g - mean_g - factor y) scale; y as in nnet3_batch_norm_sums. dx may be g. */
void nnet3_batch_norm_backward(int64_t rows, int64_t columns, float *dx, int64_t of_dx, const float *v, int64_t of_v,
                               const float *g, int64_t of_g, const float *mean, const float *scale, const float *mean_g,
                               const float *factor) {
    for (int64_t row = 0; row < rows; row++, dx += of_dx, v += of_v, g += of_g)
        if (mean) row_deriv(1, columns, dx, v, g, mean, scale, mean_g, factor);
        else row_deriv(0, columns, dx, v, g, mean, scale, mean_g, factor);
}

/* Batch-norm of `size` columns, repeated in `blocks`, each over the rows of all blocks: y = (x - mean) scale with scale =
   target / sqrt(variance + epsilon). Fills mean, variance and scale, (size,) each. y may be x. Rows are normalized from the
   last, which the cache still has. */
void nnet3_batch_norm(int64_t rows, int64_t blocks, int64_t size, float *y, int64_t of_y, const float *x, int64_t of_x,
                      float epsilon, float target, float *mean, float *variance, float *scale) {
    const double share = rows * blocks > 0 ? 1.0 / (double)(rows * blocks) : 0.0;
    for (int64_t first = 0; first < size; first += MANY) {
        const int64_t some = size - first < MANY ? size - first : MANY, end = first + blocks * size;
        double sums[MANY] = {0.0}, squares[MANY] = {0.0};
        for (int64_t at = first; at < end; at += size) nnet3_moments(rows, some, x + at, of_x, sums, squares);
        for (int64_t j = 0; j < some; j++) {
            const double average = share * sums[j], spread = share * squares[j] - average * average;
            mean[first + j] = (float)average;
            variance[first + j] = spread < 0.0 ? 0.0f : (float)spread;
            scale[first + j] = target / sqrtf(variance[first + j] + epsilon);
        }
        for (int64_t row = rows - 1; row >= 0; row--)
            for (int64_t at = first; at < end; at += size)
                nnet3_normalize_columns(1, some, y + row * of_y + at, of_y, x + row * of_x + at, of_x, mean + first,
                                        scale + first);
    }
}

/* dx = scale (g - mean(g) - mean(g y) / target^2 y), the derivative of nnet3_batch_norm; v and mean as in
   nnet3_batch_norm_sums. dx may be g. */
void nnet3_batch_norm_deriv(int64_t rows, int64_t blocks, int64_t size, float *dx, int64_t of_dx, const float *v,
                            int64_t of_v, const float *g, int64_t of_g, const float *mean, const float *scale,
                            float target) {
    const double share = rows * blocks > 0 ? 1.0 / (double)(rows * blocks) : 0.0;
    for (int64_t first = 0; first < size; first += MANY) {
        const int64_t some = size - first < MANY ? size - first : MANY, end = first + blocks * size;
        const float *some_mean = mean ? mean + first : 0, *some_scale = scale + first;
        double sums[MANY] = {0.0}, products[MANY] = {0.0};
        float mean_g[MANY], factor[MANY];
        for (int64_t at = first; at < end; at += size)
            nnet3_batch_norm_sums(rows, some, v + at, of_v, g + at, of_g, some_mean, some_scale, sums, products);
        for (int64_t j = 0; j < some; j++) {
            mean_g[j] = (float)(share * sums[j]);
            factor[j] = (float)(share * products[j] / ((double)target * (double)target));
        }
        for (int64_t row = rows - 1; row >= 0; row--)
            for (int64_t at = first; at < end; at += size)
                nnet3_batch_norm_backward(1, some, dx + row * of_dx + at, of_dx, v + row * of_v + at, of_v,
                                          g + row * of_g + at, of_g, some_mean, some_scale, mean_g, factor);
    }
}

INLINED float dot(int64_t count, const float *x, const float *y) {
    Vector chains[2] = {{0.0f}};
    int64_t j = 0;
    for (; j + 2 * LANES <= count; j += 2 * LANES) {
        chains[0] += load(x + j) * load(y + j);
        chains[1] += load(x + j + LANES) * load(y + j + LANES);
    }
    chains[0] += chains[1];
    float sum = 0.0f;
    for (int lane = 0; lane < LANES; lane++) sum += chains[0][lane];
    for (; j < count; j++) sum += x[j] * y[j];
    return sum;
}

/* y = x f with f = (|x|^2 / (columns target^2))^(-1/2), where 1 / f is at least 2^-33; y may be x */
void nnet3_normalize_rows(int64_t rows, int64_t columns, float *y, int64_t of_y, const float *x, int64_t of_x, float target) {
    for (int64_t row = 0; row < rows; row++, x += of_x, y += of_y) {
        const float root = sqrtf(dot(columns, x, x)) / (sqrtf((float)columns) * target);
        const float divisor = root < 0x1p-33f ? 0x1p-33f : root;
        EACH (int64_t j = 0; j < columns; j++) y[j] = x[j] / divisor;
    }
}

/* dx = f g - c (g . x) x / size with f = max(p, floor)^(-1/2), p = |x|^2 / size and c = f^3, or 0 where p <= floor: the
   derivative of y = f x. dx may be g. */
void nnet3_normalize_rows_backward(int64_t rows, int64_t columns, float *dx, int64_t of_dx, const float *x, int64_t of_x,
                                   const float *g, int64_t of_g, float size, float floor) {
    for (int64_t row = 0; row < rows; row++, dx += of_dx, x += of_x, g += of_g) {
        const float p = dot(columns, x, x) / size, f = 1.0f / sqrtf(p < floor ? floor : p);
        const float factor = p <= floor ? 0.0f : -f * f * f * dot(columns, g, x) / size;
        EACH (int64_t j = 0; j < columns; j++) dx[j] = f * g[j] + factor * x[j];
    }
}

/* dx = g y / x, and g where x is 0: the derivative of y = m x for a mask m. dx may be g. */
void nnet3_dropout_backward(int64_t rows, int64_t columns, float *dx, int64_t of_dx, const float *x, int64_t of_x,
                            const float *y, int64_t of_y, const float *g, int64_t of_g) {
    for (int64_t row = 0; row < rows; row++, dx += of_dx, x += of_x, y += of_y, g += of_g)
        EACH (int64_t j = 0; j < columns; j++) dx[j] = g[j] * (x[j] == 0.0f ? 1.0f : y[j] / x[j]);
}

/* ---- nonlinearities: SIGMOID, TANH or RELU, whose derivative is a function of the output ---- */

INLINED float slope(const int code, float y) {
    return code == SIGMOID ? y * (1.0f - y) : code == TANH ? 1.0f - y * y : y <= 0.0f ? 0.0f : 1.0f;
}

INLINED void output_sums(const int code, const int rows, int64_t columns, const float *y, int64_t of_y, double *sums,
                         double *slopes) {
    EACH (int64_t j = 0; j < columns; j++) {
        float sum = 0.0f, of_slopes = 0.0f;
        for (int row = 0; row < rows; row++) {
            sum += y[row * of_y + j];
            of_slopes += slope(code, y[row * of_y + j]);
        }
        sums[j] += (double)sum;
        slopes[j] += (double)of_slopes;
    }
}

/* Sums over rows of y and of its derivative, (columns,) each, which are 0 before. */
void nnet3_output_sums(int64_t code, int64_t rows, int64_t columns, const float *y, int64_t of_y, double *sums,
                       double *slopes) {
    for (int64_t some; rows > 0; rows -= some, y += some * of_y) {
        some = SOME_ROWS(rows);
#define CALL(count) \
    if (code == SIGMOID) output_sums(SIGMOID, count, columns, y, of_y, sums, slopes); \
    else if (code == TANH) output_sums(TANH, count, columns, y, of_y, sums, slopes); \
    else output_sums(RELU, count, columns, y, of_y, sums, slopes)
        BY_ROWS(some, CALL)
#undef CALL
    }
}

INLINED void output_backward(const int code, const int adds_squares, const int rows, int64_t columns, float *dx, int64_t of_dx,
                             const float *y, int64_t of_y, const float *g, int64_t of_g, double *squares) {
    EACH (int64_t j = 0; j < columns; j++) {
        float square = 0.0f;
        for (int row = 0; row < rows; row++) {
            const float value = y[row * of_y + j], of_value = g[row * of_g + j];
            if (adds_squares) square += of_value * of_value;
            dx[row * of_dx + j] = code == RELU ? (value <= 0.0f ? 0.0f : of_value) : of_value * slope(code, value);
        }
        if (adds_squares) squares[j] += (double)square;
    }
}

/* dx = g dy / dx, by element; dx may be g. Squares of g are added up over rows, unless `squares` (columns,) is 0. */
void nnet3_output_backward(int64_t code, int64_t rows, int64_t columns, float *dx, int64_t of_dx, const float *y,
                           int64_t of_y, const float *g, int64_t of_g, double *squares) {
    for (int64_t some; rows > 0; rows -= some, dx += some * of_dx, y += some * of_y, g += some * of_g) {
        some = squares ? SOME_ROWS(rows) : 1;
#define CALL_OF(code, count) \
    if (squares) output_backward(code, 1, count, columns, dx, of_dx, y, of_y, g, of_g, squares); \
    else output_backward(code, 0, 1, columns, dx, of_dx, y, of_y, g, of_g, 0)
#define CALL(count) \
    if (code == SIGMOID) { CALL_OF(SIGMOID, count); } \
    else if (code == TANH) { CALL_OF(TANH, count); } \
    else { CALL_OF(RELU, count); }
        BY_ROWS(some, CALL)
#undef CALL
#undef CALL_OF
    }
}

/* dx += m (offset + slope y) with m = 1 where deriv_sum < bound, else 0, for each column. Returns the number of these. */
int64_t nnet3_repair(int64_t rows, int64_t columns, float *dx, int64_t of_dx, const float *y, int64_t of_y,
                     const double *deriv_sum, double bound, float offset, float slope) {
    float repaired[SOME] = {0.0f};
    int64_t number = 0;
    for (int64_t first = 0; first < columns; first += SOME) {
        const int64_t count = columns - first < SOME ? columns - first : SOME, before = number;
        for (int64_t j = 0; j < count; j++) {
            repaired[j] = deriv_sum[first + j] < bound ? 1.0f : 0.0f;
            number += deriv_sum[first + j] < bound;
        }
        for (int64_t row = 0; number > before && row < rows; row++) {
            const float *some = y + row * of_y + first;
            float *some_dx = dx + row * of_dx + first;
            EACH (int64_t j = 0; j < count; j++) some_dx[j] += repaired[j] * (offset + slope * some[j]);
        }
    }
    return number;
}
