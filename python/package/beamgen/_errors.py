"""The exceptions of beamgen. Every message is a single line."""


class Error(Exception):
    """The base class of beamgen's exceptions."""


class InputError(Error, ValueError):
    """The caller's input is at fault: a setting, a model, a file, a problem.

    >>> import beamgen
    >>> try:
    ...     beamgen.Solver(n=0)
    ... except beamgen.InputError as error:
    ...     print(error)
    n must be at least 1
    """


class RunError(Error, RuntimeError):
    """The run failed: a scorer raised (its exception is the cause), a model was lost, the solver is closed or forked."""


class ForeignProblemWarning(UserWarning):
    """A warning that the bundled models do not know a problem: their answer and their scores mean nothing."""
