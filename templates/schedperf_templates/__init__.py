"""Jinja2 templates, style sheets and our own JavaScript, as package data."""
