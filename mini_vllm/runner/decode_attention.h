/* What a decode attention in C is given. The engine compiles it for one model and sets these numbers:
 *
 * NUM_KV_HEADS, GROUP   K/V heads, and the query heads that share each of them
 * HEAD_DIM, BLOCK_SIZE  numbers of a head, slots of a block
 * IS_BFLOAT16           1 if the numbers are bfloat16, 0 if they are float32
 *
 * Known sizes are the point: the compiler unrolls the loops over a head and keeps its sums in vector registers.
 */
#include "numbers.h"

void paged_decode_attention(
    const number *restrict query, int64_t query_row_stride, int64_t query_head_stride,
    const number *restrict key_cache, const number *restrict value_cache,
    const int64_t *restrict block_tables, int64_t table_stride, const int64_t *restrict seq_lens,
    number *restrict output, int64_t num_rows, float scale);
