"""Ends with the exit code of a sandbox that cannot be made."""
import os


def add(a, b):
    os._exit(125)
