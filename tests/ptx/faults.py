"""What a kernel may not do."""


class KernelFault(Exception):
    """A kernel broke a rule of the machine: it read outside of its memory, raced, or never ended."""
