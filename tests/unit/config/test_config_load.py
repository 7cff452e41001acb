"""Files and environment become settings; the defaults are the documented ones."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from tenure.config.defaults import LOCAL_ENGINE
from tenure.config.load import load, validate
from tenure.config.redaction import redacted
from tenure.config.section import filled
from tenure.config.settings import Settings
from tenure.config.urls import Listener
from tenure.harvest.io.cycle import PAST_DAYS
from tenure.model.errors import InvalidInput
from tenure.model.forecast import ForecastOptions
from tenure.model.node import NodeSpec, PowerSpec, Site
from tenure.model.plan import CycleSpec
from tenure.model.resources import Resources
from tenure.model.units import HOUR_US, MIB, NANO, US
from tools.configuration_page import EXAMPLE, EXAMPLE_CYCLES

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"

NODE = "nodes: [{name: a, url: 'unix:///a.sock', generation: nursery}]\n"
ENV = {"HOME": "/home/ada"}


@pytest.fixture
def write(tmp_path: Path) -> Any:
    def write_files(text: str, cycles: str | None = None) -> Path:
        path = tmp_path / "tenured.yml"
        path.write_text(text)
        if cycles is not None:
            (tmp_path / "cycles.yml").write_text(cycles)
        return path

    return write_files


def as_user(monkeypatch: pytest.MonkeyPatch, uid: int) -> None:
    monkeypatch.setattr("os.geteuid", lambda: uid)


# defaults


def test_without_a_file_the_local_engine_is_the_fleet(monkeypatch: pytest.MonkeyPatch) -> None:
    as_user(monkeypatch, 0)
    settings = load(None, ENV)
    assert settings.nodes == (NodeSpec("local", LOCAL_ENGINE, "nursery"),)
    assert settings.generations == ("nursery",)
    assert settings.cycles == ()
    assert settings.path is None
    assert settings.cycles_file is None
    assert settings.redis.url is None
    assert settings.state_dir == Path("/var/lib/tenure")
    assert settings.token_file == Path("/var/lib/tenure/token")
    assert settings.listen == (
        Listener("unix:///run/tenure/tenured.sock", path=Path("/run/tenure/tenured.sock")),
        Listener("tcp://127.0.0.1:7480", host="127.0.0.1", port=7480),
    )


def test_without_root_everything_lies_in_the_home_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    as_user(monkeypatch, 1000)
    settings = load(None, ENV)
    folder = Path("/home/ada/.local/state/tenure")
    assert settings.state_dir == folder
    assert settings.token_file == folder / "token"
    assert settings.listen[0].path == folder / "tenured.sock"


def test_stated_generations_give_the_local_engine_the_first(write: Any) -> None:
    settings = load(write("generations: [eden, old]"), ENV)
    assert [(node.name, node.generation) for node in settings.nodes] == [("local", "eden")]
    assert settings.power.min_on == {"eden": 1}


def test_the_defaults_are_the_documented_ones(write: Any) -> None:
    settings = load(write(NODE), ENV)
    assert settings.generations == ("nursery", "young", "tenured")
    assert settings.stats.interval_us == 30 * US
    assert settings.stats.retention_us == PAST_DAYS * 24 * HOUR_US
    assert settings.stats.window_us == 6 * HOUR_US
    assert (settings.placement.policy, settings.placement.service_policy) == ("tenure", "spread")
    assert settings.power.grace_us == 60 * US
    assert settings.power.min_on == {"nursery": 1}
    assert settings.power.fence_after_us == 120 * US
    assert settings.power.power_retry_us == 30 * US
    assert (settings.budgets.moves_per_node, settings.budgets.moves_total) == (2, 10)
    assert (settings.budgets.cooldown_us, settings.budgets.verify_us) == (300 * US, 10 * US)
    assert settings.limits.executors == 1000
    assert settings.limits.max_queue == 10_000
    assert settings.limits.body_bytes == MIB
    assert settings.defaults.runtime_us == 600 * US
    assert settings.defaults.hybrid_factor == 1.3
    assert (settings.defaults.retries, settings.defaults.grace_stop_s) == (0, 10)
    assert settings.relist_us == 15 * US
    assert (settings.log.level, settings.log.is_json) == ("info", False)
    assert [(c.source, c.target, c.cron, c.mode) for c in settings.cycles] == [
        ("nursery", "young", "*/5 * * * *", "act"),
        ("young", "tenured", "*/10 * * * *", "act"),
    ]


@pytest.mark.parametrize("text", ["", "# nothing\n", "power:\nlog: {}\n", "nodes: null"])
def test_an_empty_file_and_empty_sections_mean_defaults(write: Any, text: str) -> None:
    settings = load(write(text), ENV)
    assert settings.nodes == load(None, ENV).nodes
    assert settings.power == load(None, ENV).power


# a full file


def test_a_node_comes_out_in_the_models_units(write: Any) -> None:
    text = """
generations: [young]
nodes:
  - name: cloud-1.eu
    url: tcp://10.8.0.5:2375
    generation: young
    site: cloud
    price_per_hour: 0.12
    capacity: {cpus: 1.5, memory: 512MiB, disk_bytes_per_s: 1000, net_bytes_per_s: 2000}
    reserve: {cpus: 0.25, memory: 1048576}
    rack: r1
    labels: {disk: ssd}
    speed: 1.25
    power:
      driver: command
      on: [vm, start, "1"]
      off: [vm, stop]
      status: [vm, status]
      boot_s: 2.5
      timeout_s: 60
      idle_w: 100
      peak_w: 200
"""
    assert load(write(text), ENV).nodes == (
        NodeSpec(
            name="cloud-1.eu",
            url="tcp://10.8.0.5:2375",
            generation="young",
            site=Site.CLOUD,
            price_nano_per_h=12 * NANO // 100,
            capacity=Resources(1500, 512 * MIB, 1000, 2000),
            reserve=Resources(250, MIB),
            rack="r1",
            labels={"disk": "ssd"},
            speed=1.25,
            power=PowerSpec(
                driver="command",
                on=("vm", "start", "1"),
                off=("vm", "stop"),
                status=("vm", "status"),
                boot_us=2_500_000,
                timeout_us=60 * US,
                idle_w=100.0,
                peak_w=200.0,
            ),
        ),
    )


def test_on_and_off_are_keys_and_words_not_booleans(write: Any) -> None:
    cycles = "c: {args: nursery, interval_s: 1, mode: off, description: yes}"
    settings = load(write(NODE, cycles), ENV)
    assert settings.cycles[0].mode == "off"
    assert settings.cycles[0].description == "yes"


def test_numbers_are_decimal(write: Any) -> None:
    text = NODE + "relist_s: 010\npower: {grace_s: 1e2, fence_after_s: null}\n"
    settings = load(write(text), ENV)
    assert settings.relist_us == 10 * US
    assert settings.power.grace_us == 100 * US
    assert settings.power.fence_after_us is None


def test_relative_paths_count_from_the_file(write: Any, tmp_path: Path) -> None:
    text = NODE + "state_dir: state\ntoken_file: ~/secret\n"
    settings = load(write(text), ENV)
    assert settings.state_dir == tmp_path / "state"
    assert settings.token_file == Path("/home/ada/secret")
    assert settings.path == tmp_path / "tenured.yml"


def test_a_relative_path_of_credentials_counts_from_the_file(write: Any, tmp_path: Path) -> None:
    (tmp_path / "cloud.yml").write_text("key: k\nsecret: s\n")
    power = "{driver: libcloud, provider: ec2, instance: i-1, credentials: cloud.yml}"
    node = f"{{name: n, url: tcp://10.0.0.1:2375, generation: young, power: {power}}}"
    (spec,) = load(write(f"nodes: [{node}]"), ENV).nodes
    assert spec.power.credentials == str(tmp_path / "cloud.yml")


def test_listeners_may_be_one_url_or_several(write: Any) -> None:
    assert load(write(NODE + "listen: unix:///a.sock"), ENV).listen == (
        Listener("unix:///a.sock", path=Path("/a.sock")),
    )
    text = NODE + 'listen: ["tcp://[::1]:0", "tcp://localhost:80"]'
    assert [(each.host, each.port) for each in load(write(text), ENV).listen] == [
        ("::1", 0),
        ("localhost", 80),
    ]


# cycles


def test_the_papers_cycles_file_is_read_as_printed(write: Any) -> None:
    settings = load(write(NODE, EXAMPLE_CYCLES), ENV)
    assert settings.cycles == (
        CycleSpec(
            "generation_nursery_cycle",
            "nursery",
            "young",
            cron="*/5 * * * *",
            description="Run a cycle on generation nursery",
        ),
        CycleSpec(
            "generation_young_cycle",
            "young",
            "tenured",
            cron="*/10 * * * *",
            min_age_us=600 * US,
            description="Run a cycle on generation young",
            is_consolidating=True,
        ),
    )
    assert settings.cycles_file == settings.path.with_name("cycles.yml")  # type: ignore[union-attr]


def test_our_keys_of_a_cycle(write: Any) -> None:
    cycles = (
        "skip: {interval_s: 2.5, args: nursery, to: tenured, mode: advise, "
        "max_moves: 3, headroom: 2, min_samples: 1, "
        "envelopes: 2, consolidate: false, min_saving_w: 5, escape: saving, "
        "relief_above: 1.2, relief_after: 3}"
    )
    assert load(write(NODE, cycles), ENV).cycles == (
        CycleSpec(
            "skip",
            "nursery",
            "tenured",
            interval_us=2_500_000,
            mode="advise",
            max_moves=3,
            headroom=2.0,
            min_samples=1,
            envelopes=2,
            min_saving_w=5.0,
            escape="saving",
            relief_above=1.2,
            relief_after=3,
        ),
    )


def test_the_last_generation_is_consolidated_unless_said_otherwise(write: Any) -> None:
    cycles = "a: {interval_s: 1, args: nursery}\nb: {interval_s: 1, args: young}\n"
    cycles += "c: {interval_s: 1, args: nursery, consolidate: true}\n"
    found = {c.name: c.is_consolidating for c in load(write(NODE, cycles), ENV).cycles}
    assert found == {"a": False, "b": True, "c": True}


def test_a_forecast_cycle_has_keys_of_its_own(write: Any) -> None:
    cycles = 'f: {class: ForecastCycle, cron: "7 * * * *", mode: advise, description: words}'
    (found,) = load(write(NODE, cycles), ENV).cycles
    assert (found.kind, found.cron, found.mode) == ("forecast", "7 * * * *", "advise")
    assert (found.source, found.target) == ("", "")
    both = "f: {class: ForecastCycle, interval_s: 60, args: nursery, max_moves: 2}\n"
    both += "g: {interval_s: 60}\nh: {class: Forecast, interval_s: 60}"
    with pytest.raises(InvalidInput) as caught:
        load(write(NODE, both), ENV)
    told = {fault.path: fault.message for fault in caught.value.fields}
    assert set(told) == {"cycles.f.args", "cycles.f.max_moves", "cycles.g.args", "cycles.h.class"}
    assert "GenerationCycle only" in told["cycles.f.args"]
    assert "is required" in told["cycles.g.args"]


def test_forecasts_are_made_by_default_where_a_node_lends(write: Any) -> None:
    assert all(cycle.kind == "generation" for cycle in load(write(NODE), ENV).cycles)
    lends = "agent: {url: unix:///run/a.sock}, harvest: {mode: act}"
    text = f"nodes:\n  - {{name: a, url: tcp://10.0.0.1:2375, generation: nursery, {lends}}}\n"
    found = load(write(text), ENV).cycles
    assert [cycle.name for cycle in found if cycle.kind == "forecast"] == ["forecast_cycle"]
    assert len(found) == 3


def test_what_is_lent_by(write: Any) -> None:
    usual = load(write(NODE), ENV).harvest
    assert (usual.needs_forecast, usual.forecast.has_dynamic_margin) == (True, False)
    assert filled(ForecastOptions, usual.forecast) == ForecastOptions(0.99, "boosted", 2.0)
    text = "harvest: {require_forecast: false, forecast: {quantile: 0.95, model: linear, "
    text += "min_history_days: 3, margin: dynamic}}\n"
    found = load(write(NODE + text), ENV).harvest
    assert filled(ForecastOptions, found.forecast) == ForecastOptions(0.95, "linear", 3.0)
    assert (found.needs_forecast, found.forecast.has_dynamic_margin) == (False, True)
    wrong = "harvest: {forecast: {quantile: 1, model: best, min_history_days: 0.5}}\n"
    with pytest.raises(InvalidInput) as caught:
        load(write(NODE + wrong), ENV)
    paths = {fault.path for fault in caught.value.fields}
    keys = ("quantile", "model", "min_history_days")
    assert paths == {f"harvest.forecast.{key}" for key in keys}


def test_an_empty_cycles_file_means_no_cycles(write: Any) -> None:
    assert load(write(NODE, ""), ENV).cycles == ()


def test_the_cycles_file_may_lie_elsewhere_or_be_left_out(write: Any, tmp_path: Path) -> None:
    (tmp_path / "other.yml").write_text("only: {interval_s: 1, args: young}")
    settings = load(write(NODE + "cycles_file: other.yml", EXAMPLE_CYCLES), ENV)
    assert [cycle.name for cycle in settings.cycles] == ["only"]
    assert settings.cycles_file == tmp_path / "other.yml"
    settings = load(write(NODE + "cycles_file: null", "broken: ["), ENV)
    assert len(settings.cycles) == 2
    assert settings.cycles_file is None


# environment


def test_the_environment_overrides_the_file(write: Any) -> None:
    env = {
        **ENV,
        "TENURE_STATE_DIR": "/srv/tenure",
        "TENURE_POWER__GRACE_S": "5.5",
        "TENURE_POWER__MIN_ON__YOUNG": "2",
        "TENURE_REDIS__URL": "redis://:p@r:6379/0",
        "TENURE_LOG__JSON": "true",
        "TENURE_LISTEN": "[unix:///x.sock]",
        "TENURE_NODES__0__URL": "tcp://10.0.0.1:2375",
        "TENURE_NODES__0__POWER__BOOT_S": "3",
        "TENURE_HOST": "the client's",
        "TENURE_TOKEN": "the client's too",
        "UNRELATED__THING": "1",
    }
    settings = load(write(NODE + "power: {grace_s: 1, retry_s: 7}\nredis:\n"), env)
    assert settings.state_dir == Path("/srv/tenure")
    assert settings.power.grace_us == 5_500_000
    assert settings.power.power_retry_us == 7 * US
    assert settings.power.min_on == {"nursery": 1, "young": 2}
    assert settings.redis.url == "redis://:p@r:6379/0"
    assert settings.log.is_json
    assert settings.listen[0].path == Path("/x.sock")
    assert settings.nodes[0].url == "tcp://10.0.0.1:2375"
    assert settings.nodes[0].power.boot_us == 3 * US


def test_a_secret_comes_from_a_file_as_it_is(write: Any, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("12: [34\n")
    (tmp_path / "url").write_text("redis://:sesame@r:6379/0\r\n")
    env = {
        **ENV,
        "TENURE_STATS__PASSWORD_FILE": str(secret),
        "TENURE_REDIS__URL_FILE": str(tmp_path / "url"),
        "TENURE_STATS__CA_FILE": str(secret),  # a key of its own, as ever
    }
    stats = "stats: {driver: influx, url: 'https://i:8086', username: ada}\n"
    settings = load(write(NODE + stats), env)
    assert settings.redis.url == "redis://:sesame@r:6379/0"
    assert settings.stats.password == "12: [34"
    assert settings.stats.ca_file == secret


def test_the_environment_works_without_a_file() -> None:
    assert load(None, {**ENV, "TENURE_RELIST_S": "2"}).relist_us == 2 * US


# redaction


@pytest.mark.parametrize(
    ("text", "key", "shown"),
    [
        (
            "redis://ada:sesame@r:6379/0?password=sesame",
            "url",
            "redis://ada:***@r:6379/0?password=***",
        ),
        ("https://sesame@cloud/off", "", "https://***@cloud/off"),
        ("--token=sesame", "on", "--token=***"),
        ("Authorization: Bearer sesame", "off", "Authorization: Bearer ***"),
        ("sesame", "api-key", "***"),
        ("sesame", "redis_password", "***"),
        ("ada", "owner", "ada"),
        ("/etc/tenure/token", "token_file", "/etc/tenure/token"),
    ],
)
def test_no_secret_is_shown(text: str, key: str, shown: str) -> None:
    assert redacted(text, key) == shown


# the interface


def test_load_raises_every_fault(write: Any) -> None:
    path = write(NODE + "relist_s: 0\nlog: {level: loud}\n")
    with pytest.raises(
        InvalidInput, match=r"tenured\.yml has 2 faults; first relist_s: "
    ) as caught:
        load(path, ENV)
    assert list(caught.value.fields) == validate(path, ENV)
    assert [fault.path for fault in caught.value.fields] == ["relist_s", "log.level"]
    assert caught.value.exit_code == 2


def test_settings_are_frozen() -> None:
    settings = load(None, ENV)
    assert isinstance(settings, Settings)
    with pytest.raises(ValidationError, match="frozen"):
        settings.relist_us = 1


# the document


def test_the_documents_examples_are_accepted(write: Any) -> None:
    settings = load(write(EXAMPLE, EXAMPLE_CYCLES), ENV)
    assert [node.name for node in settings.nodes] == ["desk", "rack1", "cloud1"]


@pytest.mark.parametrize("name", ["tenured.yml", "lending.yml"])
def test_example_files_are_accepted(name: str) -> None:
    settings = load(EXAMPLES / name, ENV)
    lent = [node for node in settings.nodes if node.harvest is not None]
    assert bool(lent) is (name == "lending.yml")
    for node in lent:
        assert node.harvest is not None
        assert node.harvest.mode == "act"
        assert node.agent is not None


def test_power_drivers(write: Any, tmp_path: Path) -> None:
    keys = tmp_path / "keys.yml"
    keys.write_text("key: k\nsecret: s\n")
    text = f"""
nodes:
  - name: a
    url: tcp://10.0.0.1:2375
    generation: young
    power: {{driver: wol, mac: 00-11-22-AA-BB-CC, broadcast: 10.0.0.255, off: [o], status: [s],
            off_w: 3}}
  - name: b
    url: tcp://10.0.0.2:2375
    generation: young
    power: {{driver: libcloud, provider: EC2, instance: i-1, region: r, credentials: "{keys}"}}
power: {{price_per_kwh: 0.25}}
"""
    settings = load(write(text), ENV)
    wol, cloud = (node.power for node in settings.nodes)
    assert (wol.driver, wol.mac, wol.broadcast, wol.port) == (
        "wol",
        "00:11:22:aa:bb:cc",
        "10.0.0.255",
        9,
    )
    assert (wol.off, wol.status, wol.off_w) == (("o",), ("s",), 3.0)
    assert (cloud.provider, cloud.instance, cloud.region) == ("ec2", "i-1", "r")
    assert cloud.credentials == str(keys)
    assert settings.power.price_nano_per_kwh == 250_000_000


def test_an_hdfs_comes_out_in_the_models_units(write: Any, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("x")
    text = """
        datasets:
          locate_s: 5
          hdfs:
            - name: lake
              namenodes: [http://nn1:9870/, https://nn2:9871]
              token_file: token
              timeout_s: 2.5
              nodes: {dn1.example: n}
        nodes: [{name: n, url: tcp://10.0.0.1:2375, generation: nursery}]
        """
    settings = load(write(text), {})
    assert settings.datasets.locate_us == 5_000_000
    (lake,) = settings.datasets.hdfs
    spec = lake.spec
    assert spec.name_nodes == ("http://nn1:9870", "https://nn2:9871")
    assert (spec.user, spec.timeout_s, spec.nodes) == ("", 2.5, {"dn1.example": "n"})
    assert spec.token_file == str(tmp_path / "token")
