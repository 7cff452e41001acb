"""Every fault is found at once, at its path, with a word on what to do."""

import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tenure.config.cyclesfile import CycleSection, cron_fault
from tenure.config.faults import MAX_FAULTS
from tenure.config.load import load, validate
from tenure.config.nodes import DriverSection, NodeSection
from tenure.config.settings import ConfigFile
from tenure.config.yamlfile import read_text
from tenure.model.errors import InvalidInput

NODE = "nodes: [{name: a, url: 'unix:///a.sock', generation: nursery}]\n"
ENV = {"HOME": "/home/ada"}


def faults_of(folder: Path, text: str | bytes, cycles: str | None = None) -> dict[str, str]:
    path = folder / "tenured.yml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    if cycles is not None:
        (folder / "cycles.yml").write_text(cycles)
    return {fault.path: fault.message for fault in validate(path, ENV)}


def test_all_faults_come_at_once_in_the_order_of_the_file(tmp_path: Path) -> None:
    text = """\
listen: tcp://10.0.0.1:7480
powr: {grace_s: 3}
power:
  grace_s: "60"
  min_on: {young: 2, nurserie: 1}
generations: [nursery, young]
nodes:
  - name: A_b
    url: ftp://x:2376
    generation: yung
    capacity: {cpus: true, memory: 512XB}
  - name: twin
    url: tcp://10.0.0.1:2375
    generation: nursery
    price_per_hour: -1
    capacty: {cpus: 1}
    power: {driver: command, on: [vm, 5]}
  - name: twin
    url: tcp://10.0.0.1:2375
    generation: tenured
    capacity: {cpus: 1, memory: 1GiB}
    reserve: {cpus: 1}
    power: {driver: command, idle_w: 5, peak_w: 4}
log: {level: loud, json: yes}
"""
    cycles = """\
late: {cron: "* * * * *", args: young}
both: {cron: "* * * * *", interval_s: 5, args: nursery}
Odd/name: {interval_s: 5, args: nursery}
"""
    path = tmp_path / "tenured.yml"
    path.write_text(text)
    (tmp_path / "cycles.yml").write_text(cycles)
    assert [f"{fault.path}: {fault.message}" for fault in validate(path, ENV)] == [
        "listen.0: is not a loopback address; use https:// there, with a certificate in tls "
        "(line 1)",
        "powr: is not a known key; did you mean power? (line 2)",
        'power.grace_s: must be a number, without quotes, not "60" (line 4)',
        "power.min_on.nurserie: is not one of the generations (nursery, young) (line 5)",
        "nodes.0.name: must be 1 to 63 lower-case letters, digits, '.' and '-', a letter or digit "
        'first, not "A_b" (line 8)',
        "nodes.0.url: must be unix:///path/to/docker.sock, tcp://host:port, https://host:port or "
        "ssh://user@host (line 9)",
        "nodes.0.capacity.cpus: must be a number, without quotes, not true (line 11)",
        "nodes.0.capacity.memory: is not a size: write 512MiB or 2GiB, or a whole number of bytes "
        "(line 11)",
        "nodes.1.price_per_hour: must be at least 0, not -1 (line 15)",
        "nodes.1.capacty: is not a known key; did you mean capacity? (line 16)",
        "nodes.1.power.on.1: must be text; put it in quotes (line 17)",
        "nodes.2.name: is also the name of nodes.1 (line 18)",
        "nodes.2.url: is also the url of nodes.1 (line 19)",
        "nodes.2.generation: is not one of the generations (nursery, young) (line 20)",
        "nodes.2.reserve.cpus: leaves nothing of capacity.cpus (line 22)",
        "nodes.2.power.on: is required by driver command: a list of program and arguments "
        "(line 23)",
        "nodes.2.power.off: is required by driver command: a list of program and arguments "
        "(line 23)",
        "nodes.2.power.peak_w: must not be less than idle_w (line 23)",
        "log.level: must be 'debug', 'info', 'warning' or 'error', not \"loud\" (line 24)",
        'log.json: must be true or false, not "yes" (line 24)',
        "cycles.late.args: is the last generation: nothing comes after it (cycles.yml line 1)",
        "cycles.both: needs either cron or interval_s (cycles.yml line 2)",
        "cycles.Odd/name: is no name: lower-case letters, digits, '.', '_' and '-' only "
        "(cycles.yml line 3)",
    ]


#: Enough of a power driver that only what is added to it is faulty.
WOL = "driver: wol, mac: '00:11:22:33:44:55', off: [a], status: [a]"
CLOUD = "driver: libcloud, provider: ec2, credentials: /dev/../etc/passwd"


@pytest.mark.parametrize(
    ("line", "path", "words"),
    [
        ("nodes: []", "nodes", "leave the key out"),
        ("nodes: {a: 1}", "nodes", "must be a list"),
        ("nodes: [5]", "nodes.0", "must be a mapping"),
        ("generations: []", "generations", "must not be empty"),
        ("generations: [nursery, a, a]", "generations.2", "stands here twice"),
        ("generations: [nursery, 5]", "generations.1", "must be text"),
        ("listen: []", "listen", "must not be empty"),
        ("listen: [unix:///a, unix:///a]", "listen.1", "stands here twice"),
        ("listen: http://127.0.0.1:80", "listen.0", "must be unix:///path, tcp://"),
        ("listen: unix://relative.sock", "listen.0", "needs an absolute path"),
        ("listen: tcp://0.0.0.0:80", "listen.0", "use https:// there"),
        ("listen: tcp://127.0.0.1", "listen.0", "needs a host and a port"),
        ("listen: tcp://127.0.0.1:99999", "listen.0", "is not a URL"),
        ("listen: tcp://[::1:80", "listen.0", "is not a URL"),
        (f"listen: unix:///{'x' * 107}", "listen.0", "107 bytes at most"),
        ('state_dir: ""', "state_dir", "must not be empty"),
        ("state_dir: 5", "state_dir", "must be text"),
        ('state_dir: "/a\\0b"', "state_dir", "control characters"),
        ("redis: {url: r:6379}", "redis.url", "is not a URL"),
        ("redis: {url: 'http://r'}", "redis.url", "must be redis://"),
        ("redis: {url: 'redis://'}", "redis.url", "names no host"),
        ("redis: {url: 'redis://10.0.0.2:6379/0'}", "redis.url", "needs a password off this"),
        ("redis: {url: 'redis://r'}", "redis.url", "rediss://:PASSWORD@host"),
        ("redis: {url: 'rediss://r'}", "redis.url", "needs a password off this machine"),
        ("redis: {url: 'redis://ada:@r'}", "redis.url", "needs a password off this machine"),
        ("redis: {url: 'rediss://:p@r?ssl_cert_reqs=none'}", "redis.url", "check of the certific"),
        ("redis: {url: 'rediss://:p@r?ssl_cert_reqs='}", "redis.url", "check of the certificate"),
        ("redis: {url: 'rediss://:p@r?ssl_check_hostname=no'}", "redis.url", "check of the cert"),
        (
            "redis: {url: 'rediss://:p@r?ssl_cert_reqs=none&ssl_cert_reqs=required'}",
            *("redis.url", "check of the certificate"),  # the first counts
        ),
        ("stats: {driver: graphite}", "stats.driver", "must be 'embedded' or 'influx'"),
        ("stats: {driver: influx}", "stats", "driver influx needs a url"),
        ("stats: {url: 'http://db:8086'}", "stats.url", "set driver: influx"),
        ("stats: {driver: influx, url: 'tcp://db:8086'}", "stats.url", "must be http://"),
        ("stats: {driver: influx, url: 'http://u:p@db'}", "stats.url", "takes no user"),
        ("stats: {driver: influx, url: 'http://db', token: t, username: u}", "stats.token", "one"),
        ("stats: {driver: influx, url: 'http://db', password: p}", "stats.password", "username"),
        ("stats: {driver: influx, url: 'http://db', spool_mib: 0}", "stats.spool_mib", "least 1"),
        ("stats: {interval_s: 0}", "stats.interval_s", "at least 0.1"),
        ("stats: {interval_s: .inf}", "stats.interval_s", "must be"),
        ("stats: {interval_s: .nan}", "stats.interval_s", "must be"),
        ("stats: {window_h: 1.5}", "stats.window_h", "must be a whole number"),
        ("placement: {policy: best}", "placement.policy", "must be 'ff', 'gio', 'exact'"),
        ("power: {min_on: {nursery: 0}}", "power.min_on.nursery", "at least 1"),
        ("power: {min_on: {young: -1}}", "power.min_on.young", "at least 0"),
        ("power: [1]", "power", "must be a mapping"),
        ("budgets: {moves_per_node: 11}", "budgets.moves_per_node", "more than moves_total"),
        ("defaults: {hybrid_factor: 0.9}", "defaults.hybrid_factor", "at least 1"),
        ("limits: {queue: 99999999999}", "limits.queue", "at most"),
        ("relist_s: 1e400", "relist_s", "must be"),
        ("cycles_file: gone.yml", None, "cannot be read: No such file"),
        ("5: 6", None, "is not a known key"),
    ],
)
def test_one_fault(tmp_path: Path, line: str, path: str | None, words: str) -> None:
    found = faults_of(tmp_path, line if line.startswith("nodes") else NODE + line)
    assert len(found) == 1, found
    ((where, message),) = found.items()
    assert path in (None, where)
    assert words in message


@pytest.mark.parametrize(
    ("part", "path", "words"),
    [
        ("name: ''", "name", "1 to 63"),
        (f"name: {'x' * 64}", "name", "1 to 63"),
        ('name: "a\\n"', "name", "1 to 63"),
        ("name: ../a", "name", "1 to 63"),
        ("url: ssh://-oProxyCommand=x", "url", "names no host"),
        ("url: ssh://-l@host", "url", "names no user"),
        ("url: ssh://user:sesame@host", "url", "must be ssh://user@host"),
        ("url: ssh://host:0", "url", "no port of sshd"),
        ("url: ssh://host/$HOME/docker.sock", "url", "letters, digits"),
        ("url: https://host", "url", "needs a host and a port"),
        ("url: tcp://host", "url", "needs a host and a port"),
        ("url: tcp://host:0", "url", "no engine's port"),
        ("url: tcp://user:sesame@host:1", "url", "takes no user"),
        ("url: tcp://host:1/path", "url", "takes nothing after"),
        ("url: /var/run/docker.sock", "url", "has no scheme"),
        ("site: moon", "site", "must be 'local' or 'cloud'"),
        ("speed: 0", "speed", "more than 0"),
        ("labels: {gpu: 1}", "labels.gpu", "put it in quotes"),
        ("labels: {1: a}", "labels.1", "must be text"),
        ("capacity: {cpus: 1}\n    reserve: {cpus: 1}", "reserve.cpus", "leaves nothing"),
        ("capacity: {cpus: 0, memory: 1}", "capacity.cpus", "at least 0.001"),
        ("capacity: {cpus: 1, memory: 0}", "capacity.memory", "more than 0"),
        ("capacity: {cpus: 1, memory: -5}", "capacity.memory", "more than 0"),
        ("capacity: {cpus: 1, memory: 1.5}", "capacity.memory", "must be a size"),
        ("capacity: {cpus: 1, memory: 9e9EiB}", "capacity.memory", "is not a size"),
        ("power: {on: [vm]}", "power.on", "driver command only"),
        ("power: {driver: ipmi}", "power.driver", "must be 'none', 'command', 'wol' or 'libcloud'"),
        ("power: {driver: wol, off: [a], status: [a]}", "power.mac", "required by driver wol"),
        ("power: {driver: wol, mac: '00:11:22:33:44', off: [a], status: [a]}", "power.mac", "six"),
        ("power: {driver: wol, mac: '00-11-22-33-44-5A', off: [a]}", "power.status", "nobody can"),
        (f"power: {{{WOL}, broadcast: lan}}", "power.broadcast", "must be an IPv4 address"),
        (f"power: {{{WOL}, port: 0}}", "power.port", "1"),
        (f"power: {{{WOL}, on: [wake]}}", "power.on", "used by driver command only"),
        (f"power: {{{WOL}, region: r}}", "power.region", "used by driver libcloud only"),
        ("power: {mac: '00:11:22:33:44:55'}", "power.mac", "used by driver wol only"),
        (f"power: {{{CLOUD}}}", "power.instance", "required by driver libcloud"),
        (f"power: {{{CLOUD}, instance: i, endpoint: aws}}", "power.endpoint", "http://host:port"),
        (
            "power: {driver: libcloud, provider: ec2, instance: i, credentials: /no/such}",
            "power.credentials",
            "no such file",
        ),
        ("power: {driver: command, on: [''], off: [a]}", "power.on", "an empty program"),
        ("power: {driver: command, on: vm, off: [a]}", "power.on", "must be a list"),
    ],
)
def test_one_fault_of_a_node(tmp_path: Path, part: str, path: str, words: str) -> None:
    node: dict[Any, Any] = {"name": "a", "url": "unix:///a", "generation": "nursery"}
    lines = [f"{key}: {value}" for key, value in node.items() if not part.startswith(key)]
    found = faults_of(tmp_path, "nodes:\n  - " + "\n    ".join([*lines, part]))
    assert list(found) == [f"nodes.0.{path}"]
    assert words in found[f"nodes.0.{path}"]
    assert "(line " in found[f"nodes.0.{path}"]
    assert "sesame" not in str(found)


@pytest.mark.parametrize(
    ("cycle", "path", "words"),
    [
        ("{args: nursery}", "", "needs either cron or interval_s"),
        ("{interval_s: 1}", ".args", "is required"),
        ("{interval_s: 1, args: eden}", ".args", "not one of the generations"),
        ("{interval_s: 1, args: young, to: nursery}", ".to", "must come after young"),
        ("{interval_s: 1, args: young, to: young}", ".to", "must come after young"),
        ("{interval_s: 1, args: young, to: mars}", ".to", "not one of the generations"),
        ("{interval_s: 1, args: young, mode: dry}", ".mode", "must be 'off', 'advise' or 'act'"),
        ("{interval_s: 1, args: young, class: Job}", ".class", "must be 'GenerationCycle'"),
        ("{interval_s: 1, args: young, headroom: 0.5}", ".headroom", "at least 1"),
        ("{interval_s: 1, args: young, relief_after: 13}", ".relief_after", "at most 12"),
        ("{interval_s: 1, args: young, queue: q}", ".queue", "is not a known key"),
        ("{cron: '*/5_*_*_*_*', args: young}", ".cron", "not underscores"),
        ("{cron: 5, args: young}", ".cron", "must be text"),
        ("5", "", "must be a mapping"),
    ],
)
def test_one_fault_of_a_cycle(tmp_path: Path, cycle: str, path: str, words: str) -> None:
    found = faults_of(tmp_path, NODE, f"c: {cycle}")
    assert list(found) == [f"cycles.c{path}"]
    assert words in found[f"cycles.c{path}"]
    assert "(cycles.yml line 1)" in found[f"cycles.c{path}"]


def test_cycles_into_one_generation_have_one_headroom(tmp_path: Path) -> None:
    told = "{interval_s: 1, args: nursery, to: tenured, headroom: 1.5}"
    found = faults_of(tmp_path, NODE, f"a: {told}\nb: {{interval_s: 1, args: young}}")
    assert list(found) == ["cycles.b.headroom"]
    assert "must be 1.5, as a into tenured has it" in found["cycles.b.headroom"]


def test_an_empty_node_lacks_what_is_required(tmp_path: Path) -> None:
    found = faults_of(tmp_path, "nodes: [null]")
    assert found == {
        f"nodes.0.{key}": "is required (line 1)" for key in ("name", "url", "generation")
    }


def test_a_list_is_no_cycles_file(tmp_path: Path) -> None:
    assert "mapping of names" in faults_of(tmp_path, NODE, "- a")["cycles"]


@pytest.mark.parametrize(
    "text",
    ["*/5 * * * *", "0 0 * * MON", "0 12 1,15 jan-mar *", "0 0 L * *", "5 4 * * 5#2", "0 0 29 2 *"],
)
def test_good_cron(text: str) -> None:
    assert cron_fault(text) == ""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "five fields"),
        ("* * * *", "five fields"),
        ("* * * * * *", "five fields"),
        ("@hourly", "five fields"),
        ("R * * * *", "numbers, names"),
        ("H * * * *", "numbers, names"),
        ("? * * * *", "numbers, names"),
        ("60 * * * *", "is not cron"),
        ("*/0 * * * *", "is not cron"),
        ("1,,2 * * * *", "is not cron"),
        ("a * * * *", "numbers, names"),
        ("0 0 30 2 *", "never falls due"),
    ],
)
def test_bad_cron(text: str, words: str) -> None:
    assert words in cron_fault(text)


# the text of the file


@pytest.mark.parametrize(
    ("text", "path", "words"),
    [
        ("a: [1\nb: 2\n", "tenured.yml:2:2", "is not YAML"),
        ("a: b: c\n", "tenured.yml:1:5", "mapping values are not allowed"),
        ("cron: */5 * * * *", "tenured.yml:1:8", "begins with * in quotes"),
        ("---\na: 1\n---\nb: 2\n", "tenured.yml:3:1", "expected a single document"),
        ("a: !!python/object:os.system x", "tenured.yml:1:4", "could not determine a constructor"),
        ("[1]", "tenured.yml", "must be a mapping"),
        ("just words", "tenured.yml", "must be a mapping"),
        ("? [a]\n: 1\n", "tenured.yml", "a key must be a word (line 1)"),
        ("a: \x01", "tenured.yml", "is not YAML"),
        ("a: " + "[" * 100 + "]" * 100, "tenured.yml", "nested deeper"),
        ("a: " + "[" * 9000, "tenured.yml", "cannot be used"),
        ("a: &x [*x]", "a", "is not a known key"),
        (f"relist_s: {'9' * 5000}", "relist_s", "must be"),
        (b"\xff\xfe\xfa", None, "cannot be read"),
        (b"#" * (5 << 20), None, "larger than 4 MiB"),
    ],
)
def test_a_text_that_is_no_configuration(
    tmp_path: Path, text: str | bytes, path: str | None, words: str
) -> None:
    found = faults_of(tmp_path, text)
    where = str(tmp_path / "tenured.yml") if path is None else path
    assert words in found[where], found


def test_a_key_that_stands_twice_is_a_fault(tmp_path: Path) -> None:
    found = faults_of(tmp_path, NODE + "log:\n  level: info\n  level: debug\nrelist_s: 0\n")
    assert found["log.level"] == "stands here twice (lines 3 and 4); keep one"
    assert "relist_s" in found


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    path = tmp_path / "gone.yml"
    assert [fault.path for fault in validate(path, ENV)] == [str(path)]
    with pytest.raises(InvalidInput, match="No such file"):
        load(path, ENV)


def test_aliases_that_multiply_cost_nothing(tmp_path: Path) -> None:
    levels = "\n".join(f"a{n + 1}: &a{n + 1} [{', '.join([f'*a{n}'] * 9)}]" for n in range(25))
    start = time.monotonic()
    found = faults_of(tmp_path, f"a0: &a0 [x]\n{levels}\n")
    assert time.monotonic() - start < 30
    assert len(found) == 26


def test_the_number_of_faults_is_bounded(tmp_path: Path) -> None:
    found = validate_text(tmp_path, "".join(f"k{n}: 1\n" for n in range(5000)))
    assert len(found) == MAX_FAULTS + 1
    assert found[-1] == "and 4800 more faults"


def validate_text(folder: Path, text: str) -> list[str]:
    path = folder / "tenured.yml"
    path.write_text(text)
    return [fault.message for fault in validate(path, ENV)]


def test_a_large_fleet_is_read_quickly(tmp_path: Path) -> None:
    node = "- {{name: n{0}, url: 'tcp://10.0.0.1:{0}', generation: young, labels: {{a: b}}}}\n"
    path = tmp_path / "tenured.yml"
    path.write_text("nodes:\n" + "".join(node.format(n) for n in range(1, 1001)))
    start = time.monotonic()
    assert len(load(path, ENV).nodes) == 1000
    assert time.monotonic() - start < 30


# the environment


@pytest.mark.parametrize(
    ("variable", "value", "path", "words"),
    [
        ("TENURE_POWR__GRACE_S", "1", "TENURE_POWR__GRACE_S", "names no section"),
        ("TENURE_POWER__", "1", "TENURE_POWER__", "names no section"),
        ("TENURE_POWER__GRACE", "1", "power.grace", "(from TENURE_POWER__GRACE)"),
        ("TENURE_POWER__GRACE_S", "soon", "power.grace_s", "(from TENURE_POWER__GRACE_S)"),
        ("TENURE_RELIST_S", "", "relist_s", "(from TENURE_RELIST_S)"),
        ("TENURE_RELIST_S__X", "1", "TENURE_RELIST_S__X", "names no place"),
        ("TENURE_NODES__7__URL", "x", "TENURE_NODES__7__URL", "names no place"),
        ("TENURE_NODES__A__URL", "x", "TENURE_NODES__A__URL", "names no place"),
        ("TENURE_NODES__0__URL", "x", "nodes.0.url", "(from TENURE_NODES__0__URL)"),
        (
            "TENURE_REDIS__URL_FILE",
            "/no/file",
            "TENURE_REDIS__URL_FILE",
            "cannot read /no/file: No",
        ),
        ("TENURE_REDIS__URL_FILE", "/bin/ls", "TENURE_REDIS__URL_FILE", "else than text"),
        ("TENURE_POWER__GRACE_S_FILE", "/bin/ls", "power.grace_s_file", "GRACE_S_FILE"),
        ("TENURE_REDIS__URL", "{[", "redis.url", "is not a URL"),
        ("TENURE_REDIS__URL", "http://:sesame@r", "redis.url", "must be redis://"),
    ],
)
def test_a_fault_of_the_environment(
    tmp_path: Path, variable: str, value: str, path: str, words: str
) -> None:
    (tmp_path / "tenured.yml").write_text(NODE + "relist_s: 5")
    faults = validate(tmp_path / "tenured.yml", {**ENV, variable: value})
    assert [fault.path for fault in faults] == [path]
    assert words in faults[0].message
    assert "sesame" not in faults[0].message


# nothing breaks it

WORDS = st.sampled_from(
    [
        *sorted(NodeSection.known_keys()),
        *sorted(DriverSection.known_keys()),
        *sorted(CycleSection.known_keys()),
        *("nodes", "log", "json", "state_dir", "listen", "nursery", "cpus", "memory", "min_on"),
        *("local", "command", "unix:///a", "tcp://127.0.0.1:1", "* * * * *", "512MiB"),
    ]
)
JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | WORDS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(WORDS | st.integers(), inner, max_size=4)
    ),
    max_leaves=12,
)
KEYS = st.sampled_from([*sorted(ConfigFile.known_keys()), "odd"])


@settings(max_examples=150, deadline=None)
@given(raw=st.dictionaries(KEYS, JUNK, max_size=5) | JUNK, cycles=JUNK)
def test_any_file_gives_settings_or_faults(
    tmp_path_factory: pytest.TempPathFactory, raw: Any, cycles: Any
) -> None:
    folder = tmp_path_factory.getbasetemp()
    (folder / "cycles.yml").write_text(yaml.safe_dump(cycles))
    path = folder / "tenured.yml"
    path.write_text(yaml.safe_dump(raw))
    faults = validate(path, ENV)
    assert all(fault.message for fault in faults)
    if faults:
        with pytest.raises(InvalidInput):
            load(path, ENV)
    else:
        load(path, ENV)


@settings(max_examples=200, deadline=None)
@given(st.text(st.sampled_from("ab:-{}[]&*!|>'\"#%@ \n\t,?1."), max_size=40))
def test_any_text_is_read_or_is_a_fault(text: str) -> None:
    document = read_text(text, "any")
    try:
        yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError:
        assert document.faults
    for fault in document.faults:
        assert fault.path
        assert fault.message
    if not document.faults:
        again = read_text(yaml.safe_dump(document.value), "again")
        assert repr(again.value) == repr(document.value)


@pytest.mark.parametrize(
    ("part", "path", "words"),
    [
        ("namenodes: []", "namenodes", "must not be empty"),
        ("namenodes: [hdfs://nn:8020]", "namenodes.0", "http://host:9870"),
        ("namenodes: [http://nn]", "namenodes.0", "a host and a port"),
        ("namenodes: [http://u:p@nn:9870]", "namenodes.0", "token_file"),
        ("namenodes: [http://nn:9870/webhdfs/v1]", "namenodes.0", "is added"),
        ("user: a\n      token_file: nowhere", "token_file", "beside user"),
        ("token_file: nowhere", "token_file", "no such file"),
        ("ca: nowhere", "ca", "https:// alone"),
        ("nodes: {dn1: moon}", "nodes.dn1", "moon is no node"),
        ("timeout_s: 0", "timeout_s", "at least 0.1"),
    ],
)
def test_one_fault_of_an_hdfs(tmp_path: Path, part: str, path: str, words: str) -> None:
    head = "" if part.startswith("namenodes") else "namenodes: [http://nn:9870]\n      "
    text = f"{NODE}datasets:\n  hdfs:\n    - name: lake\n      {head}{part}\n"
    found = faults_of(tmp_path, text)
    assert words in found[f"datasets.hdfs.0.{path}"], found


def test_two_hdfs_of_one_name_are_a_fault(tmp_path: Path) -> None:
    one = "    - {name: lake, namenodes: [http://nn:9870]}\n"
    found = faults_of(tmp_path, f"{NODE}datasets:\n  hdfs:\n{one}{one}")
    assert list(found) == ["datasets.hdfs.1.name"]
    assert "stands here twice" in found["datasets.hdfs.1.name"]
