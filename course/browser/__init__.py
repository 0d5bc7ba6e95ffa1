"""A headless Chromium, to draw widgets as readers see them and to measure them. Needs playwright and a Chromium."""
