"""Tests of the student edition: its files, texts, commands and wheel, and the one-file engine."""
