/* Phase 6, task 9 (optional), reference: decode attention on your own processor.
 *
 * vLLM: `csrc/cpu/cpu_attn.cpp`. The online softmax is that of Milakov and Gimelshein, 2018.
 */
#include "decode_attention.h"

#include <float.h>
#include <math.h>

/* The query heads of one K/V head, and what they have seen so far: the largest score, and relative to it the sum of
 * the weights and the weighted sum of V. */
typedef struct {
    float query[GROUP][HEAD_DIM];
    float largest[GROUP];
    float total[GROUP];
    float weighted[GROUP][HEAD_DIM];
} State;

/* Attend to the first `num_tokens` slots of one block. Neighbours in a head are NUM_KV_HEADS * HEAD_DIM apart. */
static void attend_to_block(State *state, const number *keys, const number *values, int64_t num_tokens) {
    float weights[GROUP][BLOCK_SIZE];
    for (int64_t slot = 0; slot < num_tokens; slot++) {
        const number *key = keys + slot * NUM_KV_HEADS * HEAD_DIM;
        /* Each key is read once for all query heads that share it. */
        for (int64_t head = 0; head < GROUP; head++) {
            float score = 0;
            for (int64_t dim = 0; dim < HEAD_DIM; dim++) score += state->query[head][dim] * to_float(key[dim]);
            weights[head][slot] = score;
        }
    }
    for (int64_t head = 0; head < GROUP; head++) {
        float largest = state->largest[head];
        for (int64_t slot = 0; slot < num_tokens; slot++) largest = fmaxf(largest, weights[head][slot]);
        /* A larger score makes every earlier weight smaller, by one factor for both sums. */
        float shrink = expf(state->largest[head] - largest);
        float total = state->total[head] * shrink;
        for (int64_t slot = 0; slot < num_tokens; slot++) {
            weights[head][slot] = expf(weights[head][slot] - largest);
            total += weights[head][slot];
        }
        state->largest[head] = largest;
        state->total[head] = total;
        for (int64_t dim = 0; dim < HEAD_DIM; dim++) state->weighted[head][dim] *= shrink;
    }
    for (int64_t slot = 0; slot < num_tokens; slot++) {
        const number *value = values + slot * NUM_KV_HEADS * HEAD_DIM;
        for (int64_t head = 0; head < GROUP; head++)
            for (int64_t dim = 0; dim < HEAD_DIM; dim++)
                state->weighted[head][dim] += weights[head][slot] * to_float(value[dim]);
    }
}

void paged_decode_attention(
    const number *restrict query, int64_t query_row_stride, int64_t query_head_stride,
    const number *restrict key_cache, const number *restrict value_cache,
    const int64_t *restrict block_tables, int64_t table_stride, const int64_t *restrict seq_lens,
    number *restrict output, int64_t num_rows, float scale) {
/* Rows differ in length, so a thread takes the next pair when it is done with one. */
#pragma omp parallel for collapse(2) schedule(dynamic)
    for (int64_t row = 0; row < num_rows; row++) {
        for (int64_t kv_head = 0; kv_head < NUM_KV_HEADS; kv_head++) {
            State state = {0};
            const number *heads = query + row * query_row_stride + kv_head * GROUP * query_head_stride;
            for (int64_t head = 0; head < GROUP; head++) {
                /* Not minus infinity: compiled with -ffast-math, nothing may be infinite. */
                state.largest[head] = -FLT_MAX;
                for (int64_t dim = 0; dim < HEAD_DIM; dim++)
                    state.query[head][dim] = to_float(heads[head * query_head_stride + dim]) * scale;
            }
            int64_t num_left = seq_lens[row];
            for (const int64_t *block = block_tables + row * table_stride; num_left > 0; block++) {
                int64_t start = (*block * BLOCK_SIZE * NUM_KV_HEADS + kv_head) * HEAD_DIM;
                int64_t num_tokens = num_left < BLOCK_SIZE ? num_left : BLOCK_SIZE;
                attend_to_block(&state, key_cache + start, value_cache + start, num_tokens);
                num_left -= num_tokens;
            }
            number *result = output + (row * NUM_KV_HEADS + kv_head) * GROUP * HEAD_DIM;
            for (int64_t head = 0; head < GROUP; head++)
                for (int64_t dim = 0; dim < HEAD_DIM; dim++)
                    result[head * HEAD_DIM + dim] = from_float(state.weighted[head][dim] / state.total[head]);
        }
    }
}
