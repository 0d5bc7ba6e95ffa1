"""Runs JupyterLab in a headless Chromium to test the course there and to take pictures."""
