"""Serves code that already exists: providers, objects, directories of files."""
