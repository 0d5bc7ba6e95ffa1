"""Drafts for the next step, made where the tokens of this one become known: after the forward pass."""
