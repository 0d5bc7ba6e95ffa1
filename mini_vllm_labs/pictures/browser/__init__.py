"""A headless Chromium that draws and measures widgets. Needs playwright and a Chromium."""
