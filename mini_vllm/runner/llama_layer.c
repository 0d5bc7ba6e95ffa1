/* What a layer of the Llama family computes before and after its attention, as one call each.
 *
 * In torch it is dozens of operators, and starting them costs a small model more than its arithmetic. IS_BFLOAT16 is set
 * by the engine, which compiles this file for the processor that it runs on.
 *
 * Weights are read as panels of LANES columns, written by `pack`: [panel][depth / PAIR][LANES][PAIR]. A tile multiplies
 * a few rows by two panels with all sums in registers (Goto and van de Geijn, "Anatomy of High-Performance Matrix
 * Multiplication", 2008). Each sum is added up in one order, however many rows there are: what a token gets does not
 * depend on its batch.
 *
 * With IS_INT8 a product first rounds its inputs into `room` (factors.h).
 */
#include <math.h>

#include "factors.h"

/* What becomes of a product: the output, or added to it, or the gate's part of an MLP. */
typedef enum { STORE, ADD, GATE } Result;

/* Multiply `rows` rows of the inputs by two panels; `columns` of the 2 * LANES exist. */
INLINE void tile(int rows, const factor *inputs, int64_t depth, const coefficient *left, const coefficient *right,
                 const number *bias, number *output, int64_t width, int64_t columns, Result result) {
    total sums[ROWS][2];
#pragma GCC unroll 8
    for (int row = 0; row < rows; row++) sums[row][0] = sums[row][1] = (total){0};
    for (int64_t place = 0; place < depth; place += PAIR)
#pragma GCC unroll 8
        for (int row = 0; row < rows; row++) {
            const factor *of_row = inputs + row * (depth + SCALE) + place;
            sums[row][0] = multiply_add(sums[row][0], of_row, left + place * LANES);
            sums[row][1] = multiply_add(sums[row][1], of_row, right + place * LANES);
        }
    for (int row = 0; row < rows; row++) {
        number *to = output + row * width;
        const factor *of_row = inputs + row * (depth + SCALE);
        lanes pair[2] = {scaled(sums[row][0], of_row, left, depth), scaled(sums[row][1], of_row, right, depth)};
        float sum[2 * LANES];
        if (result == GATE) pair[0] *= pair[1] / (1 + exponential(-pair[0]));
        memcpy(sum, pair, sizeof sum);
        for (int64_t i = 0; i < columns; i++) {
            float value = sum[i] + (bias ? to_float(bias[i]) : 0);
            to[i] = from_float(result == ADD ? value + to_float(to[i]) : value);
        }
    }
}

/* Return the panel of a column, a multiple of LANES after the first of `panels`. */
INLINE const coefficient *panel(const coefficient *panels, int64_t column, int64_t depth) {
    return panels + column / LANES * (depth * LANES + END);
}

/* Multiply all rows by a matrix of `width` columns, or for GATE of the gate's `width` columns and as many of its
 * partner's after them. Each thread takes panels of its own: a weight is read once. */
INLINE void product(int64_t num_rows, const number *numbers, int64_t depth, void *room, const coefficient *panels,
                    const number *bias, number *output, int64_t width, Result result) {
    const factor *inputs = inputs_of(num_rows, numbers, depth, room);
    int64_t kept = result == GATE ? LANES : 2 * LANES;
#pragma omp for schedule(static)
    for (int64_t first = 0; first < width; first += kept) {
        const coefficient *left = panel(panels, first, depth);
        const coefficient *right = panel(left, result == GATE ? width : LANES, depth);
        int64_t columns = width - first < kept ? width - first : kept, row = 0;
#define TILE(rows) tile(rows, inputs + row * (depth + SCALE), depth, left, right, bias ? bias + first : 0, \
                        output + row * width + first, width, columns, result)
        for (; row + ROWS <= num_rows; row += ROWS) TILE(ROWS);
        for (; row + 4 <= num_rows; row += 4) TILE(4);
        for (; row + 2 <= num_rows; row += 2) TILE(2);
        for (; row < num_rows; row++) TILE(1);
#undef TILE
    }
}

/* Not inlined: each is compiled once, whatever calls it. */
static void multiply(int64_t num_rows, const number *inputs, int64_t depth, void *room, const coefficient *panels,
                     const number *bias, number *output, int64_t width) {
    product(num_rows, inputs, depth, room, panels, bias, output, width, STORE);
}

static void add_product(int64_t num_rows, const number *inputs, int64_t depth, void *room, const coefficient *panels,
                        number *output, int64_t width) {
    product(num_rows, inputs, depth, room, panels, 0, output, width, ADD);
}

static void multiply_gated(int64_t num_rows, const number *inputs, int64_t depth, void *room,
                           const coefficient *panels, number *output, int64_t width) {
    product(num_rows, inputs, depth, room, panels, 0, output, width, GATE);
}

/* Scale numbers so that their mean square is 1, then each by its weight. */
INLINE void norm(const number *numbers, const number *weight, number *output, int64_t length, float epsilon) {
    float squares = 0;
    for (int64_t i = 0; i < length; i++) squares += to_float(numbers[i]) * to_float(numbers[i]);
    float scale = 1 / sqrtf(squares / length + epsilon);
    for (int64_t i = 0; i < length; i++) output[i] = from_float(to_float(numbers[i]) * scale * to_float(weight[i]));
}

static void norms(int64_t num_rows, const number *rows, const number *weight, number *output, int64_t length,
                  float epsilon) {
#pragma omp for schedule(static)
    for (int64_t row = 0; row < num_rows; row++)
        norm(rows + row * length, weight, output + row * length, length, epsilon);
}

/* Turn each pair (i, i + half) of a head by its angle. */
INLINE void turn(number *head, const float *cosine, const float *sine, int64_t half) {
    for (int64_t i = 0; i < half; i++) {
        float first = to_float(head[i]), second = to_float(head[i + half]);
        head[i] = from_float(first * cosine[i] - second * sine[i]);
        head[i + half] = from_float(second * cosine[i] + first * sine[i]);
    }
}

int64_t columns_of_a_panel(void) { return LANES; }

/* Reorder a weight [num_columns, depth] into an even number of panels; columns past the last are zeros. */
void pack(const coefficient *restrict plain, const float *restrict scales, int64_t num_columns, int64_t depth,
          coefficient *restrict panels) {
    for (int64_t first = 0; first < (num_columns + 2 * LANES - 1) / (2 * LANES) * 2 * LANES; first += LANES) {
        coefficient *to = (coefficient *)panel(panels, first, depth);
        for (int64_t place = 0; place < depth; place++)
            for (int64_t column = first; column < first + LANES; column++)
                to[(place - place % PAIR) * LANES + (column - first) * PAIR + place % PAIR] =
                    column < num_columns ? plain[column * depth + place] : 0;
#if IS_INT8
        lanes *scale = (lanes *)(to + depth * LANES);
        integers *sum = (integers *)(to + depth * LANES + END / 2);
        *scale = (lanes){0}, *sum = (integers){0};
        for (int64_t column = first; column < first + LANES && column < num_columns; column++) {
            (*scale)[column - first] = scales[column];
            for (int64_t place = 0; place < depth; place++)
                (*sum)[column - first] += 128 * plain[column * depth + place];
        }
#endif
    }
}

/* Norm, queries, keys and values, rotation: hidden [rows, hidden_size] to heads [rows, num_heads, head_dim], of which
 * the first `num_turned` are turned: queries and keys. `normed` has space for rows of `hidden`. */
void before_attention(int64_t num_rows, int64_t num_threads, float epsilon, int64_t hidden_size, int64_t head_dim,
                      int64_t num_heads, int64_t num_turned, const number *restrict hidden, const number *norm_weight,
                      const coefficient *qkv, const number *bias, const number *head_norm, const float *cosines,
                      const float *sines, number *restrict normed, void *room, number *restrict heads) {
#pragma omp parallel num_threads((int)num_threads)
    {
        norms(num_rows, hidden, norm_weight, normed, hidden_size, epsilon);
        multiply(num_rows, normed, hidden_size, room, qkv, bias, heads, num_heads * head_dim);
#pragma omp for schedule(static)
        for (int64_t row = 0; row < num_rows; row++)
            for (int64_t index = 0; index < num_turned; index++) {
                number *head = heads + (row * num_heads + index) * head_dim;
                if (head_norm) norm(head, head_norm + index * head_dim, head, head_dim, epsilon);
                turn(head, cosines + row * head_dim / 2, sines + row * head_dim / 2, head_dim / 2);
            }
    }
}

/* The output product of attended [rows, attended_size], norm and MLP; both results are added to `hidden` in place.
 * `gated` is room for rows of `inner_size` numbers. */
void after_attention(int64_t num_rows, int64_t num_threads, float epsilon, int64_t hidden_size, int64_t attended_size,
                     int64_t inner_size, const number *restrict attended, const coefficient *output_weight,
                     const number *norm_weight, const coefficient *gate_up, const coefficient *down,
                     number *restrict hidden, number *restrict normed, void *room, number *restrict gated) {
#pragma omp parallel num_threads((int)num_threads)
    {
        add_product(num_rows, attended, attended_size, room, output_weight, hidden, hidden_size);
        norms(num_rows, hidden, norm_weight, normed, hidden_size, epsilon);
        multiply_gated(num_rows, normed, hidden_size, room, gate_up, gated, inner_size);
        add_product(num_rows, gated, inner_size, room, down, hidden, hidden_size);
    }
}

/* One product: outputs [rows, width] of inputs [rows, depth]. */
void linear(int64_t num_rows, int64_t num_threads, int64_t depth, int64_t width, const number *restrict inputs,
                   const coefficient *panels, const number *bias, void *room, number *restrict output) {
#pragma omp parallel num_threads((int)num_threads)
    multiply(num_rows, inputs, depth, room, panels, bias, output, width);
}

/* The logits [rows, vocab_size] of rows of the last layer. */
void compute_logits(int64_t num_rows, int64_t num_threads, float epsilon, int64_t hidden_size, int64_t vocab_size,
                  const number *restrict hidden, const number *norm_weight, const coefficient *panels,
                  number *restrict normed, void *room, number *restrict logits) {
#pragma omp parallel num_threads((int)num_threads)
    {
        norms(num_rows, hidden, norm_weight, normed, hidden_size, epsilon);
        multiply(num_rows, normed, hidden_size, room, panels, 0, logits, vocab_size);
    }
}
