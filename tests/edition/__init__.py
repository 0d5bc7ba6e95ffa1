"""Tests of the student edition: its files, texts, commands and wheel, and the vLLM in one file."""
