"""Fuzzes a running Regent by an OpenAPI document, and demands more than the fuzzer does.

A server that knows two resources passes the fuzzer's own checks by refusing nearly everything. So besides them there must
be no answer of 500 or more, and every operation must have succeeded at least once. What was refused although the document
allows it is listed with the rule that refused it, to be read.
"""

import collections
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request

import yaml

HERE = pathlib.Path(__file__).parent

SEED = os.environ.get("REGENT_SEED", "1")
EXAMPLES = os.environ.get("REGENT_EXAMPLES", "5")

# Off, and why:
#  positive_data_acceptance      what fits the schema can still contradict itself or what it names: 400, 403, 404, 422
#  use_after_free                a GET after a DELETE shows what is being taken down
#  ensure_resource_availability  what was created may be deleted by the next request
#  response_headers_conformance, missing_required_header: the documents name no such headers
CHECKS = [
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
    "unsupported_method",
    "ignored_auth",
]

# What any operation may answer, whatever its document says of it.
ALWAYS_ALLOWED = ["405", "413", "415", "429", "503"]

START_S = 60


class Regent:
    """A server on loopback with a folder of its own."""

    def __init__(self, binary, folder):
        self.folder = folder
        self.log = open(folder / "log", "w", encoding="utf-8")  # noqa: SIM115
        data = folder / "data"
        arguments = ["serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--tenant-rate", "0"]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("REGENT_")}
        self.process = subprocess.Popen(
            [binary, *arguments, "--data-dir", str(data)],
            stdout=self.log, stderr=self.log, env={**environment, "NO_COLOR": "1"},
        )
        self.start = self._started(data / "bootstrap.json")

    def _started(self, bootstrap):
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline and self.process.poll() is None:
            if " listening " in (self.folder / "log").read_text():
                return json.loads(bootstrap.read_text())
            time.sleep(0.1)
        raise RuntimeError("Regent did not start:\n" + (self.folder / "log").read_text())

    def stop(self):
        self.process.terminate()
        return self.process.wait(START_S)


def document_of(path, url):
    """The document that was given, or the one that is served."""
    if path:
        return yaml.safe_load(pathlib.Path(path).read_text())
    with urllib.request.urlopen(url + "/openapi.json") as answer:
        return json.load(answer)


def patched(document):
    """The document with what is settled apart from it: codes that are always allowed; rule prefixes, which are networks
    and are typed as addresses in some documents; and `null` for no snapshot policies, which some clients write."""
    error = {"description": "See the list of codes that are always allowed."}
    for _, _, operation in operations(document):
        for code in ALWAYS_ALLOWED:
            operation["responses"].setdefault(code, error)
    for schema in document["components"]["schemas"].values():
        prefix = schema.get("properties", {}).get("prefix", {})
        is_address = prefix.get("$ref", "").endswith("/ipv4Address") or prefix.get("format") == "ipv4"
        if "direction" in schema.get("properties", {}) and is_address:
            schema["properties"]["prefix"] = {"type": "string", "pattern": r"^([0-9]{1,3}\.){3}[0-9]{1,3}/[0-9]{1,2}$"}
        policies = schema.get("properties", {}).get("snapshotPolicies")
        if policies and "defaultSnapshotProtectionEnabled" in schema["properties"]:
            nothing = {"enum": [None], "nullable": True}
            schema["properties"]["snapshotPolicies"] = {"anyOf": [policies, nothing]}
    return document


def operations(document):
    for path, item in document["paths"].items():
        for method, operation in item.items():
            if method in ("get", "put", "post", "delete", "patch"):
                yield method.upper(), path, operation


def is_stream(operation):
    return any("text/event-stream" in answer.get("content", {}) for answer in operation["responses"].values())


def fuzz(document, regent, journal):
    """Runs the fuzzer. It says itself what it found, with a line that repeats each request."""
    path = regent.folder / "document.json"
    # YAML reads times in examples as times.
    path.write_text(json.dumps(document, default=lambda time: time.isoformat().replace("+00:00", "Z")))
    command = [
        sys.executable, "-m", "schemathesis.cli", "run", str(path),
        "--url", regent.start["apiUrl"],
        "--header", f"Authorization: Bearer {regent.start['token']}",
        "--workers", "1", "--phases", "examples,coverage,fuzzing",
        "--checks", ",".join(CHECKS), "--max-examples", EXAMPLES, "--seed", SEED,
        "--generation-database", "none", "--suppress-health-check", "all", "--request-timeout", "40",
        "--continue-on-failure", "--no-color", "--warnings", "off",
    ]  # fmt: skip
    for method, path, operation in operations(document):
        if is_stream(operation):
            command += ["--exclude-name", f"{method} {path}"]
    environment = {
        **os.environ,
        "PYTHONPATH": str(HERE),
        "SCHEMATHESIS_HOOKS": "hooks",
        "REGENT_FUZZ_START": json.dumps(regent.start),
        "REGENT_FUZZ_JOURNAL": str(journal),
    }
    said = []
    with subprocess.Popen(
        command, env=environment, cwd=regent.folder, stdout=subprocess.PIPE, text=True, encoding="utf-8"
    ) as fuzzer:
        for line in fuzzer.stdout:
            print(line, end="", flush=True)
            said.append(line)
    return fuzzer.returncode != 0 and not is_only_dry(said)


# How many operations the fuzzer may run out of ideas for. A few of its generators draw and throw away for some seeds;
# were it many, the document would have become one that nothing can be drawn from.
DRY_MAX = 3


def is_only_dry(said):
    """Did the fuzzer fail only because it threw away too much of what it drew? What it had sent until then was checked,
    and that the operation succeeded at least once is demanded as of every other."""
    text = "".join(said)
    summary = re.search(r"^Errors:\n((?:  .+\n)+)", text, re.MULTILINE)
    lines = summary.group(1).splitlines() if summary else []
    dry = [re.fullmatch(r"\s*\S*\s*Failed Health Check: (\d+)", line) for line in lines]
    has_failures = re.search(r"^(=+ FAILURES =+|Failures:)", text, re.MULTILINE)
    return bool(dry) and all(dry) and not has_failures and sum(int(found.group(1)) for found in dry) <= DRY_MAX


def judged(document, journal):
    """What is wrong, from what was answered."""
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    wrong = [f"{line['operation']} answered {line['status']}" for line in lines if line["status"] >= 500]
    succeeded = {line["operation"] for line in lines if 200 <= line["status"] < 300}
    expected = {f"{method} {path}" for method, path, operation in operations(document) if not is_stream(operation)}
    wrong += [f"{operation} never succeeded" for operation in sorted(expected - succeeded)]
    refused = collections.Counter()
    for line in lines:
        if line["valid"] and 400 <= line["status"] < 500:
            # Where a text stands in a body, and how much of a quota there is, is not the rule.
            rule = re.sub(r"at line \d+ column \d+", "at …", line["rule"])
            rule = re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}", "<id>", rule)
            rule = re.sub(r"allocation of \d+", "allocation of …", rule)
            refused[(line["operation"], line["status"], rule)] += 1
    print("\n=== refused although the document allows it: operation, code, rule, times")
    for (operation, status, rule), count in sorted(refused.items()):
        print(f"{operation:70} {status} {rule} ({count})")
    print(f"\n=== {len(expected)} operations, {len(lines)} requests, {len(succeeded & expected)} operations succeeded")
    return wrong


def main(binary, document_path):
    folder = pathlib.Path(tempfile.mkdtemp(prefix="regent-fuzz-"))
    regent = Regent(binary, folder)
    try:
        document = patched(document_of(document_path, regent.start["apiUrl"]))
        journal = folder / "journal"
        failed = fuzz(document, regent, journal)
        wrong = judged(document, journal)
    finally:
        ended = regent.stop()
    if failed:
        wrong.append("the fuzzer found failures: see above")
    if ended:
        wrong.append(f"Regent ended with {ended}")
    for line in wrong:
        print("WRONG:", line)
    if wrong:
        print(f"The log, the journal and the document are in {folder}")
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None))
