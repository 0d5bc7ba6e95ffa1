/* One vector register of floats, and how many rows of sums the registers of this processor hold. */
#ifndef LANES_H
#define LANES_H
#include <stdint.h>

#if defined(__AVX512F__)
#define LANES 16
#define ROWS 8
#elif defined(__AVX__)
#define LANES 8
#define ROWS 6
#else
#define LANES 4
#define ROWS 8
#endif
#define INLINE static inline __attribute__((always_inline))

/* May begin at any address, and may be read from any array. */
typedef float lanes __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef uint32_t words __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int32_t integers __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

/* What is no number stays none where it comes first: a model's broken weights must show in its logits. */
INLINE lanes larger(lanes one, lanes other) {
    integers is_larger = other > one; /* all bits set, or none */
    return (lanes)(((integers)other & is_larger) | ((integers)one & ~is_larger));
}

/* e to the power of numbers, off by 2e-7 of it at most; as if -87 and 88 were the smallest and the largest number. */
INLINE lanes exponential(lanes power) {
    power = -larger(-larger(power, (lanes){0} - 87), (lanes){0} - 88);
    lanes twos = power * 1.44269504f; /* e to the power is 2 to this */
    integers whole = __builtin_convertvector(twos + 127, integers); /* of a positive number: the floor */
    lanes rest = (twos - __builtin_convertvector(whole - 127, lanes) - 0.5f) * 0.693147181f; /* within 0.35 of 0 */
    lanes sum = rest / 720 + 1.0f / 120; /* the series of e to the rest */
    sum = sum * rest + 1.0f / 24;
    sum = sum * rest + 1.0f / 6;
    sum = sum * rest + 0.5f;
    sum = sum * rest + 1;
    sum = sum * rest + 1;
    return sum * 1.41421356f * (lanes)(whole << 23);
}

INLINE float sum_of(lanes numbers) {
    float sum = 0;
    for (int i = 0; i < LANES; i++) sum += numbers[i];
    return sum;
}

INLINE float largest_of(lanes numbers) {
    float largest = numbers[0];
    for (int i = 1; i < LANES; i++) largest = largest < numbers[i] ? numbers[i] : largest;
    return largest;
}
#endif
