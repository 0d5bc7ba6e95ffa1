/* What products multiply: numbers as they are, or with IS_INT8 integers of 8 bits (W8A8).
 *
 * Then each column of weights has a scale, at the end of its panel, and so has each row of the inputs, at its end.
 * A sum of integers is exact on every processor, in any order.
 */
#ifndef FACTORS_H
#define FACTORS_H
#include <string.h>

#include "lanes.h"
#include "numbers.h"

#if IS_INT8
#define PAIR 4
#define SCALE 4         /* bytes at the end of a row of inputs */
#define END (8 * LANES) /* bytes at the end of a panel: its columns' scales, and 128 times their sums */
typedef int8_t coefficient;
typedef uint8_t factor; /* 128 more than the rounded number, because VNNI multiplies unsigned by signed */
typedef integers total;
#else
#define PAIR (IS_BFLOAT16 ? 2 : 1)
#define SCALE 0
#define END 0
typedef number coefficient;
typedef number factor;
typedef lanes total;
#endif
#if __AVX2__
#include <immintrin.h>
#endif

#if IS_INT8
INLINE total multiply_add(total sum, const factor *inputs, const coefficient *weights) {
    uint32_t four;
    memcpy(&four, inputs, sizeof four);
    words fours = *(const words *)weights;
#if defined(__AVX512VNNI__)
    return (total)_mm512_dpbusd_epi32((__m512i)sum, _mm512_set1_epi32((int)four), (__m512i)fours);
#elif defined(__AVXVNNI__) && LANES == 8
    return (total)_mm256_dpbusd_avx_epi32((__m256i)sum, _mm256_set1_epi32((int)four), (__m256i)fours);
#elif defined(__AVX2__) && LANES == 8
    __m256i odd = _mm256_srai_epi16((__m256i)fours, 8);
    __m256i even = _mm256_srai_epi16(_mm256_slli_epi16((__m256i)fours, 8), 8);
    return sum + (total)_mm256_madd_epi16(even, _mm256_set1_epi32((int)(four & 0xff00ff))) +
           (total)_mm256_madd_epi16(odd, _mm256_set1_epi32((int)(four >> 8 & 0xff00ff)));
#else
    for (int i = 0; i < 4; i++) sum += ((total)(fours << (24 - 8 * i)) >> 24) * inputs[i];
    return sum;
#endif
}

/* Turn sums of integers into numbers. Not inlined, because -ffast-math could round differently in each tile. */
static __attribute__((noinline)) lanes scaled(total sum, const factor *row, const coefficient *panel, int64_t depth) {
    const coefficient *end = panel + depth * LANES;
    float scale;
    memcpy(&scale, row + depth, sizeof scale);
    return __builtin_convertvector(sum - *(const integers *)(end + END / 2), lanes) * *(const lanes *)end * scale;
}

/* Round a row to integers from 1 to 255. The largest is found by its bits: what is no number is larger than all. */
INLINE void round_row(const number *row, int64_t depth, factor *rounded) {
    int32_t largest = 0;
    for (int64_t i = 0; i < depth; i++) {
        int32_t bits;
        memcpy(&bits, &(float){to_float(row[i])}, sizeof bits);
        bits &= 0x7fffffff;
        largest = largest < bits ? bits : largest;
    }
    float scale, inverse;
    memcpy(&scale, &largest, sizeof scale);
    inverse = largest ? 127 / scale : 0;
    for (int64_t i = 0; i < depth; i++) rounded[i] = (factor)(int32_t)(to_float(row[i]) * inverse + 128.5f);
    scale /= 127;
    memcpy(rounded + depth, &scale, sizeof scale);
}
#else
INLINE lanes scaled(total sum, const factor *row, const coefficient *panel, int64_t depth) { return sum; }

#if IS_BFLOAT16 && defined(__AVX512BF16__)
INLINE lanes multiply_add(lanes sum, const number *inputs, const number *weights) {
    uint32_t pair;
    memcpy(&pair, inputs, sizeof pair);
    return (lanes)_mm512_dpbf16_ps((__m512)sum, (__m512bh)_mm512_set1_epi32((int)pair),
                                   (__m512bh)_mm512_loadu_si512(weights));
}
#elif IS_BFLOAT16
INLINE lanes multiply_add(lanes sum, const number *inputs, const number *weights) {
    words pairs = *(const words *)weights;
    return sum + (lanes)(pairs << 16) * to_float(inputs[0]) + (lanes)(pairs & 0xffff0000u) * to_float(inputs[1]);
}
#else
INLINE lanes multiply_add(lanes sum, const number *inputs, const number *weights) {
    return sum + *(const lanes *)weights * *inputs;
}
#endif
#endif

/* Return the inputs of a product: the rows themselves, or in int8 the rounded rows, written into `room`. */
INLINE const factor *inputs_of(int64_t num_rows, const number *rows, int64_t depth, void *room) {
#if IS_INT8
#pragma omp for schedule(static)
    for (int64_t row = 0; row < num_rows; row++)
        round_row(rows + row * depth, depth, (factor *)room + row * (depth + SCALE));
    return room;
#else
    return rows;
#endif
}
#endif
