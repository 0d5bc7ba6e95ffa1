"""Serves an engine over HTTP, through OpenAI's API with vLLM's additions."""
