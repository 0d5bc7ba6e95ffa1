"""The six seams: what each phase offers, what runs in its place, and who builds the engine."""
