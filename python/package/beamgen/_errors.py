"""What beamgen raises. Every message is one line."""


class Error(Exception):
    """Anything that beamgen raises of its own."""


class InputError(Error, ValueError):
    """What was given is at fault: a setting, a model, a file, a problem."""


class RunError(Error, RuntimeError):
    """The run is: a scorer raised (its exception is the cause), a model was lost, the solver is closed or forked."""


class ForeignProblemWarning(UserWarning):
    """A problem that the bundled models do not know: what they write about it, and their scores, mean nothing."""
