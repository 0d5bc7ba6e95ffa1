"""Benchmarks of the engine, and of what a user would run instead."""
