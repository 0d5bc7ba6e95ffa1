"""Drafts for the next step, made after the forward pass, when the tokens of the current step are known."""
