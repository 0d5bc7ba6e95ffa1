/* Phase 6, reference: the CPU kernels except `phase6_decode_attention.c`: writing K and V into the cache, and the
 * attention of prompt chunks.
 *
 * In torch the keys and values of a chunk are copied out of their blocks, and the scores of all its tokens are written
 * to memory and read again. Here a tile of queries walks over the blocks in place, and its scores never leave the
 * processor's cache. (Dao and others, "FlashAttention", 2022; vLLM: `csrc/cpu/cpu_attn.cpp`.)
 */
#include <math.h>
#include <string.h>

#include "lanes.h"
#include "numbers.h"

#define QUERY_ROWS 16 /* tokens of a tile; each has GROUP queries */
#define QUERIES (QUERY_ROWS * GROUP)
#define PADDED_QUERIES ((QUERIES + ROWS - 1) / ROWS * ROWS)
#define KEYS 64
#define UNSEEN (-1e30f) /* a score without weight; not minus infinity, which -ffast-math does not support */
#define DIM ((HEAD_DIM + 2 * LANES - 1) / (2 * LANES) * (2 * LANES)) /* HEAD_DIM, rounded up to whole registers */

/* A tile of queries, a tile of keys (transposed: [dim][key]) and values, and what the queries have seen so far. */
typedef struct {
    float query[PADDED_QUERIES][HEAD_DIM];
    float key[HEAD_DIM][KEYS + LANES]; /* a power of 2 apart, all rows would share a few cache lines */
    float value[KEYS][DIM];
    float weight[PADDED_QUERIES][KEYS];
    float largest[PADDED_QUERIES];
    float total[PADDED_QUERIES];
    float weighted[PADDED_QUERIES][DIM];
} Tile;

/* sums [ROWS][2 * LANES] of left [ROWS][depth] times right [depth][2 * LANES]; the strides separate their rows. */
INLINE void multiply(lanes sums[ROWS][2], const float *left, int64_t left_stride, const float *right,
                     int64_t right_stride, int64_t depth) {
    for (int64_t place = 0; place < depth; place++) {
        const lanes *pair = (const lanes *)(right + place * right_stride);
#pragma GCC unroll 8
        for (int row = 0; row < ROWS; row++) {
            sums[row][0] += left[row * left_stride + place] * pair[0];
            sums[row][1] += left[row * left_stride + place] * pair[1];
        }
    }
}

/* Read the keys and values of the slots `first` to `first + count - 1` of a request. */
static void load(Tile *tile, const number *key_cache, const number *value_cache, const int64_t *table, int64_t kv_head,
                 int64_t first, int64_t count) {
    for (int64_t slot = 0; slot < count; slot++) {
        int64_t place = table[(first + slot) / BLOCK_SIZE] * BLOCK_SIZE + (first + slot) % BLOCK_SIZE;
        const number *key = key_cache + (place * NUM_KV_HEADS + kv_head) * HEAD_DIM;
        const number *value = value_cache + (place * NUM_KV_HEADS + kv_head) * HEAD_DIM;
        for (int64_t dim = 0; dim < HEAD_DIM; dim++) tile->key[dim][slot] = to_float(key[dim]);
        for (int64_t dim = 0; dim < HEAD_DIM; dim++) tile->value[slot][dim] = to_float(value[dim]);
    }
    /* Leftovers of a previous tile would be harmless times 0, unless they are NaN. */
    for (int64_t slot = count; slot < KEYS; slot++) memset(tile->value[slot], 0, sizeof tile->value[slot]);
}

static void score(Tile *tile) {
    for (int64_t query = 0; query < PADDED_QUERIES; query += ROWS)
        for (int64_t key = 0; key < KEYS; key += 2 * LANES) {
            lanes sums[ROWS][2] = {0};
            multiply(sums, tile->query[query], HEAD_DIM, &tile->key[0][key], KEYS + LANES, HEAD_DIM);
            for (int row = 0; row < ROWS; row++) memcpy(&tile->weight[query + row][key], sums[row], sizeof sums[row]);
        }
}

/* Turn scores into weights. Query q may see `seen + q / GROUP` of the tile's keys. */
static void weigh(Tile *tile, int64_t seen) {
    for (int64_t query = 0; query < QUERIES; query++) {
        lanes *weight = (lanes *)tile->weight[query], top = (lanes){0} + tile->largest[query], total = {0};
        for (int64_t key = seen + query / GROUP < 0 ? 0 : seen + query / GROUP; key < KEYS; key++)
            tile->weight[query][key] = UNSEEN;
        for (int i = 0; i < KEYS / LANES; i++) top = larger(top, weight[i]);
        float largest = largest_of(top);
        for (int i = 0; i < KEYS / LANES; i++) total += weight[i] = exponential(weight[i] - largest);
        /* A larger score makes every earlier weight smaller, by one factor for both sums. */
        float shrink = expf(tile->largest[query] - largest);
        tile->largest[query] = largest;
        tile->total[query] = tile->total[query] * shrink + sum_of(total);
        for (int64_t dim = 0; dim < DIM; dim++) tile->weighted[query][dim] *= shrink;
    }
}

static void add_values(Tile *tile) {
    for (int64_t query = 0; query < PADDED_QUERIES; query += ROWS)
        for (int64_t dim = 0; dim < DIM; dim += 2 * LANES) {
            lanes sums[ROWS][2];
            for (int row = 0; row < ROWS; row++) memcpy(sums[row], &tile->weighted[query + row][dim], sizeof sums[row]);
            multiply(sums, tile->weight[query], KEYS, &tile->value[0][dim], DIM, KEYS);
            for (int row = 0; row < ROWS; row++) memcpy(&tile->weighted[query + row][dim], sums[row], sizeof sums[row]);
        }
}

/* Store the step's K and V in their slots. Rows of both are `row_stride` apart; heads and their numbers are
 * contiguous. (vLLM: `csrc/cpu/cpu_attn.cpp`, `cpu_attn_reshape_and_cache`.) */
void reshape_and_cache(const number *restrict key, const number *restrict value, int64_t row_stride,
                       number *restrict key_cache, number *restrict value_cache, const int64_t *restrict slot_mapping,
                       int64_t num_rows) {
    int64_t size = NUM_KV_HEADS * HEAD_DIM;
    for (int64_t row = 0; row < num_rows; row++) {
        memcpy(key_cache + slot_mapping[row] * size, key + row * row_stride, size * sizeof(number));
        memcpy(value_cache + slot_mapping[row] * size, value + row * row_stride, size * sizeof(number));
    }
}

/* Attend from the chunks of `num_requests` requests, whose indices in the batch are `requests`. The rows of request r
 * are query_start_loc[r] to query_start_loc[r + 1] - 1, the last of its seq_lens[r] tokens. */
void paged_chunk_attention(
    const number *restrict query, int64_t query_row_stride, int64_t query_head_stride,
    const number *restrict key_cache, const number *restrict value_cache,
    const int64_t *restrict block_tables, int64_t table_stride, const int64_t *restrict query_start_loc,
    const int64_t *restrict seq_lens, const int64_t *restrict requests, int64_t num_requests,
    number *restrict output, float scale) {
#pragma omp parallel
    for (int64_t index = 0; index < num_requests; index++) {
        int64_t request = requests[index], start = query_start_loc[request], end = query_start_loc[request + 1];
        const int64_t *table = block_tables + request * table_stride;
/* Later tiles see more keys, so a thread takes the next one when it is done. */
#pragma omp for collapse(2) schedule(dynamic) nowait
        for (int64_t first = start; first < end; first += QUERY_ROWS) {
            for (int64_t kv_head = 0; kv_head < NUM_KV_HEADS; kv_head++) {
                Tile tile = {0};
                int64_t num_rows = end - first < QUERY_ROWS ? end - first : QUERY_ROWS;
                int64_t position = seq_lens[request] - (end - first); /* of the tile's first token */
                for (int64_t q = 0; q < num_rows * GROUP; q++) {
                    const number *from = query + (first + q / GROUP) * query_row_stride
                                         + (kv_head * GROUP + q % GROUP) * query_head_stride;
                    for (int64_t dim = 0; dim < HEAD_DIM; dim++) tile.query[q][dim] = to_float(from[dim]) * scale;
                }
                for (int64_t q = 0; q < PADDED_QUERIES; q++) tile.largest[q] = UNSEEN;
                int64_t last = position + num_rows; /* the first slot that no token of the tile sees */
                for (int64_t slot = 0; slot < last; slot += KEYS) {
                    load(&tile, key_cache, value_cache, table, kv_head, slot, last - slot < KEYS ? last - slot : KEYS);
                    score(&tile);
                    weigh(&tile, position + 1 - slot);
                    add_values(&tile);
                }
                for (int64_t q = 0; q < num_rows * GROUP; q++) {
                    number *to = output + ((first + q / GROUP) * NUM_KV_HEADS * GROUP + kv_head * GROUP + q % GROUP) * HEAD_DIM;
                    for (int64_t dim = 0; dim < HEAD_DIM; dim++)
                        to[dim] = from_float(tile.weighted[q][dim] / tile.total[q]);
                }
            }
        }
    }
}
