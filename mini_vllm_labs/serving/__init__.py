"""An engine behind HTTP, with OpenAI's API and vLLM's additions to it."""
