"""From prompts to text: the engine around the scheduler and the runner."""
