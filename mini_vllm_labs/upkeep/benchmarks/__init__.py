"""The page of results: runs the benchmarks, stores their JSON, and writes docs/benchmarks.md."""
