"""Sections on storage: the tiers of a node, and how datasets are kept in them."""

from __future__ import annotations

from typing import Literal

from tenure.config.fields import Interval, Name, Positive, Size, TierPath, Word
from tenure.config.section import Section, required, stated


class TierSection(Section):
    name: Name = required("Unique on its node.")
    kind: Literal["memory", "ssd", "hdd"] = required(
        "What it is made of. `memory` is a directory of a mounted tmpfs."
    )
    path: TierPath = required("The directory on the node, as an absolute path; it must be there.")
    capacity: Size = required(
        "What blocks may take of it. Of kind `memory` all of it is taken off the node's memory."
    )
    bytes_per_s: Size | None = stated(
        None, "How fast it is read; else it is measured.", shown="measured"
    )


class DatasetsSection(Section):
    image: Word = stated(
        "busybox:stable",
        "Image of the helper containers that check, copy and remove blocks on nodes: with `sh`, "
        "`sha256sum`, `cp`, `mv`, `rm`, `find`, `stat` and `dd`, as busybox has. Pulled where a "
        "node lacks it.",
    )
    lost_after_s: Interval = stated(
        600, "A node that does not answer for this long counts as lost: its blocks are copied anew."
    )
    verify_h: Positive = stated(168, "Time between two checks of every replica by its checksum.")
    copies_per_node: Positive = stated(2, "Copies that are under way to one node at a time.")
