"""Defines the routes, with one router per part of the API."""
