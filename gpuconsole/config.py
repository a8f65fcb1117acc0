"""Settings of the lab: `config.yaml` in the user's config folder, or `lab:` in an inventory.

What an inventory's `lab:` says wins over the user's file, key by key; of `measure` the stricter
value wins. `combined` joins the two.
"""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, Field, field_validator, model_validator

from gpuconsole.core.engines.transfers import TransferLimits
from gpuconsole.core.estimate import MEMORY_THRESHOLD, Measure, strictest
from gpuconsole.core.fleet import Backend
from gpuconsole.core.lab_service.messages import KINDS, About, Kind
from gpuconsole.core.lab_service.receivers import Receiver
from gpuconsole.core.lab_service.rights import WRITABLE, Policy, Rights
from gpuconsole.core.training.log import Template
from gpuconsole.core.units import MIB, parse_time
from gpuconsole.core.util.user_dirs import CONFIG_VARIABLE, config_path, state_dir
from gpuconsole.core.wording import msg
from gpuconsole.yamldoc import Seconds, Section, SizeMib, Text, load

PolicyName = Literal[
    "weighted",
    "best_fit",
    "first_fit",
    "balanced",
    "fragmentation_aware",
    "cost_performance",
    "rl_based",
]
NetworkPolicy = Literal["none", "lab", "full"]
ForeignProcesses = Literal["share", "avoid"]
SymbolSet = Literal["block", "ascii"]

__all__ = ["LabSettings", "Weights", "combined", "config_path", "load_settings", "state_dir"]


class Weights(Section):
    """How much each part of the `weighted` policy counts; 0 switches a part off."""

    idle: float = Field(9.0, ge=0, le=100)
    """Take an idle device; above `speed` an idle slow one beats a busy fast one."""
    fit: float = Field(1.4, ge=0, le=100)
    """Take the device that leaves the least memory unused."""
    balance: float = Field(0.0, ge=0, le=100)
    """Take the host with fewer busy devices."""
    pack: float = Field(0.4, ge=0, le=100)
    """Take the host on which fewer devices are left free."""
    fragments: float = Field(0.7, ge=0, le=100)
    """Leave no rest of a host that the next jobs could not use."""
    preferred: float = Field(3.0, ge=0, le=100)
    """Follow the order of the task's preferred devices."""
    speed: float = Field(6.0, ge=0, le=100)
    """Take the device with the higher FP16 rate."""
    length: float = Field(2.0, ge=0, le=100)
    """The same, the more the longer the job runs."""
    links: float = Field(2.5, ge=0, le=100)
    """For several devices: take those that are closer to each other."""
    domestic: float = Field(0.0, ge=0, le=100)
    """Bonus for Chinese accelerators; above 1 it costs noticeable waiting time."""
    price: float = Field(2.4, ge=0, le=100)
    """Take the cheaper device, by its price per hour."""
    bulk: float = Field(1.8, ge=0, le=100)
    """The same, the more the more devices the job takes."""


class PollLimits(Section):
    """How the console watches hosts."""

    connect_timeout: Seconds = Field(5.0, gt=0, le=300)
    """How long a connection may take to stand."""
    stale_after: Seconds = Field(3.0, gt=0, le=600)
    """A host without a frame for so long is stale: nothing new is placed there."""
    parallel_connects: int = Field(16, gt=0, le=1024)
    """How many connections are made at once; more make the screen stutter meanwhile."""


def _time(text: str) -> str:
    parse_time(text)
    return text


Moment = Annotated[Text, AfterValidator(_time)]
"""A time as ISO 8601; without a zone that of the console's machine."""


class ShareSection(Section):
    """Parts of the lab that are due, in any unit; who is not named has 1."""

    users: dict[str, Annotated[float, Field(gt=0, le=1e6)]] = Field(default_factory=dict)
    """Parts by user."""
    accounts: dict[str, Annotated[float, Field(gt=0, le=1e6)]] = Field(default_factory=dict)
    """Parts by account."""


class QuotaSection(Section):
    """The most that a user or an account may have. `*` is each one without a quota of its own."""

    user: Text = ""
    """The user; `*` for each user."""
    account: Text = ""
    """Or which account's; `*` for each account."""
    devices: int | None = Field(None, ge=0, le=100_000)
    """Devices at once."""
    device_hours: float | None = Field(None, ge=0)
    """Device-hours in a period; once they are used up nothing more starts in it."""
    per: Literal["day", "week", "month"] = "week"
    """The period: a calendar day, week or month in UTC."""

    @model_validator(mode="after")
    def _whole(self) -> QuotaSection:
        if bool(self.user) == bool(self.account):
            raise ValueError("expected either `user` or `account`")
        if self.devices is None and self.device_hours is None:
            raise ValueError("expected `devices` or `device_hours`")
        return self


class PriceSection(Section):
    """What devices and energy cost, for `gpuconsole report`."""

    currency: Text = ""
    """How amounts are named: `EUR`, `CNY`, `points`."""
    per_kwh: float | None = Field(None, ge=0, le=1e6)
    """Of measured energy."""
    per_hour: dict[Text, float] = Field(default_factory=dict)
    """Of one device for an hour, by model; a host's own `price_per_hour` wins over it."""

    @field_validator("per_hour")
    @classmethod
    def _bounded(cls, prices: dict[str, float]) -> dict[str, float]:
        for model, price in prices.items():
            if not 0 <= price <= 1e6:
                raise ValueError(msg("expected a price from 0 to 1000000 for {model}", model=model))
        return prices


class WindowSection(Section):
    """A time in which hosts or models are kept for somebody."""

    name: Text
    """What it is for, such as a course."""
    begins: Moment
    """When it begins, as ISO 8601: `2030-01-31T18:00+08:00`."""
    ends: Moment
    """When it ends."""
    repeat: Literal["day", "week"] | None = None
    """Whether it comes back."""
    hosts: tuple[Text, ...] = ()
    """Which hosts; all that have the models, when left out."""
    models: tuple[Text, ...] = ()
    """Which models; any, when left out."""
    users: tuple[Text, ...] = ()
    """For which users."""
    accounts: tuple[Text, ...] = ()
    """For which accounts."""
    labels: dict[str, Text] = Field(default_factory=dict)
    """For tasks that ask for these labels."""
    clear: Seconds = Field(0.0, ge=0)
    """For so long before, no job of unknown run time starts there."""

    @model_validator(mode="after")
    def _in_order(self) -> WindowSection:
        length = parse_time(self.ends) - parse_time(self.begins)
        if length <= 0:
            raise ValueError("`ends` must be after `begins`")
        if self.repeat and length > {"day": 86400, "week": 7 * 86400}[self.repeat]:
            raise ValueError(
                msg("it is longer than the {span_word} after which it comes back",
                    span_word=self.repeat)
            )  # fmt: skip
        return self


class Thresholds(Section):
    """From when on something counts as wrong. Times say for how long it must hold first."""

    unreachable_for: Seconds = Field(15.0, ge=0, le=86400)
    """A host that does not answer."""
    fault_for: Seconds = Field(3.0, ge=0, le=86400)
    """A lost device, an XID, memory errors, retired pages."""
    slowed_for: Seconds = Field(60.0, ge=0, le=86400)
    """A device that slows itself, for heat or because its power supply asks for it."""
    memory_full: float = Field(97.0, gt=0, le=100)
    """Percent of a device's memory that are nearly all of it."""
    memory_full_for: Seconds = Field(120.0, ge=0, le=86400)
    """Memory that is nearly full."""
    idle_utilization: float = Field(2.0, ge=0, le=100)
    """Percent of utilisation below which a device is idle."""
    idle_memory: SizeMib = 256.0
    """Memory that a process on an idle device must hold to be reported."""
    idle_for: Seconds = Field(1800.0, ge=0, le=7 * 86400)
    """Memory held by a process that does not work."""
    job_idle_for: Seconds = Field(1800.0, ge=0, le=7 * 86400)
    """A job of the queue that does nothing, or makes no more steps."""
    idle_power: float = Field(25.0, gt=0, le=100)
    """Percent of its power limit below which a device that says it is fully used only waits."""
    low_utilization: float = Field(25.0, ge=0, le=100)
    """Percent of utilisation that is low for a device with full memory."""
    low_memory: float = Field(80.0, gt=0, le=100)
    """Percent of memory that counts as full for that."""
    low_for: Seconds = Field(600.0, ge=0, le=7 * 86400)
    """Low utilisation with full memory."""
    foreign_for: Seconds = Field(60.0, ge=0, le=86400)
    """A process that does not belong to the job that holds the device."""
    retired_pages: int = Field(10, ge=1)
    """Pages of memory taken out of use that are worth a word; more of them always are."""
    clock_skew: Seconds = Field(5.0, gt=0, le=86400)
    """How far a host's clock may be off."""
    clock_for: Seconds = Field(60.0, ge=0, le=86400)
    """A clock that is off."""
    disk_free: float = Field(5.0, gt=0, lt=100)
    """Percent of a host's disk that should be free; below a fifth of it is critical."""
    disk_for: Seconds = Field(60.0, ge=0, le=86400)
    """A disk that is nearly full."""
    straggler_gap: float = Field(30.0, gt=0, le=100)
    """How many points of utilisation a device of a job may lie below the others."""
    straggler_for: Seconds = Field(180.0, ge=0, le=86400)
    """A device that lags behind."""
    engine_for: Seconds = Field(30.0, ge=0, le=86400)
    """A container engine that does not answer."""
    failures: int = Field(3, ge=2, le=1000)
    """Different jobs that failed on a host before the host is suspected."""
    failures_within: Seconds = Field(3600.0, gt=0, le=7 * 86400)
    """The time in which they did."""
    clear_after: Seconds = Field(30.0, ge=1, le=86400)
    """An incident is over once its cause has been gone for so long."""


def _web_address(text: str) -> str:
    if text and not text.startswith(("http://", "https://")):
        raise ValueError("expected an address that begins with http:// or https://")
    return text


class TriageSection(Section):
    """What is watched for, and who gets a message."""

    limits: Thresholds = Thresholds()
    """From when on something counts as wrong."""
    bell: bool = False
    """Ring the terminal's bell, and have it show a notification, when an incident opens."""
    webhook: Annotated[Text, AfterValidator(_web_address)] = ""
    """Address to which incidents are posted as JSON when they open and when they end."""
    notify: Literal["critical", "warning", "info"] = "warning"
    """The least severe incident for which bell and webhook are used."""


class TransferSection(Section):
    """The most that is taken out of containers at once: results to this machine, or a checkpoint
    to another host."""

    size: SizeMib = 256 * 1024.0
    """Content of all files."""
    files: int = Field(200_000, gt=0, le=10_000_000)
    """Files, folders and links."""

    def limits(self) -> TransferLimits:
        """Return them as an archive's reader takes them."""
        return TransferLimits(int(self.size * MIB), self.files)


class Retention(Section):
    """How long the console keeps what is over."""

    jobs: Seconds = Field(90 * 86400.0, gt=0)
    """Packed projects and logs of ended jobs."""


class RecordingSettings(Section):
    """What each console writes down of what it sees, for looking back."""

    enabled: bool = True
    """Whether anything is recorded."""
    keep_hours: float = Field(72.0, gt=0, le=24 * 366)
    """What is older is removed."""
    max_mib: SizeMib = 200.0
    """The oldest is removed when recordings would take more."""


class KubernetesSection(Section):
    """How jobs are written for a Kubernetes cluster."""

    claim: Text = ""
    """Volume claim for results and checkpoints, which go with the pod without one."""
    code_claim: Text = ""
    """Volume claim for projects that are too large for a ConfigMap."""
    volumes: dict[str, Text] = Field(default_factory=dict)
    """Volume claims that hold what tasks mount from hosts: `/data/images: images-claim`."""
    resources: dict[str, Text] = Field(default_factory=dict)
    """What the cluster calls devices, by back end: `dcu: amd.com/gpu`."""
    type_label: Text = ""
    """Label of nodes that names the type of their devices; else that of the vendor's own tool."""
    types: dict[str, Text] = Field(default_factory=dict)
    """Values of that label, by the names of devices that tasks use."""
    interruptible: dict[str, Text] = Field(
        default_factory=lambda: {
            "cloud.google.com/gke-spot": "true",
            "kubernetes.azure.com/scalesetpriority": "spot",
            "eks.amazonaws.com/capacityType": "SPOT",
            "karpenter.sh/capacity-type": "spot",
        }
    )
    """Labels, and taints of the same key, of nodes that may be taken away at any time: only jobs
    that keep checkpoints go there."""
    memory_request: SizeMib = 8192.0
    """Host memory that is reserved for a job without a limit in its task."""


class LimitsSection(Section):
    """When jobs are ended without anybody asking."""

    time_limit: Seconds | None = Field(None, gt=0)
    """The longest that a job may run; it also holds for jobs that name no limit."""
    warning: Seconds = Field(600.0, ge=0, le=86400)
    """So long before its time limit the user of a job is warned, a quarter of the limit at most."""
    grace: Seconds = Field(60.0, ge=0, le=3600)
    """Time between SIGTERM and SIGKILL for a job that is ended at its limit or for idleness."""
    idle: Seconds | None = Field(None, ge=60, le=30 * 86400)
    """A job that has done nothing for so long is ended, where that is beyond doubt; without it, it
    is an incident that a person decides on."""


def _template(text: str) -> str:
    Template(text)
    return text


class MetricsSection(Section):
    """What is read of training in logs of jobs, beside the forms that are known."""

    patterns: tuple[Annotated[Text, AfterValidator(_template)], ...] = Field((), max_length=16)
    """Own forms of lines: `{name}` matches a number, `*` anything: `after {step} updates * energy
    {energy}`. `{epoch}`, `{step}` and `{steps}` are counters."""


_MAILBOX = r"^[A-Za-z0-9_][A-Za-z0-9._+-]{0,63}@[A-Za-z0-9][A-Za-z0-9.-]{0,252}$"


class WaySection(Section):
    """One way to tell a user: exactly one of the receivers."""

    slack: Annotated[Text, AfterValidator(_web_address)] = Field("", repr=False)
    """Address of an incoming webhook of Slack."""
    feishu: Annotated[Text, AfterValidator(_web_address)] = Field("", repr=False)
    """Address of a custom robot of Feishu or Lark."""
    dingtalk: Annotated[Text, AfterValidator(_web_address)] = Field("", repr=False)
    """Address of a custom robot of DingTalk; where that asks for a keyword: `gpuconsole`."""
    wecom: Annotated[Text, AfterValidator(_web_address)] = Field("", repr=False)
    """Address of a group robot of WeCom."""
    webhook: Annotated[Text, AfterValidator(_web_address)] = Field("", repr=False)
    """Address that takes a plain JSON document."""
    secret: Text = Field("", repr=False)
    """With which a robot of Feishu or DingTalk has messages signed."""
    mail: Annotated[str, Field(pattern=_MAILBOX)] | None = None
    """Mail address, reached through this machine's own sendmail."""
    desktop: bool = False
    """A notification of the desktop at which the console runs."""

    @property
    def address(self) -> tuple[Kind, str] | None:
        """Its web address and what takes it; None for mail and desktop."""
        addresses = ((kind, getattr(self, kind)) for kind in KINDS)
        return next(((kind, url) for kind, url in addresses if url), None)

    @model_validator(mode="after")
    def _one_receiver(self) -> WaySection:
        named = [kind for kind in KINDS if getattr(self, kind)]
        if len(named) + (self.mail is not None) + self.desktop != 1:
            raise ValueError(
                msg("expected one of {names}", names=", ".join((*KINDS, "mail", "desktop")))
            )
        if self.secret and named not in (["feishu"], ["dingtalk"]):
            raise ValueError("`secret` is for feishu and dingtalk")
        return self


class NotifySection(Section):
    """How you get messages about your jobs."""

    about: tuple[About, ...] = (
        "succeeded", "failed", "oom", "time-warning", "time-limit", "idle", "rule",
    )  # fmt: skip
    """What messages are about."""
    ways: tuple[WaySection, ...] = Field((), max_length=8)
    """Where, in the order in which they are tried until one works."""


class RightsSection(Section):
    """Who may do more with the lab's queue than act on their own jobs. `@name` is a Unix group."""

    operators: tuple[Text, ...] = ()
    """Users and groups that may act on every job, and drain hosts."""
    priority: tuple[Text, ...] = ()
    """Users and groups that may ask for a priority above 0, beside the operators."""
    accounts: dict[str, tuple[Text, ...]] = Field(default_factory=dict)
    """Accounts that only these users and groups may name."""
    measure_on_device: tuple[Text, ...] | None = None
    """Users and groups with the right to measure their scripts on an idle device, beside the
    operators; left out, everybody."""
    gangs: tuple[Text, ...] | None = None
    """Users and groups that may submit jobs over several hosts, beside the operators: with
    `gang_network: host` their containers are in the hosts' own network. Left out, everybody."""

    windows: dict[str, tuple[Text, ...]] = Field(default_factory=dict)
    """By the name of a reserved window: users and groups that may ask for it by its label or
    account, beside its own `users` and the operators. An account for which `accounts` names users
    is theirs."""

    def rights(self) -> Rights:
        """Return them as the rules take them."""
        return Rights(
            self.operators,
            self.priority,
            self.accounts,
            self.measure_on_device,
            self.gangs,
            self.windows,
        )


class AllowedSection(Section):
    """What jobs of the lab's queue may have."""

    mounts: tuple[Text, ...] = ()
    """Folders of hosts that jobs may mount to read, with all below them: `/data`; with `:rw` also
    to write, and then as a whole only: `/scratch:rw`."""
    images: tuple[Text, ...] = ("*",)
    """Patterns of the images that jobs may name: `registry.lab/*`."""
    networks: tuple[NetworkPolicy, ...] = ("none", "lab")
    """Networks that jobs may ask for."""
    devices: int | None = Field(None, ge=1)
    """Most devices of one job."""
    memory: SizeMib | None = None
    """Most memory of a host that a job may ask for there, and have if it asks for none."""

    @field_validator("mounts")
    @classmethod
    def _absolute(cls, folders: tuple[str, ...]) -> tuple[str, ...]:
        for folder in folders:
            path = PurePosixPath(folder.removesuffix(WRITABLE))
            if not path.is_absolute() or ".." in path.parts or len(path.parts) < 2:
                raise ValueError("expected absolute paths below /, without `..`")
        return folders

    webhooks: tuple[Text, ...] = ()
    """Hosts to which the lab's service may post users' messages: `hooks.slack.com`,
    `*.example.org`, `https://chat.lab:8443`. Addresses of the lab's own networks only where the
    host is named exactly."""
    mail: tuple[Text, ...] = ()
    """Patterns of the mail addresses to which the service may send users' messages:
    `*@lab.example`."""

    @field_validator("webhooks")
    @classmethod
    def _hosts(cls, entries: tuple[str, ...]) -> tuple[str, ...]:
        for entry in entries:
            Receiver.of(entry)
        return entries

    run_as: Literal["account", "user"] = "account"
    """The user of containers on hosts: the service's account there, or the job's user, for which
    the service's account there must be root."""
    ids: dict[str, Annotated[str, Field(pattern=r"^[1-9][0-9]{0,9}:[1-9][0-9]{0,9}$")]] = Field(
        default_factory=dict
    )
    """With `run_as: user`: the numbers of users and groups on hosts, `ada: "2001:2001"`, where
    they are not those on the service's host."""

    def policy(self) -> Policy:
        """Return it as the rules take it."""
        ids = self.ids if self.run_as == "user" else None
        return Policy(self.mounts, self.images, self.networks, self.devices, self.memory, ids)


class LabSettings(Section):
    """Everything a lab can decide for itself; every key is optional."""

    policy: PolicyName = "weighted"
    """How the candidates of a job are ranked; a task's `scheduler.algorithm` wins over it."""
    weights: Weights = Weights()
    """Weights of the `weighted` policy."""
    memory_threshold: float = Field(MEMORY_THRESHOLD, gt=0, le=1)
    """Largest share of a device's memory that an estimate may fill; a task may ask for less."""
    measure: Measure = "auto"
    """Whether a script is run in a sandbox to measure its memory if that cannot be read from it:
    `auto` at once on a host that has the image, `ask` once the user agrees, `never`. Of the user's,
    the lab's and the task's choice the strictest counts."""
    measure_limit: Seconds = Field(300.0, gt=0, le=86400)
    """Longest time that measuring may hold up a job before it is queued."""
    measure_on_device: bool = False
    """Whether a script that no other tier could tell may take an idle device for up to a minute."""
    unknown_memory: Literal["alone", "refuse"] = "alone"
    """What happens to a job of unknown memory: it runs `alone` on a device, or the lab will
    `refuse` it."""
    network: NetworkPolicy = "none"
    """Network of job containers: none, the lab's own network, or everything."""
    lab_network: Text = "gpuconsole-lab"
    """Name of the Docker network that `network: lab` joins."""
    gang_network: Literal["none", "host"] = "none"
    """Network of jobs over several hosts: `host` lets their containers into the hosts' own
    network, so that they reach each other; with `none` there are no such jobs."""
    memory_limit: SizeMib = 65536.0
    """Host memory that a container may take unless its task says otherwise."""
    shm_size: SizeMib = 8192.0
    """Size of /dev/shm, which data loaders use, unless the task says otherwise."""
    pids_limit: int = Field(4096, gt=0)
    """Processes and threads that a container may have."""
    allow_root: bool = False
    """Let containers run as root where the host's account is root."""
    allow_privileged: bool = False
    """Let containers be privileged where a device's maker knows no other way: Enflame."""
    images: dict[Backend, Text] = Field(default_factory=dict)
    """Image of tasks that name none on hosts that name none, by kind of device: `npu: NAME`."""
    code_size_limit: SizeMib = 256.0
    """Largest project folder that is shipped with a job, packed."""
    half_life: Seconds = Field(7 * 86400.0, gt=0)
    """After so long use counts half for fair share."""
    shares: ShareSection = ShareSection()
    """What is due to whom for fair share; all the same when left out."""
    quotas: tuple[QuotaSection, ...] = ()
    """The most that users and accounts may have."""
    prices: PriceSection = PriceSection()
    """What devices and energy cost, for `gpuconsole report`."""
    max_devices_per_host: int | None = Field(None, ge=1)
    """Devices that one user may have on one host."""
    windows: tuple[WindowSection, ...] = ()
    """Times in which hosts or models are kept for somebody."""
    sharing: bool = False
    """Let two jobs that both say `share: true` use one device while no whole one is free."""
    preemption: bool = False
    """Let a job of higher priority stop jobs that can resume from a checkpoint."""
    fair_share: float = Field(0.2, ge=0, le=10)
    """How much use beyond one's share moves a job back in the queue; 0 switches it off."""
    patience: float = Field(0.1, ge=0, le=10)
    """How much waiting moves a job forward in the queue; 0 switches it off."""
    front_after: Seconds = Field(86400.0, ge=0)
    """A job that has waited so long, and 24 times as long as it should run, goes before all others
    of its priority, sooner where its user has had less than their due; 0 switches that off."""
    foreign_processes: ForeignProcesses = "share"
    """What of a device on which somebody works outside the queue: `share` what is left of its
    memory, or `avoid` the device."""
    elastic_price: float | None = Field(None, ge=0, le=1e9)
    """The most that hosts which the console can wake may cost together in an hour while they are
    awake, by `price_per_hour`; without it all may be awake."""
    stop_grace: Seconds = Field(10.0, ge=0, le=3600)
    """Time between SIGTERM and SIGKILL when a job is cancelled."""
    set_aside_after: int = Field(3, ge=1, le=100)
    """A host that could not start so many jobs one after another takes none for a while."""
    lease_grace: Seconds = Field(120.0, ge=10, le=86400)
    """A claim on a device is removed by any console once it is so old and no container of its job
    runs, ended within this time, or is being filled by a console that shows signs of life, which
    it does four times in this time."""
    poll: PollLimits = PollLimits()
    """Limits of the links to hosts."""
    recording: RecordingSettings = RecordingSettings()
    """Recordings of this console's sessions."""
    transfer: TransferSection = TransferSection()
    """The most that is taken out of containers at once."""
    retention: Retention = Retention()
    """How long what ended jobs leave is kept."""
    triage: TriageSection = TriageSection()
    """What is watched for, and who gets a message."""
    kubernetes: KubernetesSection = KubernetesSection()
    """How `gpuconsole render --to kubernetes` writes jobs."""
    limits: LimitsSection = LimitsSection()
    """When jobs are ended without anybody asking."""
    metrics: MetricsSection = MetricsSection()
    """What is read of training in logs of jobs."""
    notify: NotifySection = NotifySection()
    """How you get messages about your jobs; also from the lab's service."""
    sendmail: Text = "/usr/sbin/sendmail"
    """The program that takes a mail as sendmail does, for messages."""
    rights: RightsSection = RightsSection()
    """Who may do what in the lab's queue (`gpuconsole dispatch --lab`)."""
    allowed: AllowedSection = AllowedSection()
    """What jobs of the lab's queue may have."""
    theme: Text = "night"
    """Colours of the console."""
    language: Literal["auto", "en", "zh"] = "auto"
    """What the screens are written in: English, Chinese, or as LC_ALL, LC_MESSAGES or LANG say."""
    symbols: SymbolSet = "block"
    """What the console draws with: block characters and lines, or plain ASCII."""
    tour: bool = True
    """Whether the console shows its tour of five steps at its first start."""
    keys: dict[str, Text] = Field(default_factory=dict)
    """Keys by the id of what they do, such as `fleet.filter: ctrl+f`; the help lists the ids."""

    def allowed_measure(self, choice: Measure | None, *, read_only: bool) -> Measure:
        """Return whether a task may be measured that has this choice: it may only be stricter."""
        return strictest("never" if read_only else None, self.measure, choice)


def load_settings(path: Path | None = None) -> LabSettings:
    """Read the settings; without a path the user's own file, which need not exist unless the
    environment names it."""
    if path is None:
        path = config_path()
        if not path.exists() and not os.environ.get(CONFIG_VARIABLE):
            return LabSettings()
    return load(path, LabSettings)


def combined(user: LabSettings, lab: LabSettings) -> LabSettings:
    """Return the user's settings with every key that the lab sets in its place; whether scripts are
    measured is decided by the stricter of both."""
    joined = _merged(_written(user), _written(lab))
    if "measure" in joined:
        joined["measure"] = strictest(user.measure, lab.measure)
    return LabSettings.model_validate(joined)


def _written(section: BaseModel) -> dict[str, object]:
    return section.model_dump(exclude_unset=True)


def _merged(base: dict[str, object], over: dict[str, object]) -> dict[str, object]:
    result = dict(base)
    for key, value in over.items():
        below = result.get(key)
        if isinstance(below, dict) and isinstance(value, dict):
            value = _merged(below, value)
        result[key] = value
    return result
