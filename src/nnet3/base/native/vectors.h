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

#endif
