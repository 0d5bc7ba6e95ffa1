/* Phase 6, task 9 (optional): decode attention on your own processor.
 *
 * The engine compiles this file for a model once its line `#error` is gone. `mini-vllm hint 6.9` prints a hint in
 * steps.
 */
#include "decode_attention.h"

/* Attend from each row to the first `seq_lens[row]` tokens in its blocks.
 *
 * query [num_rows, NUM_KV_HEADS * GROUP, HEAD_DIM]: the last dimension is contiguous, heads are
 *     `query_head_stride` numbers apart, rows `query_row_stride`.
 * key_cache, value_cache [blocks, BLOCK_SIZE, NUM_KV_HEADS, HEAD_DIM], contiguous. Query head h reads K/V head h / GROUP.
 * block_tables [num_rows, longest], rows `table_stride` numbers apart; seq_lens [num_rows], each at least 1.
 * output [num_rows, NUM_KV_HEADS * GROUP, HEAD_DIM], contiguous and uninitialised: fill it.
 *
 * Scores are multiplied by `scale`. Sum in float32: `to_float(number)` and `from_float(value)` convert. Read no other
 * slot and write nothing else. OpenMP is available: `#pragma omp parallel for` uses torch's threads.
 */
void paged_decode_attention(
    const number *restrict query, int64_t query_row_stride, int64_t query_head_stride,
    const number *restrict key_cache, const number *restrict value_cache,
    const int64_t *restrict block_tables, int64_t table_stride, const int64_t *restrict seq_lens,
    number *restrict output, int64_t num_rows, float scale) {
#error "Phase 6, task 9: paged_decode_attention"
}
