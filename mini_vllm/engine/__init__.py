"""The engine around the scheduler and the runner, which turns prompts into text."""
