"""The page of results: run the benchmarks, keep their JSON, write docs/benchmarks.md."""
