"""A vLLM in one file: the reference solutions in a template."""
