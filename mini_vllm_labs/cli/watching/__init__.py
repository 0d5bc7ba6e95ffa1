"""The parts of `mini-vllm watch`: saves, keys, ticks, what it shows, and the loop that holds them together."""
