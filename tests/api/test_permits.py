"""What may be submitted by whom: each field of a create body, in every spelling, jobs, batches."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.api.access.permits import HARMLESS, RULES, container_faults
from tenure.api.schemas.docker import HOST_FIELDS
from tenure.api.schemas.docker import HostConfig as HostConfigModel
from tenure.config.access import PolicySection
from tenure.config.section import filled
from tenure.model.accesspolicy import AccessPolicy, Permits
from tenure.model.roles import Role

Json = dict[str, Any]
STRICT = AccessPolicy()


def volume(**options: str) -> Json:
    """Return a mount of a volume that the local driver makes with options."""
    driver = {"Name": "local", "Options": options}
    return {
        "Type": "volume",
        "Source": "v",
        "Target": "/v",
        "VolumeOptions": {"DriverConfig": driver},
    }


def mounted(mount: Json) -> Json:
    return {"Mounts": [mount]}


def bind(source: str, **more: Any) -> Json:
    return mounted({"Type": "bind", "Source": source, "Target": "/x", **more})


#: A HostConfig that gives power over a host, and the key of the policy that would allow it.
POWERS: list[tuple[Json, str]] = [
    # folders of the host
    ({"Binds": ["/:/host"]}, "binds"),
    ({"Binds": ["/etc:/etc:ro"]}, "binds"),
    ({"Binds": ["v:/v", "/etc/shadow:/s"]}, "binds"),
    ({"Binds": ["//etc:/x"]}, "binds"),
    ({"Binds": ["/./etc:/x"]}, "binds"),
    ({"Binds": ["/srv/../etc:/x"]}, "binds"),
    ({"Binds": ["../etc:/x"]}, "binds"),
    ({"Binds": ["./etc:/x"]}, "binds"),
    ({"Binds": ["~/x:/x"]}, "binds"),
    ({"Binds": [":/x"]}, "binds"),
    ({"binds": ["/:/host"]}, "binds"),
    ({"BINDS": ["/:/host"]}, "binds"),
    ({"Bind\u017f": ["/:/host"]}, "binds"),  # the long s, which Go folds too
    ({"Binds": ["/var/run/docker.sock:/var/run/docker.sock"]}, "binds"),
    (bind("/"), "binds"),
    (bind("/etc", ReadOnly=True), "binds"),
    (bind("/srv/../etc"), "binds"),
    (bind(""), "binds"),
    (mounted({"type": "bind", "source": "/", "target": "/x"}), "binds"),
    (mounted({"TYPE": "bind", "SOURCE": "/", "Target": "/x"}), "binds"),
    (mounted({"Type": "BIND", "Source": "/", "Target": "/x"}), "binds"),
    (mounted({"Type": "volume", "type": "bind", "Source": "v", "source": "/"}), "binds"),
    (mounted({"type": "bind", "Type": "volume", "source": "/", "Source": "v"}), "binds"),
    (mounted({"Source": "/", "Target": "/x"}), "binds"),
    (mounted({"Type": "volume", "Source": "/", "Target": "/x"}), "binds"),
    (mounted({"Type": "bind", "\u017fource": "/", "Target": "/x"}), "binds"),
    ({"mounts": [{"Type": "bind", "Source": "/", "Target": "/x"}]}, "binds"),
    (mounted(volume(type="none", o="bind", device="/")), "binds"),
    (mounted(volume(type="none", o="rw,rbind", device="/etc")), "binds"),
    (mounted(volume(type="", o="BIND", device="/etc")), "binds"),
    (mounted(volume(o="bind", device="/etc")), "binds"),
    (mounted(volume(type="tmpfs", o="bind", device="/etc")), "binds"),
    (mounted(volume(device="/etc")), "binds"),
    (mounted(volume(Type="none", O="bind", Device="/")), "binds"),
    (
        mounted(
            {
                "Type": "volume",
                "volumeoptions": {"driverconfig": {"options": {"o": "bind", "device": "/"}}},
            }
        ),
        "binds",
    ),
    # an engine puts together what keys say that differ in case alone
    (
        mounted(
            {
                **volume(type="tmpfs", device="/etc"),
                "volumeoptions": {"driverconfig": {"options": {"o": "bind"}}},
            }
        ),
        "binds",
    ),
    (
        mounted(
            {
                "Type": "volume",
                "VolumeOptions": {
                    "DriverConfig": {"Options": {"type": "tmpfs", "device": "/etc"}},
                    "driverConfig": {"options": {"o": "bind"}, "OPTIONS": {"size": "1m"}},
                },
            }
        ),
        "binds",
    ),
    (mounted(volume(type="ext4", device="/dev/sda1")), "volume_drivers"),
    (mounted(volume(type="nfs", o="addr=10.0.0.1", device=":/")), "volume_drivers"),
    (mounted({"Type": "cluster", "Source": "v", "Target": "/x"}), "volume_drivers"),
    (mounted({"Type": "npipe", "Source": "v", "Target": "/x"}), "volume_drivers"),
    (
        mounted({"Type": "volume", "VolumeOptions": {"DriverConfig": {"Name": "rexray"}}}),
        "volume_drivers",
    ),
    ({"VolumeDriver": "rexray"}, "volume_drivers"),
    # other containers
    ({"VolumesFrom": ["other"]}, "join_containers"),
    ({"volumesfrom": ["other:ro"]}, "join_containers"),
    ({"Links": ["db:db"]}, "join_containers"),
    ({"Cgroup": "container:other"}, "join_containers"),
    ({"PidMode": "container:other"}, "join_containers"),
    ({"IpcMode": "container:other"}, "join_containers"),
    ({"NetworkMode": "container:other"}, "join_containers"),
    # the host's namespaces
    ({"PidMode": "host"}, "host_namespaces"),
    ({"pidmode": "host"}, "host_namespaces"),
    ({"IpcMode": "host"}, "host_namespaces"),
    ({"UTSMode": "host"}, "host_namespaces"),
    ({"UsernsMode": "host"}, "host_namespaces"),
    ({"CgroupnsMode": "host"}, "host_namespaces"),
    ({"NetworkMode": "host"}, "host_namespaces"),
    ({"NetworkMode": "databases"}, "networks"),
    # devices, capabilities, the kernel
    ({"Privileged": True}, "privileged"),
    ({"privileged": True}, "privileged"),
    ({"Devices": [{"PathOnHost": "/dev/sda", "PathInContainer": "/dev/x"}]}, "devices"),
    ({"Devices": [{"pathonhost": "/dev/sda"}]}, "devices"),
    ({"Devices": [{"PathOnHost": "/dev/null", "PATHONHOST": "/dev/mem"}]}, "devices"),
    ({"DeviceRequests": [{"Count": -1, "Capabilities": [["gpu"]]}]}, "gpus"),
    ({"DeviceCgroupRules": ["a *:* rwm"]}, "devices"),
    ({"CapAdd": ["SYS_ADMIN"]}, "capabilities"),
    ({"CapAdd": ["cap_sys_admin"]}, "capabilities"),
    ({"CapAdd": ["ALL"]}, "capabilities"),
    ({"capadd": ["all"]}, "capabilities"),
    ({"SecurityOpt": ["seccomp=unconfined"]}, "security_options"),
    ({"SecurityOpt": ["seccomp:unconfined"]}, "security_options"),
    ({"SecurityOpt": ["no-new-privileges", "apparmor=unconfined"]}, "security_options"),
    ({"SecurityOpt": ["label=disable"]}, "security_options"),
    ({"SecurityOpt": ["no-new-privileges=false"]}, "security_options"),
    ({"MaskedPaths": []}, "security_options"),
    ({"ReadonlyPaths": []}, "security_options"),
    ({"maskedpaths": ["/proc/x"]}, "security_options"),
    ({"Sysctls": {"kernel.shmmax": "1"}}, "sysctls"),
    ({"CgroupParent": "/system.slice"}, "cgroup_parent"),
    ({"Runtime": "kata"}, "runtimes"),
    ({"Annotations": {"run.oci.hooks.stdout": "/x"}}, "annotations"),
    ({"OomScoreAdj": -1000}, "oom_score"),
    ({"OomKillDisable": True}, "oom_score"),
    ({"CpuRealtimeRuntime": 950_000}, "realtime"),
    ({"CpuRealtimePeriod": 1_000_000}, "realtime"),
    ({"Ulimits": [{"Name": "rtprio", "Soft": 99, "Hard": 99}]}, "realtime"),
    ({"Ulimits": [{"name": "NICE", "Hard": 40}]}, "realtime"),
    ({"GroupAdd": ["docker"]}, "groups"),
    ({"GroupAdd": ["0"]}, "groups"),
    ({"LogConfig": {"Type": "syslog"}}, "log_drivers"),
    ({"LogConfig": {"type": "fluentd"}}, "log_drivers"),
]
#: What Docker refuses or passes over, and Podman behind Docker's API takes: no policy allows it.
ELSEWHERE: list[Json] = [
    *({key: "ns:/proc/1/ns/x"} for key in ("PidMode", "IpcMode", "UTSMode", "UsernsMode")),
    {"CgroupnsMode": "ns:/proc/1/ns/cgroup"},
    {"UsernsMode": "keep-id"},
    {"LogConfig": {"Type": "json-file", "Config": {"path": "/etc/cron.d/x"}}},
    {"LogConfig": {"Type": "json-file", "config": {"PATH": "/etc/cron.d/x"}}},
    {"ContainerIDFile": "/etc/passwd"},
    {"Binds": ["data:/data:O,upperdir=/etc,workdir=/tmp/w"]},
]
POWERS += [(host, "") for host in ELSEWHERE]
#: Of these, what no policy allows, for no engine takes it as it may be meant.
UNTAKEN: list[Json] = [
    *ELSEWHERE,
    bind(""),
    *({"Binds": [source]} for source in (":/x", "./etc:/x", "~/x:/x")),
    mounted({"Type": "volume", "type": "bind", "Source": "v", "source": "/"}),
    mounted({"type": "bind", "Type": "volume", "source": "/", "Source": "v"}),
]
#: What gives none.
HARMLESS_BODIES: list[Json] = [
    {},
    {"Binds": ["data:/data", "data:/data:ro", "/anonymous"]},
    {"Binds": None, "Mounts": None, "Devices": None, "CapAdd": None, "MaskedPaths": None},
    mounted({"Type": "volume", "Source": "data", "Target": "/data"}),
    mounted({"Type": "volume", "Target": "/data"}),
    mounted({"Type": "tmpfs", "Target": "/run", "TmpfsOptions": {"SizeBytes": 1}}),
    mounted(volume(type="tmpfs", o="size=1m", device="tmpfs")),
    {"NetworkMode": "bridge", "PidMode": "", "IpcMode": "private", "CgroupnsMode": "private"},
    {"NetworkMode": "", "UTSMode": "", "UsernsMode": "", "CgroupParent": "", "Runtime": ""},
    {"ContainerIDFile": "", "IpcMode": "shareable", "Binds": ["data:/data:rw,nocopy"]},
    {"Privileged": False, "OomScoreAdj": 500, "OomKillDisable": False},
    {"SecurityOpt": ["no-new-privileges", "no-new-privileges:true", "no-new-privileges=true"]},
    {"CapDrop": ["ALL"], "ReadonlyRootfs": True, "Init": True, "GroupAdd": []},
    {"Ulimits": [{"Name": "nofile", "Soft": 1024, "Hard": 4096}], "VolumeDriver": "local"},
    {"LogConfig": {"Type": "json-file", "Config": {"max-size": "1m"}}, "Runtime": "runc"},
    {"RestartPolicy": {"Name": "always"}, "PortBindings": {"80/tcp": [{"HostPort": "80"}]}},
]


def found(policy: AccessPolicy, host: Json) -> list[str]:
    return [fault.key for fault in container_faults(policy, {"Image": "a", "HostConfig": host})]


def allowing(policy: AccessPolicy, host: Json) -> AccessPolicy:
    """Return the policy with what its own refusal says would allow a body."""
    for fault in container_faults(policy, {"Image": "a", "HostConfig": host}):
        before = getattr(policy, fault.key)
        now: Any = (*before, fault.value) if isinstance(before, tuple) else True
        policy = replace(policy, **{fault.key: now})
    return policy


@pytest.mark.parametrize(("host", "key"), POWERS, ids=lambda part: json.dumps(part)[:70])
def test_power_over_a_host_is_not_permitted_by_default(host: Json, key: str) -> None:
    assert key in found(STRICT, host)


@pytest.mark.parametrize(
    "host",
    [host for host, _ in POWERS if ".." not in json.dumps(host)],
    ids=lambda h: json.dumps(h)[:70],
)
def test_the_remedy_that_is_named_is_one(host: Json) -> None:
    if host in UNTAKEN:
        assert found(AccessPolicy(binds=("/*",), engine_socket=True), host)
        return
    policy = STRICT
    for _ in range(3):  # of the host's / the guarded sockets come second
        policy = allowing(policy, host)
    assert not found(policy, host)


@given(st.sampled_from(POWERS), st.randoms(use_true_random=False))
def test_no_other_spelling_of_a_key_helps(power: tuple[Json, str], random: Random) -> None:
    """Engines take keys in any case, and two letters beyond ASCII for s and k."""
    host, key = power
    assert key in found(STRICT, _respelt(host, random))


def _respelt(value: Any, random: Random) -> Any:
    if isinstance(value, list):
        return [_respelt(part, random) for part in value]
    if not isinstance(value, dict):
        return value
    found: Json = {}
    for name, part in value.items():
        spelt = _spelt(name, random)
        while spelt in found:  # of two alike JSON keeps one, and that may be the harmless one
            spelt = _spelt(name, random)
        found[spelt] = _respelt(part, random)
    return found


def _spelt(name: str, random: Random) -> str:
    odd = {"s": "sS\u017f", "k": "kK\u212a"}
    return "".join(random.choice(odd.get(c.lower(), c.lower() + c.upper())) for c in name)


@pytest.mark.parametrize("host", HARMLESS_BODIES, ids=lambda h: json.dumps(h)[:70])
def test_what_gives_no_power_is_permitted(host: Json) -> None:
    assert not found(STRICT, host)


def test_every_field_of_docker_s_is_known_to_the_policy() -> None:
    """A field that is added later is refused until somebody has thought about it."""
    known = {name.casefold() for name in HostConfigModel.model_fields}
    assert {n.casefold() for names in HOST_FIELDS.values() for n in names.split()} <= known
    assert known == set(RULES) | set(HARMLESS)
    assert not set(RULES) & set(HARMLESS)
    assert found(STRICT, {"Novel": 1}) == [""]


def test_volumes_of_a_container_are_no_binds() -> None:
    def keys(volumes: Json) -> list[str]:
        return [fault.key for fault in container_faults(STRICT, {"Volumes": volumes})]

    assert keys({"/data": {}}) == []
    assert keys({"/:/host": {}}) == ["binds"]


def test_networks_by_endpoint() -> None:
    def keys(policy: AccessPolicy, endpoints: Json, name: str = "EndpointsConfig") -> list[str]:
        body = {"NetworkingConfig": {name: endpoints}}
        return [fault.key for fault in container_faults(policy, body)]

    assert keys(STRICT, {"bridge": {}}) == []
    assert keys(STRICT, {"databases": {}}) == ["networks"]
    assert keys(STRICT, {"databases": {}}, "endpointsconfig") == ["networks"]
    assert keys(STRICT, {"host": {}}) == ["host_namespaces"]
    assert keys(STRICT, {"bridge": {"NetworkID": "abcdef"}}) == ["networks"]
    assert keys(AccessPolicy(networks=("data*",)), {"databases": None}) == []


# paths


@pytest.mark.parametrize(
    ("entries", "path", "is_allowed"),
    [
        (("/srv/data",), "/srv/data", True),
        (("/srv/data",), "/srv/data/", True),
        (("/srv/data",), "/srv//./data", True),
        (("/srv/data",), "/srv/data/x", False),  # a link in there may lead anywhere
        (("/srv/data",), "/srv/database", False),
        (("/srv/data",), "/srv", False),
        (("/srv/data/*",), "/srv/data", True),
        (("/srv/data/*",), "/srv/data/x/y", True),
        (("/srv/data/*",), "/srv/database", False),
        (("/srv/data/*",), "/srv/data/../x", False),
        (("/*",), "/etc", True),
        (("/*",), "/etc/../etc", False),
        (("/*",), "./etc", False),
        (("/srv", "/data"), "/data", True),
        ((), "/", False),
        (("/srv/data",), "/SRV/data", False),
    ],
)
def test_which_paths_are_allowed(entries: tuple[str, ...], path: str, is_allowed: bool) -> None:
    policy = AccessPolicy(binds=entries)
    assert policy.binds_path(path) is is_allowed
    assert (found(policy, {"Binds": [f"{path}:/x"]}) == []) is is_allowed
    assert (found(policy, bind(path)) == []) is is_allowed
    assert (found(policy, mounted(volume(o="bind", device=path))) == []) is is_allowed


@pytest.mark.parametrize(
    "path",
    [
        *("/var/run/docker.sock", "/run/docker.sock", "/run", "/var/run", "/var", "/", "/run/"),
        *("/run/containerd/containerd.sock", "/home/a/docker.sock", "/var/lib/docker/volumes"),
        *("/var/lib", "/var/lib/tenure", "/var/run/tenure/tenured.sock", "/run/podman"),
    ],
)
def test_engine_sockets_need_a_key_of_their_own(path: str) -> None:
    policy = AccessPolicy(binds=("/*",))
    assert found(policy, {"Binds": [f"{path}:/x"]}) == ["engine_socket"]
    assert found(policy, bind(path)) == ["engine_socket"]
    assert found(replace(policy, engine_socket=True), bind(path)) == []
    assert found(policy, bind("/srv")) == []


def test_the_configuration_has_the_policy_s_keys_and_defaults() -> None:
    assert filled(AccessPolicy, PolicySection()) == STRICT
    assert set(PolicySection.model_fields) == {field.name for field in fields(AccessPolicy)}


# volumes, ports, digests

APART = Permits(known=("team", "team-a")).of(Role.SUBMIT, "team")[1]
PINNED = f"app@sha256:{'0' * 64}"
#: A HostConfig with a thing of others', and the key of the policy that would allow it.
OTHERS: list[tuple[Json, str]] = [
    ({"Binds": ["data:/x"]}, "volumes"),
    ({"Binds": ["team-b:/x", "teams:/x", "team-a:/x", "team-a-data:/x"]}, "volumes"),
    ({"Binds": ["Team:/x"]}, "volumes"),
    (mounted({"Type": "volume", "Source": "data", "Target": "/x"}), "volumes"),
    (mounted({"Type": "VOLUME ", "source": "data", "Target": "/x"}), "volumes"),
    (mounted({"Type": "cluster", "Source": "data", "Target": "/x"}), "volumes"),
    (mounted(volume(type="tmpfs", device="tmpfs") | {"Source": "team-a.x"}), "volumes"),
    ({"PortBindings": {"80/tcp": [{"HostPort": "80"}]}}, "ports"),
    (
        {"PortBindings": {"80/tcp": [{"HostPort": ""}, {"HostIp": "::", "HostPort": "443"}]}},
        "ports",
    ),
    ({"PortBindings": {"80/tcp": [{"HostPort": "1000-2000"}]}}, "ports"),
    ({"PortBindings": {"80/udp": [{"HostPort": "65536"}]}}, "ports"),
    ({"PortBindings": {"80/tcp": [{"HostPort": "2000-1000"}]}}, "ports"),
    ({"PortBindings": {"80/tcp": [{"HostPort": "+8080"}]}}, "ports"),
    ({"PortBindings": {"80/tcp": [{"HostPort": "\u0668\u0660\u0668\u0660"}]}}, "ports"),
]
OWN: list[Json] = [
    {"Binds": ["team:/x", "team-x:/y:ro", "team_data:/z", "team.d:/a", "/x"]},
    mounted({"Type": "volume", "Source": "team-x", "Target": "/x"}),
    mounted({"Type": "volume", "Target": "/x"}),
    {"PortBindings": {"80/tcp": [{"HostPort": "8080"}, {"HostPort": ""}, {"HostPort": "0"}, {}]}},
    {"PortBindings": {"80/tcp": [{"HostPort": "1024-65535"}], "81/tcp": None, "82/tcp": []}},
    {"PublishAllPorts": True},
]


@given(st.sampled_from(OTHERS), st.randoms(use_true_random=False))
def test_what_others_keep_in_any_spelling(thing: tuple[Json, str], random: Random) -> None:
    host, key = thing
    assert key in found(APART, _respelt(host, random))
    assert key not in found(STRICT, host)  # who has no namespace may


@pytest.mark.parametrize("host", OWN, ids=lambda h: json.dumps(h)[:70])
def test_what_is_a_namespace_s_own(host: Json) -> None:
    assert not found(APART, host)


def test_the_longest_name_of_a_namespace_has_the_volume() -> None:
    permits = Permits(known=("team", "team-a"))
    own = {
        space: [
            name
            for name in ("team", "team-a", "team-a-data", "team-b")
            if permits.of(Role.SUBMIT, space)[1].mounts_volume(name)
        ]
        for space in permits.known
    }
    assert own == {"team": ["team", "team-b"], "team-a": ["team-a", "team-a-data"]}


def test_volumes_and_ports_as_stated() -> None:
    policy = AccessPolicy(volumes=("shared-*", "!shared-x*"), ports=("80", "8000-8010"))
    assert found(policy, {"Binds": ["shared-1:/x"]}) == []
    assert found(policy, {"Binds": ["shared-x1:/x", "data:/y"]}) == ["volumes", "volumes"]
    ports = ("80", "8000", "8003-8010", "81", "7999", "8010-8011", "80-8000")
    assert [port for port in ports if policy.publishes(port)] == ["80", "8000", "8003-8010"]
    assert found(AccessPolicy(volumes=()), {"Binds": ["x:/x"]}) == ["volumes"]
    stated = Permits({}, {"team": policy}).of(Role.SUBMIT, "team")
    assert stated == ("namespaces.team.policy", policy)
    plain = AccessPolicy(binds=("/srv",))
    usual = Permits({Role.SUBMIT: STRICT}, {"default": plain})
    own = replace(plain, volumes=("*",))
    assert usual.of(Role.SUBMIT, "default") == ("namespaces.default.policy", own)
    assert usual.of(Role.OPERATE, "default") == ("policy.operate", STRICT)
    assert Permits().of(Role.SUBMIT, "default") == (
        "policy.submit",
        replace(STRICT, volumes=("*",)),
    )


def test_who_has_no_namespace_mounts_all_but_those_of_namespaces() -> None:
    policy = Permits(known=("team", "default")).of(Role.SUBMIT, "default")[1]
    assert found(policy, {"Binds": ["data:/x", "teams:/y", "default-1:/z"]}) == []
    assert found(policy, {"Binds": ["team:/x", "team-a:/y"]}) == ["volumes", "volumes"]
    operator = Permits(known=("team",)).of(Role.OPERATE, "default")[1]
    assert found(operator, {"Binds": ["team-a:/y"]}) == []


def test_images_by_their_digest() -> None:
    policy = AccessPolicy(images=("app*",), images_by_digest=True)

    def keys(image: str) -> list[str]:
        mount = {"Type": "image", "Source": image, "Target": "/x"}
        body = {"image": image, "HostConfig": mounted(mount)}
        return [fault.key for fault in container_faults(policy, body)]

    for image in (PINNED, PINNED.replace("app@", "app:1@")):
        assert keys(image) == []
    for image in ("app:1", f"{PINNED}0", PINNED[:-1], f"{PINNED} x", "app@sha256:"):
        assert keys(image) == ["", ""]
    assert keys(PINNED.replace("app", "web")) == ["images", "images"]
