"""Benchmarks of the engine, and of the backends that a user would run instead."""
