"""The engine around the scheduler and the runner; it turns prompts into text."""
