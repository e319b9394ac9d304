/* Functions of one number, for loops that compilers turn into vectors. */

#ifndef NNET3_NUMBERS
#define NNET3_NUMBERS

#include <math.h>
#include <stdint.h>

/* Iterations of the next loop do not depend on each other, though it may write where it reads. */
#if defined(__clang__)
#define EACH _Pragma("clang loop vectorize(assume_safety)") for
#elif defined(__GNUC__)
#define EACH _Pragma("GCC ivdep") for
#else
#define EACH for
#endif

/* Comparisons are false for NaN, which goes through. */

static inline float power_of_two(int32_t exponent) { /* from -126 to 127 */
    union { int32_t bits; float value; } two = {(exponent + 127) << 23};
    return two.value;
}

/* e^x = 2^n (p + 1) with x = n ln 2 + r, |r| <= ln 2 / 2 and p = e^r - 1 by its Taylor series; |x| < 1000 */
typedef struct { float p; int32_t n; } Exponential;

static inline Exponential exponential(float x) {
    const float magic = 12582912.0f; /* 1.5 2^23: what is added to it is rounded to an integer */
    const float n = (x * 1.44269504f + magic) - magic;
    const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f; /* ln 2 in two parts */
    float p = 1.0f / 5040.0f;
    p = p * r + 1.0f / 720.0f;
    p = p * r + 1.0f / 120.0f;
    p = p * r + 1.0f / 24.0f;
    p = p * r + 1.0f / 6.0f;
    p = p * r + 0.5f;
    return (Exponential){p * r * r + r, (int32_t)(n == n ? n : 0.0f)};
}

/* e^-x for x >= 0, whose power of two may be less than the least one: it is multiplied in two parts */
static inline float decay(float x) {
    const Exponential e = exponential(-(x > 105.0f ? 105.0f : x));
    const int32_t half = e.n / 2;
    return (e.p + 1.0f) * power_of_two(half) * power_of_two(e.n - half);
}

/* 1 / (1 + e^-x) with e^-|x| */
static inline float sigmoid(float x) {
    const float below = decay(fabsf(x));
    return (x < 0.0f ? below : 1.0f) / (1.0f + below);
}

/* (e^2x - 1) / (e^2x + 1) */
static inline float hyperbolic_tangent(float x) {
    const float size = fabsf(x);
    const Exponential e = exponential(2.0f * (size > 10.0f ? 10.0f : size));
    const float two = power_of_two(e.n), minus_1 = two * e.p + (two - 1.0f);
    return copysignf(minus_1 / (minus_1 + 2.0f), x);
}

#endif
