/* What class indexes choose: rows of a table, added up by group, and terms of a cross-entropy. Rows of a matrix lie `of_`
   floats apart. An index below 0 chooses nothing. */

#include "numbers.h"
#include "vectors.h"

#define AHEAD 16 /* rows of a table that are asked for before they are needed */
#define LINE 16  /* floats of the cache */

/* Whether all numbers are integers from -1 to classes - 1. */
int64_t nnet3_are_classes(int64_t count, const float *numbers, int64_t classes) {
    int32_t others = 0;
    for (int64_t place = 0; place < count; place++) {
        const float number = numbers[place];
        others |= !(number >= -1.0f) | !(number < (float)classes) | (number != truncf(number));
    }
    return !others;
}

/* y_g = the sum of the rows of the table that the indexes of group g choose, divided by its size, if there are sizes; y
   (groups, columns). Returns the number of chosen rows, or -1 for an index that the table does not have. */
int64_t nnet3_sum_chosen(int64_t count, int64_t groups, int64_t columns, const int64_t *indexes, const int64_t *group,
                         const int64_t *sizes, float *y, int64_t of_y, const float *table, int64_t of_table,
                         int64_t of_all) {
    for (int64_t place = 0; place < count; place++)
        if (indexes[place] >= of_all) return -1;
    for (int64_t g = 0; g < groups; g++) memset(y + g * of_y, 0, (size_t)columns * sizeof(float));
    int64_t chosen = 0;
    for (int64_t place = 0; place < count; place++) {
        const int64_t soon = place + AHEAD < count ? indexes[place + AHEAD] : -1;
        for (int64_t j = 0; soon >= 0 && j < columns; j += LINE) __builtin_prefetch(table + soon * of_table + j);
        if (indexes[place] < 0) continue;
        chosen++;
        const float *row = table + indexes[place] * of_table;
        float *sum = y + group[place] * of_y;
        EACH (int64_t j = 0; j < columns; j++) sum[j] += row[j];
    }
    for (int64_t g = 0; sizes && g < groups; g++)
        if (sizes[g] > 1) EACH (int64_t j = 0; j < columns; j++) y[g * of_y + j] /= (float)sizes[g];
    return chosen;
}

/* The derivatives of the chosen rows, (count, columns), from dy. */
void nnet3_sum_chosen_backward(int64_t count, int64_t columns, const int64_t *group, const int64_t *sizes,
                               const float *dy, int64_t of_dy, float *derivs) {
    for (int64_t place = 0; place < count; place++, derivs += columns) {
        const float *from = dy + group[place] * of_dy, factor = sizes ? 1.0f / (float)sizes[group[place]] : 1.0f;
        EACH (int64_t j = 0; j < columns; j++) derivs[j] = factor * from[j];
    }
}

static float largest_of(int64_t count, const float *x) {
    float largest[LANES];
    for (int lane = 0; lane < LANES; lane++) largest[lane] = x[0];
    int64_t j = 0;
    for (; j + LANES <= count; j += LANES)
        EACH (int lane = 0; lane < LANES; lane++) largest[lane] = x[j + lane] > largest[lane] ? x[j + lane] : largest[lane];
    for (; j < count; j++) largest[0] = x[j] > largest[0] ? x[j] : largest[0];
    for (int lane = 1; lane < LANES; lane++) largest[0] = largest[lane] > largest[0] ? largest[lane] : largest[0];
    return largest[0];
}

static float sum_of(int64_t count, const float *x) {
    Vector sums = {0.0f};
    float sum = 0.0f;
    int64_t j = 0;
    for (; j + LANES <= count; j += LANES) sums += load(x + j);
    for (int lane = 0; lane < LANES; lane++) sum += sums[lane];
    for (; j < count; j++) sum += x[j];
    return sum;
}

/* Writes p = softmax of the scores, (rows, classes), and the sum of -log p_rc over rows r of class c. Returns the number of
   the first row whose class does not exist; `rows` if all exist. */
int64_t nnet3_class_cross_entropy(int64_t rows, int64_t classes, float *p, const float *scores, int64_t of_scores,
                                  const float *class_of_row, int64_t of_class, float *value) {
    double total = 0.0;
    for (int64_t row = 0; row < rows; row++, p += classes, scores += of_scores, class_of_row += of_class) {
        if (!(*class_of_row >= -1.0f && *class_of_row < (float)classes)) return row;
        const int64_t wanted = (int64_t)*class_of_row;
        const float largest = largest_of(classes, scores);
        EACH (int64_t j = 0; j < classes; j++) p[j] = decay(largest - scores[j]);
        const float sum = sum_of(classes, p);
        EACH (int64_t j = 0; j < classes; j++) p[j] /= sum;
        if (wanted >= 0) total += (double)(logf(sum) + (largest - scores[wanted]));
    }
    *value = (float)total;
    return rows;
}

/* dy_rj = dv (p_rj - delta(j = c)) in rows r of class c, 0 in rows without one, or the same added to dy. */
void nnet3_class_cross_entropy_backward(int64_t rows, int64_t classes, float *dy, int64_t of_dy, const float *p,
                                        const float *class_of_row, int64_t of_class, const float *dv, int64_t adds) {
    for (int64_t row = 0; row < rows; row++, p += classes, dy += of_dy, class_of_row += of_class) {
        const int64_t wanted = (int64_t)*class_of_row;
        const float factor = wanted < 0 ? 0.0f : *dv;
        const float before = adds && wanted >= 0 ? dy[wanted] : 0.0f;
        if (adds) EACH (int64_t j = 0; j < classes; j++) dy[j] += factor * p[j];
        else EACH (int64_t j = 0; j < classes; j++) dy[j] = factor * p[j];
        if (wanted >= 0) dy[wanted] = before + factor * (p[wanted] - 1.0f);
    }
}
