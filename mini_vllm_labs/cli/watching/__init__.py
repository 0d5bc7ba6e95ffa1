"""The parts of `mini-vllm watch`: saves, keys, ticks, output, and the loop that ties them together."""
