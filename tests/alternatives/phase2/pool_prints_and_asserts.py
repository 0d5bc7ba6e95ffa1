"""The pool prints what it hands out and asserts that the null block is never freed."""

from solutions.phase2_block_pool import BlockPool as Given


class BlockPool(Given):
    def get_new_blocks(self, num_blocks):

        def one():
            block = self.free_queue.popleft()
            print("handing out", block.block_id)
            self.prefix_cache.evict(block.block_id)
            block.ref_cnt += 1
            return block.block_id

        return [one() for _ in range(num_blocks)]

    def free_blocks(self, block_ids):
        assert 0 not in list(block_ids)
        for block in [self.blocks[i] for i in block_ids]:
            block.ref_cnt = block.ref_cnt - 1
            if not block.ref_cnt:
                self.free_queue.append(block)
