"""The course: it runs, records, compares, draws, grades, serves and measures the engine in `mini_vllm`."""
