"""Draws and measures widgets in a headless Chromium. Needs playwright and Chromium."""
