"""The results page: runs the benchmarks, stores their JSON, and writes docs/benchmarks.md."""
