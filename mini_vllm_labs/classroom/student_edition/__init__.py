"""Makes the student edition: chooses its files, adapts their texts, and checks that no solution leaks."""
