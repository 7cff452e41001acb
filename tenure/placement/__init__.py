"""Where work goes: policies for deadline jobs and services, cost model, admission, reasons.

``policies.Policies`` is the door; everything behind it is plain functions over arrays that read
no clock and keep no state. The kernels (``decisions``, ``planning``, ``queue``) use only what numba
can compile; ``kernels`` compiles them on request.
"""
