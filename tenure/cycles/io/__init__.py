"""Cycles over Redis and RQ: the embedded server, cron, the queue, the worker and its job.

RQ is a trigger, never the record of what must happen: that is the daemon's table of due runs.
"""
