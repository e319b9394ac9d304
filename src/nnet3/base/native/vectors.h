/* As many floats as a register has: compilers spill vectors of more. */

#ifndef NNET3_VECTORS
#define NNET3_VECTORS

#include <stdint.h>
#include <string.h>

#if defined(__AVX512F__)
#define LANES 16
#elif defined(__AVX__)
#define LANES 8
#else
#define LANES 4
#endif

typedef float Vector __attribute__((vector_size(LANES * sizeof(float))));
#define INLINED static inline __attribute__((always_inline))

INLINED Vector load(const float *from) {
    Vector vector;
    memcpy(&vector, from, sizeof vector);
    return vector;
}

/* squares[row] += the sum of the squares of row `row` of x (rows, inner), whose numbers lie side by side */
INLINED void add_squares(int64_t rows, int64_t inner, const float *x, int64_t of_x, double *squares) {
    for (int64_t row = 0; row < rows; row++, x += of_x) {
        Vector sums[4] = {{0.0f}};
        float lanes[LANES], rest = 0.0f;
        int64_t k = 0;
        for (; k + 4 * LANES <= inner; k += 4 * LANES)
            for (int i = 0; i < 4; i++) {
                const Vector some = load(x + k + i * LANES);
                sums[i] += some * some;
            }
        for (; k < inner; k++) rest += x[k] * x[k];
        sums[0] = (sums[0] + sums[1]) + (sums[2] + sums[3]);
        memcpy(lanes, sums, sizeof lanes);
        for (int lane = 0; lane < LANES; lane++) rest += lanes[lane];
        squares[row] += rest;
    }
}

#endif
