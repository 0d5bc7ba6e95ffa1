"""Drafts for the next step, made where the tokens of this one become known: behind the forward pass."""
