"""Storage: the tiers of a node, how datasets are kept and prefetched in them, data in HDFS."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from tenure.config.fields import (
    FilePath,
    Flag,
    Hours,
    Interval,
    IntervalNumber,
    KeptSize,
    Name,
    NameNodes,
    Positive,
    Share,
    Size,
    Text,
    TierPath,
    TierWord,
    TlsFile,
    Word,
)
from tenure.config.section import Found, Section, filled, required, stated
from tenure.model.external import HdfsSpec


class TierSection(Section):
    name: Name = required("Unique on its node.")
    kind: TierWord = required("What it is made of. `memory` is a directory of a mounted tmpfs.")
    path: TierPath = required("The directory on the node, as an absolute path; it must be there.")
    capacity_bytes: Size = required(
        "What blocks may take of it. Of kind `memory` all of it is taken off the node's memory.",
        key="capacity",
    )
    bytes_per_s: Size | None = stated(
        None, "How fast it is read; else it is measured.", shown="measured"
    )


class HdfsSection(Section):
    name: Name = required("What it is called in `hdfs://NAME/path`, in lower case.")
    name_nodes: NameNodes = required(
        "Name nodes by their WebHDFS addresses, or gateways that speak it (HttpFS): "
        "`http://host:9870`, `https://host:9871`. With several the active one is looked for.",
        key="namenodes",
    )
    user: Text = stated("", "Whom to ask as (`user.name`), where security is off.", shown="none")
    token_file: FilePath | None = stated(
        None,
        "A file with a delegation token, where security is on; read anew for each look.",
        shown="none",
    )
    ca: TlsFile = stated("", "The authority of its certificates.", shown="the system's")
    timeout_s: IntervalNumber = stated(10, "How long one call may take.")
    nodes: dict[str, Name] = stated(
        {},
        "Our nodes by the host name or address of the datanode on them, where a node is not called "
        "as its host, or as that up to the first dot.",
    )

    @property
    def spec(self) -> HdfsSpec:
        return filled(HdfsSpec, self, token_file=self.token_file or "")

    def faults(self) -> Found:
        """Find files that are missing, and keys that contradict each other."""
        if self.user and self.token_file is not None:
            yield ("token_file",), "stands beside user; a token names its user itself"
        elif self.token_file is not None and not Path(self.token_file).is_file():
            yield ("token_file",), f"{self.token_file}: no such file"
        if self.ca and not any(url.startswith("https:") for url in self.name_nodes):
            yield ("ca",), "is used with https:// alone"
        elif self.ca and not Path(self.ca).is_file():
            yield ("ca",), f"{self.ca}: no such file"


class DatasetsSection(Section):
    helper_image: Word = stated(
        "busybox:stable",
        "Image of the helper containers that check, copy and remove blocks on nodes: with `sh`, "
        "`sha256sum`, `cp`, `mv`, `rm`, `find`, `stat` and `dd`, as busybox has. Pulled where a "
        "node lacks it.",
        key="image",
    )
    replica_lost_us: Interval = stated(
        600,
        "A node that does not answer for this long counts as lost: its blocks are copied anew. A "
        "block that has no copy left is waited for as long by deadline jobs.",
        key="lost_after_s",
    )
    scrub_us: Hours = stated(
        168, "Time between two checks of every replica by its checksum.", key="verify_h"
    )
    copies_per_node: Positive = stated(2, "Copies that are under way to one node at a time.")
    upload_bytes: KeptSize = stated(
        10 << 30,
        "Bytes that files of other machines may take in `uploads` of `state_dir` until they are "
        "in tiers; 0: none are taken.",
        key="upload_capacity",
    )
    upload_expire_us: Hours = stated(
        24, "An upload is removed of which nothing came for so long.", key="upload_expire_h"
    )
    locate_us: Interval = stated(
        60, "How long it is believed where the blocks of a file in HDFS lie.", key="locate_s"
    )
    hdfs: tuple[HdfsSection, ...] = stated(
        (), "Where data already lies, to be read there ([datasets.md](datasets.md#data-in-hdfs))."
    )

    def faults(self) -> Found:
        """Find file systems that share a name."""
        names = [one.name for one in self.hdfs]
        for index, name in enumerate(names):
            if name in names[:index]:
                yield ("hdfs", index, "name"), "stands here twice"


class PrefetchSection(Section):
    mode: Literal["off", "act"] = stated(
        "act",
        "`act`: for batches over datasets whose tasks wait; `off`: only for datasets that "
        "`tenure dataset prefetch` names.",
    )
    policy: Literal["search", "all"] = stated(
        "search",
        "`search`: what shortens the batch's run by the model; `all`: whatever fits.",
    )
    is_waiting: Flag = stated(
        False,
        "Whether a batch's first tasks may be held back for copies that are worth it.",
        key="wait",
    )
    share: Share = stated(
        0.5, "Share of each memory tier that copies may take which no task has read yet."
    )
    per_device: Positive = stated(
        2, "Copies from one tier of a node at a time.", key="copies_per_device"
    )
