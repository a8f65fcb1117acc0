"""Metrics of predictions, of incidents, and of the console itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from gpuconsole import __version__
from gpuconsole.core.devices.run_history import Observation
from gpuconsole.core.estimate import MEASURED_TIERS
from gpuconsole.core.incidents import Incident, IncidentState, Severity
from gpuconsole.core.text import clean
from gpuconsole.session.metrics.fleet import LONGEST_LABEL
from gpuconsole.session.metrics.model import Family, Metric, Picture, PredictionFacts, spread
from gpuconsole.triage.rules import RULES

RATIO_BUCKETS = (0.5, 0.7, 0.8, 0.9, 0.95, 1.0, 1.05, 1.1, 1.25, 1.5, 2.0)
TIERS = ("formula", "static", *MEASURED_TIERS, "history")
OTHER = "other"
LIKELY = 0.5
"""From this chance on a prediction says that memory runs out."""
SAID = ("fits", "runs-out")
ENDINGS = ("ok", "oom")
RULE_NAMES = tuple(rule.name for rule in RULES)
SEVERITIES = tuple(severity.value for severity in Severity)

RATIO = Metric(
    "gpuconsole_prediction_ratio", "histogram",
    "Observed peak of memory through the predicted one, of runs that reached their peak; above 1"
    " the prediction was too low.",
    ("tier",), most=len(TIERS) + 1, buckets=RATIO_BUCKETS,
)  # fmt: skip
JUDGED = Metric(
    "gpuconsole_predictions_total", "counter",
    "Runs with a predicted chance to run out of memory: what was likelier (`said`) and how they"
    " ended.",
    ("said", "ended"), most=len(SAID) * len(ENDINGS),
)  # fmt: skip
INCIDENTS = Metric(
    "gpuconsole_incidents", "gauge",
    "Open incidents that are neither snoozed nor dismissed, by rule.", ("rule", "severity"),
    most=(len(RULE_NAMES) + 1) * len(SEVERITIES),
)  # fmt: skip
HOST_INCIDENTS = Metric(
    "gpuconsole_host_incidents", "gauge", "The same by host.", ("host", "severity"), "host",
    len(SEVERITIES),
)  # fmt: skip
SIMULATED = Metric("gpuconsole_simulated", "gauge", "1 when all of this is made up: a demo.")
DISPATCHER = Metric(
    "gpuconsole_dispatcher_up", "gauge", "1 while a console or `gpuconsole dispatch` starts jobs."
)
JOURNAL = Metric("gpuconsole_journal_up", "gauge", "0 while the queue's journal cannot be read.")
TAKEN = Metric(
    "gpuconsole_picture_timestamp_seconds", "gauge", "When this picture of the lab was taken."
)
BUILD = Metric("gpuconsole_build_info", "gauge", "1, with the version.", ("version",))
METRICS = (
    *(RATIO, JUDGED, INCIDENTS, HOST_INCIDENTS),
    *(SIMULATED, DISPATCHER, JOURNAL, TAKEN, BUILD),
)


def prediction_facts(observations: Iterable[Observation]) -> PredictionFacts:
    """Hold predictions against what was seen."""
    ratios: dict[str, list[float]] = {tier: [] for tier in TIERS}
    judged = Counter({(said, ended): 0 for said in SAID for ended in ENDINGS})
    for observation in observations:
        if observation.oom_probability is not None:
            judged[SAID[observation.oom_probability >= LIKELY], observation.outcome] += 1
        if (
            observation.outcome == "ok"
            and observation.predicted_reserved_mib
            and observation.peak_mib
        ):
            tier = observation.tier if observation.tier in TIERS else OTHER
            ratios.setdefault(tier, []).append(
                observation.peak_mib / observation.predicted_reserved_mib
            )
    return PredictionFacts(
        {tier: spread(ratios_of_tier, RATIO_BUCKETS) for tier, ratios_of_tier in ratios.items()},
        dict(judged),
    )


def families(picture: Picture) -> Iterator[Family]:
    """Give the metrics of predictions, incidents and the console."""
    if picture.journal:
        predictions = picture.predictions
        yield Family(RATIO, [((tier,), spread_) for tier, spread_ in predictions.ratios.items()])
        yield Family(JUDGED, [(words, float(n)) for words, n in predictions.judged.items()])
    yield from _incidents(picture)
    yield Family(SIMULATED, [((), float(picture.simulated))])
    yield Family(DISPATCHER, [((), float(picture.dispatching))])
    yield Family(JOURNAL, [((), float(picture.journal))])
    yield Family(TAKEN, [((), picture.at)])
    yield Family(BUILD, [((__version__,), 1.0)])


def _incidents(picture: Picture) -> Iterator[Family]:
    standing = [incident for incident in picture.incidents if _counts(incident, picture.at)]
    rules = Counter(
        (incident.rule if incident.rule in RULE_NAMES else OTHER, incident.severity.value)
        for incident in standing
    )
    # A zero for each rule, so that a rate or an alert has something to begin from.
    for rule in RULES:
        rules.setdefault((rule.name, rule.severity.value), 0)
    yield Family(INCIDENTS, [(words, float(n)) for words, n in sorted(rules.items())])
    hosts = Counter((incident.host, incident.severity.value) for incident in standing)
    yield Family(
        HOST_INCIDENTS,
        [
            ((clean(host.name, LONGEST_LABEL), severity), float(hosts[host.name, severity]))
            for host in picture.snapshot.hosts
            for severity in SEVERITIES
        ],
    )


def _counts(incident: Incident, now: float) -> bool:
    state = incident.state(now)
    return state in (IncidentState.OPEN, IncidentState.ACKNOWLEDGED)
