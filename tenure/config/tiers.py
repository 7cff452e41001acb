"""Sections on storage: the tiers of a node, how datasets are kept in them, and data in HDFS."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from tenure.config.fields import (
    FolderOrFile,
    Interval,
    KeptSize,
    Name,
    NameNodeUrl,
    Positive,
    Size,
    Text,
    TierPath,
    TlsFile,
    Word,
)
from tenure.config.section import Section, required, stated
from tenure.config.settings import DatasetSettings
from tenure.model.external import HdfsSpec
from tenure.model.units import HOUR_US, seconds_to_us


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


class HdfsSection(Section):
    name: Name = required("What it is called in `hdfs://NAME/path`, in lower case.")
    namenodes: list[NameNodeUrl] = Field(
        min_length=1,
        max_length=16,
        description="Name nodes by their WebHDFS addresses, or gateways that speak it (HttpFS): "
        "`http://host:9870`, `https://host:9871`. With several the active one is looked for.",
    )
    user: Text = stated("", "Whom to ask as (`user.name`), where security is off.", shown="none")
    token_file: FolderOrFile | None = stated(
        None,
        "A file with a delegation token, where security is on; read anew for each look.",
        shown="none",
    )
    ca: TlsFile = stated("", "The authority of its certificates.", shown="the system's")
    timeout_s: Interval = stated(10, "How long one call may take.")
    nodes: dict[str, Name] = stated(
        {},
        "Our nodes by the host name or address of the datanode on them, where a node is not called "
        "as its host, or as that up to the first dot.",
    )


class DatasetsSection(Section):
    image: Word = stated(
        "busybox:stable",
        "Image of the helper containers that check, copy and remove blocks on nodes: with `sh`, "
        "`sha256sum`, `cp`, `mv`, `rm`, `find`, `stat` and `dd`, as busybox has. Pulled where a "
        "node lacks it.",
    )
    lost_after_s: Interval = stated(
        600,
        "A node that does not answer for this long counts as lost: its blocks are copied anew. A "
        "block that has no copy left is waited for as long by deadline jobs.",
    )
    verify_h: Positive = stated(168, "Time between two checks of every replica by its checksum.")
    copies_per_node: Positive = stated(2, "Copies that are under way to one node at a time.")
    upload_capacity: KeptSize = stated(
        10 << 30,
        "Bytes that files of other machines may take in `uploads` of `state_dir` until they are "
        "in tiers; 0: none are taken.",
    )
    upload_expire_h: Positive = stated(
        24, "An upload is removed of which nothing came for so long."
    )
    locate_s: Interval = stated(
        60, "How long it is believed where the blocks of a file in HDFS lie."
    )
    hdfs: list[HdfsSection] = stated(
        [], "Where data already lies, to be read there ([datasets.md](datasets.md#data-in-hdfs))."
    )


def build_datasets(section: DatasetsSection) -> DatasetSettings:
    """Return how datasets are kept; paths are absolute by now."""
    return DatasetSettings(
        image=section.image,
        lost_us=seconds_to_us(section.lost_after_s),
        verify_us=section.verify_h * HOUR_US,
        copies_per_node=section.copies_per_node,
        locate_us=seconds_to_us(section.locate_s),
        upload_bytes=section.upload_capacity,
        upload_expire_us=section.upload_expire_h * HOUR_US,
        hdfs=tuple(
            HdfsSpec(
                name=one.name,
                name_nodes=tuple(one.namenodes),
                user=one.user,
                token_file=one.token_file or "",
                ca=one.ca,
                timeout_s=float(one.timeout_s),
                nodes=dict(one.nodes),
            )
            for one in section.hdfs
        ),
    )
