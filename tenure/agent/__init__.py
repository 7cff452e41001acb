"""The node process: what a node and its containers use, read from the kernel's own files.

The modules here are pure: they turn the text of cgroup, proc and powercap files into counters, and
keep what was read. ``io`` opens the files, serves the readings, and is the daemon's way to them.
"""
