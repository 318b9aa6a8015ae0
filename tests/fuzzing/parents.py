"""What requests must name to get anywhere: the resources that others live in.

A schema says that an id is a UUID; it does not say of what. So the rig makes one of each kind and puts its id where the
document asks for one. Two rules keep that from undermining itself: nothing that is pinned is ever deleted (a DELETE gets
something made for it), and whatever changes tenants works on an organization of its own, so that no quota and no
administrator of the organization that everything else lives in is touched.
"""

import time
import urllib.parse
import uuid

import requests

# Looked at and never fetched: the simulated cloud downloads nothing.
IMAGE_URI = "https://images.example.org/golden.raw"
PUBLIC_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl"

# What the simulated cloud offers.
FLAVOR = "11111111-1111-4111-8111-111111111111"
IMAGE = "33333333-3333-4333-8333-333333333333"
VOLUME_CLASS = "33333333-3333-4333-8333-333333333333"
STORAGE_CLASS = "cccccccc-cccc-4ccc-8ccc-cccccccccccc"

# A server boots in two seconds; nothing that is made here takes longer than a few of those.
PATIENCE_S = 60

ORGANIZATIONS = "/api/v1/organizations"
ONE_ORGANIZATION = ORGANIZATIONS + "/{organizationID}"
PROJECTS = ONE_ORGANIZATION + "/projects"
USERS = ONE_ORGANIZATION + "/users"
ALLOCATIONS = PROJECTS + "/{projectID}/allocations"
NETWORKS = "/api/v2/networks"
SECURITY_GROUPS = "/api/v2/securitygroups"
AUTHORITIES = "/api/v2/sshcertificateauthorities"
SERVERS = "/api/v2/servers"
VOLUMES = "/api/v2/volumes"
LOAD_BALANCERS = "/api/v2/loadbalancers"
FILE_STORAGE = "/api/v2/filestorage"
INSTANCES = "/api/v2/instances"
CLUSTERS = "/api/v2/clusters"
IMAGES = ONE_ORGANIZATION + "/regions/{regionID}/images"
V1_IDENTITIES = PROJECTS + "/{projectID}/identities"
V1_NETWORKS = V1_IDENTITIES + "/{identityID}/networks"
V1_SECURITY_GROUPS = V1_IDENTITIES + "/{identityID}/securitygroups"
V1_SERVERS = V1_IDENTITIES + "/{identityID}/servers"
V1_CLUSTERS = PROJECTS + "/{projectID}/clusters"


class Parents:
    """Makes what is named, once for all requests or afresh for one."""

    def __init__(self, start):
        self.url = start["apiUrl"]
        self.start = start
        self.session = requests.Session()
        self.session.headers["Authorization"] = f"Bearer {start['token']}"
        self.pinned_ids = {}
        self.bodies = {}
        self.made = 0
        self.made_of = None
        self._call("PUT", f"{ORGANIZATIONS}/{start['organizationId']}/quotas", PLENTY)

    def pinned(self, collection):
        """The id of the one that all requests share."""
        if collection not in self.pinned_ids:
            self.pinned_ids[collection] = self.fresh(collection)
            self.bodies[collection] = self.made_of
            self._settle(collection)
        return self.pinned_ids[collection]

    def fresh(self, collection):
        """The id of one that nobody else uses."""
        self.made += 1
        path = self.filled(collection, changes_tenants(collection))
        body = BODIES[collection](self, f"parent-{self.made}")
        made = self._call("POST", path, body)
        self.made_of = body
        return made["metadata"]["id"]

    def filled(self, template, throw_away):
        """The path with every parameter pinned."""
        path = template
        for prefix, name in parameters(template):
            path = path.replace("{" + name + "}", urllib.parse.quote(self.value(prefix, name, throw_away), safe=""))
        return path

    def value(self, prefix, name, throw_away):
        """What to write for the parameter `name` behind `prefix`."""
        if name == "organizationID":
            return self.pinned(ORGANIZATIONS) if throw_away else self.start["organizationId"]
        if name == "projectID":
            return self.pinned(PROJECTS) if throw_away else self.start["projectId"]
        if name == "regionID":
            return self.start["regionId"]
        if name == "reference":
            return f"things.example.org/{uuid.UUID(int=self.made)}"
        if name == "machineID":
            return self.machine()[1]
        # An image is made in a region, and asked about without one.
        return self.pinned(IMAGES if name == "imageID" else prefix)

    def read(self, path):
        return self._call("GET", path)

    def needs(self, drawn):
        """Is one of these the id of something that other requests need?"""
        needed = {*self.pinned_ids.values(), *(self.start[name] for name in ("organizationId", "projectId", "regionId"))}
        return not needed.isdisjoint(str(value) for value in drawn.values())

    def body(self, collection):
        """What the pinned one was made of."""
        self.pinned(collection)
        return self.bodies[collection]

    def ready_for(self, verb, collection):
        """Brings the pinned server to where the verb can be obeyed."""
        wanted, means = ("Stopped", "stop") if verb == "start" else ("Running", "start")
        if collection.endswith("/machines"):
            # Of a cluster's machine, the instance says it.
            path = f"{INSTANCES}/{self.machine()[1]}"
        else:
            path = f"{self.filled(collection, False)}/{self.pinned(collection)}"

        def is_there(server):
            # Asked again each time: while it reboots it refuses.
            self.session.post(f"{self.url}{path}/{means}")
            return server["status"]["powerState"] == wanted

        self._wait(path, is_there)

    def machine(self):
        """A cluster of the first version that no request changes, and its machine."""
        if "machine" not in self.pinned_ids:
            self.pinned_ids["cluster of the machine"], members = self.populated_cluster(V1_CLUSTERS)
            self.pinned_ids["machine"] = members[0]
        return self.pinned_ids["cluster of the machine"], self.pinned_ids["machine"]

    def populated_cluster(self, collection):
        """A cluster that nobody else uses, with its members."""
        made = self.fresh(collection)
        path = f"{self.filled(collection, False)}/{made}"
        self._wait(path, lambda cluster: cluster["metadata"]["provisioningStatus"] == "provisioned")
        return made, self.members(made)

    def members(self, made):
        tag = urllib.parse.quote(f"compute.unikorn-cloud.org/cluster-id={made}", safe="")
        return [member["metadata"]["id"] for member in self.read(f"{INSTANCES}?tag={tag}")]

    def _settle(self, collection):
        # Images are listed, not read one by one.
        if not changes_tenants(collection) and collection != IMAGES:
            path = f"{self.filled(collection, False)}/{self.pinned_ids[collection]}"
            self._wait(path, lambda resource: resource["metadata"]["provisioningStatus"] == "provisioned")

    def _wait(self, path, is_wanted):
        deadline = time.monotonic() + PATIENCE_S
        while not is_wanted(self.read(path)):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{path} did not come to rest: {self.read(path)}")
            time.sleep(0.1)

    def _call(self, method, path, body=None):
        answer = self.session.request(method, self.url + path, json=body, timeout=PATIENCE_S)
        if not answer.ok:
            raise RuntimeError(f"the rig could not {method} {path}: {answer.status_code} {answer.text}")
        return answer.json() if answer.content else None


def parameters(template):
    """Each parameter of a path, with the path before it."""
    parts = template.split("/")
    for index, part in enumerate(parts):
        if part.startswith("{"):
            yield "/".join(parts[:index]), part.strip("{}")


# What of an organization's paths is about regions.
REGIONAL = ("regions", "images", "identities", "networks", "securitygroups", "servers", "clusters")


def changes_tenants(template):
    """Is this about who may do what, rather than about regions?"""
    within = template.removeprefix(ONE_ORGANIZATION).split("/")
    return template.startswith(ORGANIZATIONS) and not any(part in REGIONAL for part in within)


PLENTY = {
    "quotas": [
        {"kind": kind, "quantity": 2**50}
        for kind in ("networks", "loadbalancers", "clusters", "servers", "gpus", "publicips", "filestorage", "volume")
    ]
}


def named(name, spec):
    return {"metadata": {"name": name}, "spec": spec}


def in_project(parents, **spec):
    return {"organizationId": parents.start["organizationId"], "projectId": parents.start["projectId"], **spec}


def network(parents, name):
    where = in_project(parents, regionId=parents.start["regionId"])
    return named(name, {**where, "prefix": "10.0.0.0/22", "dnsNameservers": []})


def server(parents, name):
    spec = {"networkId": parents.pinned(NETWORKS), "flavorId": FLAVOR, "imageId": IMAGE}
    return named(name, {**spec, "sshInjection": "identityKeypair"})


def volume(parents, name):
    return named(name, {"networkId": parents.pinned(NETWORKS), "volumeClassId": VOLUME_CLASS, "sizeGiB": 1})


def load_balancer(parents, name):
    listener = {"name": "web", "protocol": "tcp", "port": 80, "pool": {"members": []}}
    return named(name, {"networkId": parents.pinned(NETWORKS), "listeners": [listener]})


def file_storage(parents, name):
    where = in_project(parents, regionId=parents.start["regionId"], storageClassId=STORAGE_CLASS)
    return named(name, {**where, "sizeGiB": 1, "storageType": {"NFS": {"rootSquash": True}}})


def instance(parents, name):
    return named(name, in_project(parents, networkId=parents.pinned(NETWORKS), flavorId=FLAVOR, imageId=IMAGE))


def cluster(parents, name):
    pool = {"name": name, "replicas": 1, "flavorId": FLAVOR, "imageId": IMAGE}
    return named(name, in_project(parents, networkId=parents.pinned(NETWORKS), pools=[pool]))


def v1_cluster(parents, name):
    pool = {"name": name, "replicas": 1, "flavorId": FLAVOR, "imageId": IMAGE}
    return named(name, {"regionId": parents.start["regionId"], "workloadPools": {"pools": [pool]}})


def image(parents, name):
    system = {"kernel": "linux", "family": "debian", "distro": "ubuntu", "version": "24.04"}
    spec = {"uri": IMAGE_URI, "architecture": "x86_64", "virtualization": "virtualized", "os": system}
    return named(name, spec)


def v1_server(parents, name):
    spec = {"flavorId": FLAVOR, "imageId": IMAGE, "networks": [{"id": parents.pinned(V1_NETWORKS)}]}
    return named(name, spec)


def allocation(parents, name):
    charged = [{"kind": "clusters", "committed": 0, "reserved": 0}]
    return named(name, {"kind": "clusters.example.org", "id": name, "allocations": charged})


# A good body for each collection that something is pinned in.
BODIES = {
    ORGANIZATIONS: lambda parents, name: named(name, {"organizationType": "adhoc"}),
    PROJECTS: lambda parents, name: named(name, {"groupIDs": []}),
    ALLOCATIONS: allocation,
    ONE_ORGANIZATION + "/groups": lambda parents, name: named(name, {"roleIDs": [], "serviceAccountIDs": []}),
    USERS: lambda parents, name: {"spec": {"subject": name, "state": "active", "groupIDs": []}},
    ONE_ORGANIZATION + "/serviceaccounts": lambda parents, name: named(name, {"groupIDs": []}),
    NETWORKS: network,
    SECURITY_GROUPS: lambda parents, name: named(name, {"networkId": parents.pinned(NETWORKS), "rules": []}),
    AUTHORITIES: lambda parents, name: named(name, in_project(parents, publicKey=PUBLIC_KEY)),
    SERVERS: server,
    VOLUMES: volume,
    LOAD_BALANCERS: load_balancer,
    FILE_STORAGE: file_storage,
    INSTANCES: instance,
    CLUSTERS: cluster,
    IMAGES: image,
    V1_IDENTITIES: lambda parents, name: named(name, {"regionId": parents.start["regionId"]}),
    V1_NETWORKS: lambda parents, name: named(name, {"prefix": "10.0.0.0/22", "dnsNameservers": []}),
    V1_SECURITY_GROUPS: lambda parents, name: named(name, {"rules": []}),
    V1_SERVERS: v1_server,
    V1_CLUSTERS: v1_cluster,
}
