"""The order of containers within an envelope (GENPACK section 5.1)."""

from __future__ import annotations

import numpy as np

from tenure.cycles.availability import Floats


def scores(vectors: Floats) -> Floats:
    """Return the consumption score (n,) of the containers of one envelope.

    ``vectors`` is (n, dimensions), each entry not negative. A container's score is the norm of its
    shares of the envelope's sum in each dimension; a dimension that sums to zero adds nothing.
    """
    sums = vectors.sum(axis=0)
    shares = np.divide(vectors, sums, out=np.zeros_like(vectors), where=sums > 0)
    result: Floats = np.sqrt((shares**2).sum(axis=1))
    return result
