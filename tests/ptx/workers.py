"""Calls in other processes. A call whose process dies or does not end fails by itself, and the others go on."""

import multiprocessing
import threading
from concurrent.futures import ThreadPoolExecutor


def _serve(connection) -> None:
    while True:
        function, argument = connection.recv()
        connection.send(function(argument))


class Worker:
    """A process that answers one call after the other."""

    # a card's context does not survive a fork
    context = multiprocessing.get_context("spawn")

    def __init__(self):
        self.process = None

    def call(self, function, argument, limit: float):
        """The function's result.

        Raises ChildProcessError if the process dies, TimeoutError if the call takes longer than `limit` seconds.
        """
        if self.process is None:
            self.connection, other = self.context.Pipe()
            self.process = self.context.Process(target=_serve, args=(other,), daemon=True)
            self.process.start()
            other.close()
        self.connection.send((function, argument))
        try:
            if not self.connection.poll(limit):
                raise TimeoutError(f"does not end within {limit:.0f} s")
            return self.connection.recv()
        except (EOFError, OSError, TimeoutError) as error:
            self.stop()
            if isinstance(error, TimeoutError):
                raise
            raise ChildProcessError("its process died") from None

    def stop(self) -> None:
        """Ends the process; the next call begins another one."""
        if self.process is not None:
            self.process.kill()
            self.process.join()
            self.connection.close()
            self.process = None


class Workers:
    """Several workers."""

    def __init__(self, jobs: int, limit: float):
        self.threads, self.limit, self.own, self.all = ThreadPoolExecutor(jobs), limit, threading.local(), []

    def _call(self, function, argument, failed, fresh):
        if not hasattr(self.own, "worker"):
            self.own.worker = Worker()
            self.all.append(self.own.worker)
        worker = self.own.worker
        try:
            result = worker.call(function, argument, self.limit)
        except (ChildProcessError, TimeoutError) as error:
            return failed(argument, str(error))
        if fresh(result):
            worker.stop()
        return result

    def map(self, function, work, failed, fresh=lambda result: False):
        """Results in order. `failed(argument, message)` stands for a call without one; after a result that `fresh` names the next
        call has a new process."""
        return self.threads.map(lambda argument: self._call(function, argument, failed, fresh), work)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.threads.shutdown(cancel_futures=True)
        for worker in self.all:
            worker.stop()
