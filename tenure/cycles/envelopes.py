"""Container envelopes: containers that use the same resources most, by k-means (section 5.1).

scikit-learn is loaded by the first plan that has more different containers than envelopes: by a
worker, never by the daemon.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tenure.cycles.availability import Floats, Ints
from tenure.cycles.candidates import Candidate
from tenure.model.resources import DIMENSIONS, Resources

#: Ratios closer than this are one: it is far below what a measurement tells.
DECIMALS = 6
SEED = 0
#: Starts of k-means with other seeds; the best of them counts.
STARTS = 4
KINDS = dict(zip(DIMENSIONS, ("cpu", "memory", "disk", "net"), strict=True))


@dataclass(frozen=True, slots=True)
class Envelope:
    """Containers of one cluster, by decreasing score; ``kind`` is what they use most, relative to
    the others: cpu, memory, disk, net, or even where nothing stands out.
    """

    kind: str
    members: tuple[Candidate, ...]


def make_envelopes(
    candidates: Sequence[Candidate], shape: Resources, envelopes: int
) -> list[Envelope]:
    """Part ``candidates`` into at most ``envelopes`` envelopes, the largest use first.

    A container is the vector of its 90th percentiles as ratios to ``shape``, the node of the target
    generation; dimensions that the shape does not state are left out. The same containers give the
    same envelopes in whatever order they come.
    """
    if not candidates:
        return []
    rows = sorted(candidates, key=lambda row: row.service.id)
    vectors = ratios([row.profile.p90 for row in rows], shape)
    labels = cluster(vectors, envelopes)
    parts = [np.flatnonzero(labels == label) for label in range(int(labels.max()) + 1)]
    parts = [part for part in parts if part.size]
    centres = {int(part[0]): vectors[part].mean(axis=0) for part in parts}
    parts.sort(key=lambda part: (-float((centres[int(part[0])] ** 2).sum()), int(part[0])))
    overall = vectors.mean(axis=0)
    names = _names(shape)
    made = []
    for part in parts:
        order = part[np.argsort(-scores(vectors[part]), kind="stable")]
        kind = _kind(centres[int(part[0])], overall, names)
        made.append(Envelope(kind, tuple(rows[i] for i in order)))
    return made


def ratios(uses: Sequence[Resources], shape: Resources) -> Floats:
    """Return uses over ``shape`` as (n, stated dimensions); an empty shape states nothing."""
    amounts = np.array([use.values() for use in uses], dtype=np.float64).reshape(len(uses), -1)
    whole = np.array(shape.values(), dtype=np.float64)
    result: Floats = amounts[:, whole > 0] / whole[whole > 0]
    return result


def cluster(vectors: Floats, k: int) -> Ints:
    """Return the cluster (n,) of each vector, from 0, for min(k, distinct vectors) clusters.

    k-means with fixed seeds on the distinct vectors in their own order, each with its weight, in
    one thread: so the result depends on nothing but the vectors. No more distinct vectors than
    clusters: each is its own. O(n log n) beside scikit-learn's iterations.
    """
    if vectors.shape[1] == 0:
        return np.zeros(len(vectors), dtype=np.int64)
    points, inverse, counts = np.unique(
        np.round(vectors, DECIMALS), axis=0, return_inverse=True, return_counts=True
    )
    inverse = inverse.reshape(-1).astype(np.int64)
    if len(points) <= max(1, k):
        return inverse
    if k <= 1:
        return np.zeros(len(vectors), dtype=np.int64)
    labels: Ints = _k_means(points, counts, k)[inverse]
    return labels


def _k_means(points: Floats, weights: Ints, k: int) -> Ints:
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning
    from threadpoolctl import threadpool_limits

    with warnings.catch_warnings(), threadpool_limits(1):
        # points so close that fewer clusters than k come out are fine
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = KMeans(n_clusters=k, n_init=STARTS, random_state=SEED)
        labels: Ints = model.fit_predict(points, sample_weight=weights).astype(np.int64)
    return labels


def _names(shape: Resources) -> list[str]:
    pairs = zip(DIMENSIONS, shape.values(), strict=True)
    return [KINDS[name] for name, whole in pairs if whole > 0]


def _kind(centre: Floats, overall: Floats, names: Sequence[str]) -> str:
    """Return the dimension in which a cluster stands out most from the mean of all."""
    lead = np.divide(centre, overall, out=np.zeros_like(centre), where=overall > 0)
    if lead.size < 2 or float(np.ptp(lead)) < 1e-9:
        return "even"
    return names[int(np.argmax(lead))]


def scores(vectors: Floats) -> Floats:
    """Return the consumption score (n,) of the containers of one envelope.

    ``vectors`` is (n, dimensions), each entry not negative. A container's score is the norm of its
    shares of the envelope's sum in each dimension; a dimension that sums to zero adds nothing.
    """
    sums = vectors.sum(axis=0)
    shares = np.divide(vectors, sums, out=np.zeros_like(vectors), where=sums > 0)
    result: Floats = np.sqrt((shares**2).sum(axis=1))
    return result
