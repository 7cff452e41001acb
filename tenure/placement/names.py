"""The policies for jobs by name, for who wants no more of them than that."""

from __future__ import annotations

#: By number: kernels cannot take strings.
POLICIES = ("ff", "gio", "exact", "fifo", "fifo_c", "fifo_c_free", "asq")
#: The policy that plans the whole queue (``rolling``). Where one job alone is asked about, it is
#: answered as ``exact``.
TENURE = "tenure"
#: The linear program, which takes its time: ``Policies.stand_in``.
MILP = "milp"
EVERY = (*POLICIES, TENURE, MILP)
