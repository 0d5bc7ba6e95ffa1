"""The course's tools: they run, record, compare, draw, grade, serve and measure the engine in `mini_vllm`."""
