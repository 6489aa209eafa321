"""Lowers the limits and the priority of another process of the same user."""
import os
import resource
import sys

victim = int(sys.argv[3])
for attempt in (
    lambda: resource.prlimit(victim, resource.RLIMIT_NOFILE, (5, 5)),
    lambda: os.setpriority(os.PRIO_PROCESS, victim, 19),
    lambda: os.sched_setaffinity(victim, {0}),
):
    try:
        attempt()
        print("lowered")
    except OSError as error:
        print(error)
