"""The parts of `mini-vllm watch`: saves, keys, ticks, output, and the loop that connects them."""
