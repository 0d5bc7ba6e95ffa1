"""The six seams: what each phase offers, what runs in its place, and how the engine is built."""
