"""What the fuzzer does around each request: puts in ids that exist, and writes down what was answered.

Only what is drawn to be valid is touched, and of that one in eight is left as it was drawn, so that unknown ids and
meaningless texts are tried too. Which one follows from what was drawn: the same seed gives the same requests.
"""

import json
import os
import zlib

import schemathesis
from parents import (
    ALLOCATIONS,
    BODIES,
    FLAVOR,
    IMAGE,
    IMAGE_URI,
    INSTANCES,
    NETWORKS,
    PUBLIC_KEY,
    SERVERS,
    STORAGE_CLASS,
    USERS,
    V1_NETWORKS,
    V1_SERVERS,
    VOLUME_CLASS,
    Parents,
    changes_tenants,
    parameters,
)
from schemathesis.core.parameters import ParameterLocation
from schemathesis.generation import GenerationMode
from schemathesis.generation.meta import CoverageScenario

# One in so many is sent as it was drawn.
AS_DRAWN = 8
# Deletions beyond these meet what is deleted already, which is worth trying too.
FRESH_MAX = 12
# Each brings a server to where a verb can be obeyed, which takes seconds.
READY_MAX = 2

START = json.loads(os.environ["REGENT_FUZZ_START"])
parents = Parents(START)
journal = open(os.environ["REGENT_FUZZ_JOURNAL"], "w", buffering=1, encoding="utf-8")  # noqa: SIM115
times = {}


def turn(what):
    """How often this has been asked before."""
    times[what] = times.get(what, -1) + 1
    return times[what]


def is_valid(case, location):
    component = case.meta.components.get(location) if case.meta else None
    return component is None or component.mode == GenerationMode.POSITIVE


def is_as_drawn(case):
    drawn = repr((case.path_parameters, case.body)).encode()
    return zlib.crc32(drawn) % AS_DRAWN == 0


def served():
    """Every operation that there is: a document may describe fewer."""
    document = parents.session.get(START["apiUrl"] + "/openapi.json").json()
    return {f"{method.upper()} {path}" for path, item in document["paths"].items() for method in item}


SERVED = served()


def is_wrong_method(case):
    scenario = getattr(case.meta.phase.data, "scenario", None) if case.meta else None
    return scenario == CoverageScenario.UNSPECIFIED_HTTP_METHOD


@schemathesis.hook
def before_call(context, case, kwargs):
    if is_wrong_method(case) and f"{case.method} {case.path}" in SERVED:
        # Right after all. This one never is.
        case.method = "TRACE"
    # The fuzzer also draws ids that it was shown. What others need is not to be changed by chance.
    is_dangerous = case.method != "GET" and parents.needs(case.path_parameters)
    if is_as_drawn(case) and not is_dangerous:
        return
    if case.path_parameters and (is_dangerous or is_valid(case, ParameterLocation.PATH)):
        name_parents(case)
    if isinstance(case.body, dict) and is_valid(case, ParameterLocation.BODY):
        case.body = meant(case.operation.label, case.body)


def name_parents(case):
    throw_away = changes_tenants(case.path)
    found = list(parameters(case.path))
    values = {name: parents.value(prefix, name, throw_away) for prefix, name in found}
    if "machineID" in values:
        values["clusterID"], values["machineID"] = parents.machine()
    prefix, last = found[-1]
    if case.method == "DELETE" and case.path.endswith("{" + last + "}") and prefix in BODIES:
        if turn(("delete", prefix)) < FRESH_MAX:
            values[last] = parents.fresh(prefix)
            times[("deleted", prefix)] = values[last]
        else:
            values[last] = times[("deleted", prefix)]
    verb = case.path.rsplit("/", 1)[-1]
    if verb == "evict" and turn(("evict", prefix)) < READY_MAX:
        values[last], times["members"] = parents.populated_cluster(prefix)
    if verb in VERBS and turn(("ready", prefix, verb)) < READY_MAX:
        parents.ready_for(verb, prefix)
    case.path_parameters = {name: values.get(name, drawn) for name, drawn in case.path_parameters.items()}


# What a server obeys in some states only.
VERBS = ("start", "stop", "softreboot", "hardreboot", "consolesessions", "reboot", "consolesession")

# What a field's text must be for the request to mean something.
MEANINGS = {
    "organizationId": lambda: START["organizationId"],
    "projectId": lambda: START["projectId"],
    "regionId": lambda: START["regionId"],
    "networkId": lambda: parents.pinned(NETWORKS),
    "flavorId": lambda: FLAVOR,
    "imageId": lambda: IMAGE,
    "publicKey": lambda: PUBLIC_KEY,
    "nexthop": lambda: "10.0.0.9",
    "cidr": lambda: "10.9.0.0/24",
    "macAddress": lambda: "fa:16:3e:00:00:01",
    "serverId": lambda: parents.pinned(SERVERS),
    "volumeClassId": lambda: VOLUME_CLASS,
    "storageClassId": lambda: STORAGE_CLASS,
    "vipAddress": lambda: f"10.0.2.{1 + turn('vip') % 250}",
    "address": lambda: "10.0.3.4",
    "uri": lambda: IMAGE_URI,
    "userData": lambda: "I2Nsb3VkLWNvbmZpZwo=",
    "subject": lambda: f"drawn-{turn('subject')}",
}
# The same, of fields that are lists.
LISTS = {
    "groupIDs": lambda: [],
    "roleIDs": lambda: [],
    "userIDs": lambda: [],
    "serviceAccountIDs": lambda: [],
    "securityGroups": lambda: [],
    "networkIds": lambda: [parents.pinned(NETWORKS)],
    "networks": lambda: [{"id": parents.pinned(V1_NETWORKS)}],
    "dnsNameservers": lambda: ["9.9.9.9"],
    "allowedSourceAddresses": lambda: ["10.200.0.0/16"],
    "evict": lambda: [],
    "machineIDs": lambda: times.get("members") or [parents.pinned(INSTANCES)],
}


# What an update must repeat.
UNCHANGEABLE = {
    (f"PUT {SERVERS}/{{serverID}}", "metadata", "name"): SERVERS,
    (f"PUT {V1_SERVERS}/{{serverID}}", "metadata", "name"): V1_SERVERS,
    (f"PUT {INSTANCES}/{{instanceID}}", "metadata", "name"): INSTANCES,
    (f"PUT {USERS}/{{userID}}", "spec", "subject"): USERS,
    (f"PUT {ALLOCATIONS}/{{allocationID}}", "spec", "id"): ALLOCATIONS,
}


def meant(operation, body):
    """The body with texts that mean something where they must."""
    body = refined(body)
    for (changed, section, field), collection in UNCHANGEABLE.items():
        # A body may be right of its kind and lack the part all the same: what is drawn to be refused stays as it is.
        if changed == operation and isinstance(body.get(section), dict):
            body[section][field] = parents.body(collection)[section][field]
    return body


def refined(value):
    if isinstance(value, list):
        return [refined(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {name: refined_field(name, inner, value) for name, inner in value.items()}


def refined_field(name, value, siblings):
    if isinstance(value, str):
        if name == "prefix":
            return "10.0.0.0/8" if "nexthop" in siblings or "direction" in siblings else "10.0.0.0/22"
        if name == "kind":
            return "clusters" if "committed" in siblings or "quantity" in siblings else "clusters.example.org"
        if name == "id" and "allocations" in siblings:
            return f"drawn-{turn('allocation')}"
        return MEANINGS[name]() if name in MEANINGS else value
    if name == "replicas" and isinstance(value, int):
        # Each is a machine, and the cloud is a process on this one.
        return value % 2
    if isinstance(value, list) and name in LISTS:
        return LISTS[name]()
    return refined(value)


@schemathesis.hook
def after_call(context, case, response):
    if is_wrong_method(case):
        return
    try:
        rule = response.json()["error_description"] if response.status_code >= 400 else ""
    except (ValueError, KeyError, TypeError):
        rule = "(no rule)"
    is_positive = bool(case.meta) and case.meta.generation.mode == GenerationMode.POSITIVE
    line = {"operation": case.operation.label, "status": response.status_code, "valid": is_positive, "rule": rule}
    journal.write(json.dumps(line) + "\n")
