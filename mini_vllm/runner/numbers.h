/* The numbers of a model: float32, or bfloat16 if IS_BFLOAT16 is 1. */
#ifndef NUMBERS_H
#define NUMBERS_H
#include <stdint.h>

#if IS_BFLOAT16
/* The upper half of a float32. */
typedef uint16_t number;
union bits { uint32_t whole; float value; };
static inline float to_float(number stored) { return ((union bits){.whole = (uint32_t)stored << 16}).value; }
static inline number from_float(float value) {
    uint32_t whole = ((union bits){.value = value}).whole;
    return (number)((whole + 0x7fff + ((whole >> 16) & 1)) >> 16); /* round to nearest, ties to even */
}
#else
typedef float number;
static inline float to_float(number stored) { return stored; }
static inline number from_float(float value) { return value; }
#endif
#endif
