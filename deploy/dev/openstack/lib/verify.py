#!/usr/bin/env python3
"""Walks through the cloud: see `verify`.  usage: verify.py DIR [-v]"""
import base64
import contextlib
import http.server
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import uuid
import warnings

warnings.simplefilter('ignore')
import requests  # noqa: E402

D = sys.argv[1]
VERBOSE = '-v' in sys.argv[2:]
FACTS = json.load(open(D + '/facts.json'))
AUTH = FACTS['authUrl']
RUN = uuid.uuid4().hex[:6]
LOG = open(D + '/log/verify.log', 'w')
BAD = []
BEGAN = time.time()


def note(text):
    LOG.write(text + '\n')
    LOG.flush()
    if VERBOSE:
        print(text)


def head(text):
    LOG.write('\n### %s\n' % text)
    print('\n%s' % text, flush=True)


def step(ok, text, seconds, answer=''):
    line = '  %-6s %5.1f s  %s' % ('ok' if ok else 'WRONG', seconds, text)
    LOG.write(line + '\n')
    print(line, flush=True)
    if answer:
        note(answer)
    if not ok:
        BAD.append(text)
        if not VERBOSE and answer:
            print('\n'.join('      | ' + x for x in answer[-1200:].splitlines()))
    return ok


class Client:
    """A token, and the calls that are made with it."""
    http = requests.Session()

    def __init__(self, auth, scope=None):
        body = {'auth': {'identity': auth}}
        if scope:
            body['auth']['scope'] = scope
        r = self.http.post(AUTH + '/auth/tokens', json=body, timeout=60)
        r.raise_for_status()
        self.token = r.headers['X-Subject-Token']
        self.body = r.json()['token']
        self.project = self.body.get('project', {}).get('id')
        self.urls = {}
        for service in self.body.get('catalog', []):
            for e in service['endpoints']:
                if e['interface'] == 'public' and e['region_id'] == FACTS['region']:
                    self.urls[service['type']] = e['url'].rstrip('/')

    @classmethod
    def password(cls, user, password, scope):
        return cls({'methods': ['password'], 'password': {'user': {'id': user, 'password': password}}}, scope)

    @classmethod
    def application(cls, id, secret):
        return cls({'methods': ['application_credential'], 'application_credential': {'id': id, 'secret': secret}})

    def call(self, want, method, service, path, body=None, say=None, quiet=False, **kw):
        base = {'identity': AUTH, 'network': self.urls.get('network', '') + '/v2.0', 'image': self.urls.get('image', '') + '/v2',
                'block-storage': self.urls.get('volumev3', ''),
                'load-balancer': self.urls.get('load-balancer', '') + '/v2.0'}.get(service, self.urls.get(service))
        headers = {'X-Auth-Token': self.token, 'Accept': 'application/json', **kw.pop('headers', {})}
        if service == 'compute':
            headers['OpenStack-API-Version'] = 'compute 2.90'
        if service == 'placement':
            headers['OpenStack-API-Version'] = 'placement 1.22'
        if body is not None:
            kw['json'] = body
        t = time.time()
        r = self.http.request(method, base + path, headers=headers, timeout=60, **kw)
        ok = r.status_code in (want if isinstance(want, tuple) else (want,))
        if not quiet or not ok:
            step(ok, '%s %s %s%s: %d' % (say or service, method, path[:90], '' if ok else ' (wanted %s)' % (want,), r.status_code),
                 time.time() - t, r.text[:3000])
        try:
            return r.json()
        except ValueError:
            return {}

    def until(self, want, service, path, *fields, limit=60):
        """Polls until the field of what is at the path has the value; None: until it is gone."""
        t = time.time()
        got = None
        while time.time() - t < limit:
            r = self.call((200, 404), 'GET', service, path, quiet=True)
            got = r
            for f in fields:
                got = got.get(f) if isinstance(got, dict) else None
            if got == want or (got in ('ERROR', 'error', 'failed') and want is not None):
                break
            time.sleep(0.2)
        step(got == want, '%s becomes %s%s' % (path[:60], want or 'nothing', '' if got == want else ', but is %s' % got), time.time() - t)
        return got == want


def project_scope(id):
    return {'project': {'id': id}}


def check(ok, text, answer=''):
    step(bool(ok), text, 0.0, str(answer))


@contextlib.contextmanager
def image_server():
    """Serves a small image on this machine, for an import."""
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header('Content-Length', str(1 << 20))
            self.end_headers()
            self.wfile.write(b'\0' * (1 << 20))

        do_HEAD = do_GET

        def log_message(self, *_):
            pass
    s = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
    threading.Thread(target=s.serve_forever, daemon=True).start()
    try:
        yield 'http://127.0.0.1:%d/tiny.raw' % s.server_port
    finally:
        s.shutdown()


def key_pair(folder):
    subprocess.run(['ssh-keygen', '-q', '-t', 'ed25519', '-N', '', '-f', folder + '/k'], check=True)
    return open(folder + '/k.pub').read().strip()


# ---- as Regent -------------------------------------------------------------------------------------------------------
def as_regent(folder):
    user, password, domain = FACTS['userId'], FACTS['password'], FACTS['domainId']
    ext, vlan = FACTS['externalNetworkId'], 3000 + int(RUN, 16) % 900
    tiny, small, pinned = (FACTS['flavors'][n] for n in ('m1.tiny', 'm1.small', 'm1.pinned'))
    image, image2 = FACTS['images']['tiny'], FACTS['images']['tiny-next']
    name = 'verify-' + RUN

    head('The region user, in its domain')
    manager = Client.password(user, password, {'domain': {'id': domain}})
    region = Client.password(user, password, project_scope(FACTS['projectId']))
    roles = {r['name']: r['id'] for r in manager.call(200, 'GET', 'identity', '/roles')['roles']}
    made = manager.call(201, 'POST', 'identity', '/projects', {'project': {
        'name': name, 'domain_id': domain, 'tags': ['organization=o', 'project=p']}})['project']
    check(sorted(made.get('tags', [])) == ['organization=o', 'project=p'], 'the tags of the project are kept')
    P = made['id']
    other = manager.call(201, 'POST', 'identity', '/projects', {'project': {'name': name + '-other', 'domain_id': domain}})['project']['id']
    found = manager.call(200, 'GET', 'identity', '/projects?name=%s&domain_id=%s' % (name, domain))['projects']
    check(len(found) == 1, 'the project is found by its name')
    found = manager.call(200, 'GET', 'identity', '/projects?domain_id=%s&tags=organization%%3Do' % domain)['projects']
    check(P in [x['id'] for x in found], 'the project is found by its tag')
    for p in (P, other):
        manager.call(204, 'PUT', 'identity', '/projects/%s/users/%s/roles/%s' % (p, user, roles['manager']))
    manager.call(403, 'PUT', 'identity', '/projects/%s/users/%s/roles/%s' % (P, user, roles['admin']))
    manager.call(403, 'POST', 'identity', '/projects', {'project': {'name': name, 'domain_id': 'default'}})
    secret = str(uuid.uuid4())
    U = manager.call(201, 'POST', 'identity', '/users', {'user': {'name': name, 'domain_id': domain, 'password': secret}})['user']['id']
    manager.call(200, 'GET', 'identity', '/users?name=%s&domain_id=%s' % (name, domain))
    for r in ('member', 'load-balancer_member'):
        manager.call(204, 'PUT', 'identity', '/projects/%s/users/%s/roles/%s' % (P, U, roles[r]))
    manager.call(200, 'GET', 'identity', '/role_assignments?user.id=%s&scope.project.id=%s' % (U, P))

    head('The region user, as manager of the project: quotas')
    priv = Client.password(user, password, project_scope(P))
    lifted = {
        'compute': ('/os-quota-sets/', 'quota_set', 'instances cores ram key_pairs metadata_items server_groups server_group_members'),
        'network': ('/quotas/', 'quota', 'security_group security_group_rule floatingip network port rbac_policy router subnet subnetpool'),
        'block-storage': ('/os-quota-sets/', 'quota_set', 'volumes gigabytes snapshots backups backup_gigabytes per_volume_gigabytes groups'),
    }
    for service, (path, word, keys) in lifted.items():
        r = priv.call(200, 'PUT', service, path + P, {word: {k: -1 for k in keys.split()}})
        check(all(r.get(word, {}).get(k) == -1 for k in keys.split()), '%s: no limit any more' % service, r)
    for service in ('compute', 'block-storage'):
        priv.call(403, 'PUT', service, '/os-quota-sets/' + other, {'quota_set': {lifted[service][2].split()[0]: 1}})

    head('The principal\'s own user')
    me = Client.password(U, secret, project_scope(P))
    app = me.call(201, 'POST', 'identity', '/users/%s/application_credentials' % U, {'application_credential': {
        'name': name, 'description': 'IaaS lifecycle management', 'roles': [{'name': 'member'}, {'name': 'load-balancer_member'}]}})
    app = app['application_credential']
    me = Client.application(app['id'], app['secret'])
    check(me.project == P, 'its application credential is for the project')
    group = me.call(200, 'POST', 'compute', '/os-server-groups', {'server_group': {'name': name, 'policy': 'soft-anti-affinity'}})['server_group']['id']
    me.call((200, 201), 'POST', 'compute', '/os-keypairs', {'keypair': {'name': 'key', 'type': 'ssh', 'public_key': key_pair(folder)}})
    for service, (path, word, keys) in lifted.items():
        me.call(403, 'PUT', service, path + P, {word: {keys.split()[0]: 5}})

    head('Networks, as manager')
    body = {'network': {'name': name, 'description': 'x', 'segments': [{
        'provider:network_type': 'vlan', 'provider:physical_network': 'physnet1', 'provider:segmentation_id': vlan}]}}
    N = priv.call(201, 'POST', 'network', '/networks', body)['network']
    check(N.get('provider:segmentation_id') == vlan, 'the VLAN can be read back', N)
    N = N['id']
    priv.call(409, 'POST', 'network', '/networks', body, say='the same VLAN:')
    flat = {'network': {'name': name + '-b', 'provider:network_type': 'vlan', 'provider:physical_network': 'physnet1',
                        'provider:segmentation_id': vlan + 1}}
    N2 = priv.call(201, 'POST', 'network', '/networks', flat)['network']['id']
    me.call(403, 'POST', 'network', '/networks', {'network': {**flat['network'], 'provider:segmentation_id': vlan + 2}}, say='a member:')
    check(len(priv.call(200, 'GET', 'network', '/networks?name=' + name)['networks']) == 1, 'it is found by its name')
    check(priv.call(200, 'GET', 'network', '/networks?router:external=true')['networks'], 'the external network is seen')
    S = priv.call(201, 'POST', 'network', '/subnets', {'subnet': {
        'name': name, 'network_id': N, 'ip_version': 4, 'cidr': '10.7.0.0/24', 'gateway_ip': '10.7.0.1', 'dns_nameservers': ['192.0.2.53'],
        'allocation_pools': [{'start': '10.7.0.10', 'end': '10.7.0.200'}],
        'host_routes': [{'destination': '192.0.2.0/24', 'nexthop': '10.7.0.2'}]}})['subnet']['id']
    priv.call(200, 'PUT', 'network', '/subnets/' + S, {'subnet': {'dns_nameservers': ['192.0.2.54'], 'host_routes': []}})
    R = priv.call(201, 'POST', 'network', '/routers', {'router': {'name': name, 'external_gateway_info': {'network_id': ext}}})['router']['id']
    priv.call(200, 'PUT', 'network', '/routers/%s/add_router_interface' % R, {'subnet_id': S})
    ports = priv.call(200, 'GET', 'network', '/ports?device_id=%s&device_owner=network:router_interface' % R)['ports']
    check(len(ports) == 1, 'the interface of the router is there')
    G = priv.call(201, 'POST', 'network', '/security-groups', {'security_group': {'name': name}})['security_group']['id']
    rule = priv.call(201, 'POST', 'network', '/security-group-rules', {'security_group_rule': {
        'security_group_id': G, 'direction': 'ingress', 'ethertype': 'IPv4', 'protocol': 'tcp', 'port_range_min': 443,
        'port_range_max': 443, 'remote_ip_prefix': '192.0.2.0/24', 'description': 'x'}})['security_group_rule']['id']
    rules = priv.call(200, 'GET', 'network', '/security-group-rules?security_group_id=' + G)['security_group_rules']
    check(len(rules) == 3, 'the rule is there, beside two that each group has')
    priv.call(204, 'DELETE', 'network', '/security-group-rules/' + rule)

    head('A server, as the principal')
    port = me.call(201, 'POST', 'network', '/ports', {'port': {
        'name': name, 'network_id': N, 'security_groups': [G], 'allowed_address_pairs': [{'ip_address': '10.9.0.0/24'}]}})['port']
    me.call(200, 'PUT', 'network', '/ports/' + port['id'], {'port': {'security_groups': [G], 'allowed_address_pairs': []}})
    fip = me.call(201, 'POST', 'network', '/floatingips', {'floatingip': {'floating_network_id': ext, 'port_id': port['id']}})['floatingip']['id']
    me.call(200, 'GET', 'network', '/floatingips?port_id=' + port['id'])
    t = time.time()
    A = me.call(202, 'POST', 'compute', '/servers', {'server': {
        'name': name, 'imageRef': image, 'flavorRef': tiny, 'networks': [{'port': port['id']}], 'metadata': {'region:server_id': 'x'},
        'key_name': 'key', 'user_data': base64.b64encode(b'#cloud-config\n').decode()}})['server']['id']
    me.until('ACTIVE', 'compute', '/servers/' + A, 'server', 'status')
    note('boot took %.1f s' % (time.time() - t))
    s = me.call(200, 'GET', 'compute', '/servers/detail?name=' + name)['servers'][0]
    check(s['OS-EXT-STS:power_state'] == 1 and s['OS-SRV-USG:launched_at'] and s['image']['id'] == image, 'it runs', s)
    check([a['OS-EXT-IPS-MAC:mac_addr'] for a in s['addresses'].get(name, [])], 'its addresses are told by the name of the network', s['addresses'])

    def act(body, want='ACTIVE', code=202):
        r = me.call(code, 'POST', 'compute', '/servers/%s/action' % A, body, say=list(body)[0] + ':')
        if want:
            time.sleep(0.3)
            me.until(want, 'compute', '/servers/' + A, 'server', 'status')
        return r
    act({'os-stop': None}, 'SHUTOFF')
    act({'os-stop': None}, None, 409)
    act({'os-start': None})
    act({'reboot': {'type': 'SOFT'}})
    act({'reboot': {'type': 'HARD'}})
    check('login:' in act({'os-getConsoleOutput': {'length': 5}}, None, 200).get('output', ''), 'the console says something')
    r = me.call(200, 'POST', 'compute', '/servers/%s/remote-consoles' % A, {'remote_console': {'protocol': 'vnc', 'type': 'novnc'}})
    check('token' in r.get('remote_console', {}).get('url', ''), 'the console has an address', r)
    snap = act({'createImage': {'name': name + '-snap', 'metadata': {'unikorn:identity_id': 'x'}}}).get('image_id')
    me.until('active', 'image', '/images/' + snap, 'status')
    patch = {'headers': {'Content-Type': 'application/openstack-images-v2.1-json-patch'},
             'data': json.dumps([{'op': 'replace', 'path': '/visibility', 'value': 'public'}])}
    me.call(403, 'PATCH', 'image', '/images/' + snap, say='a member:', **patch)
    priv.call(200, 'PATCH', 'image', '/images/' + snap, **patch)
    act({'rebuild': {'imageRef': image2}}, 'ACTIVE', (200, 202))
    check(me.call(200, 'GET', 'compute', '/servers/' + A)['server']['image']['id'] == image2, 'it has the other image')
    act({'resize': {'flavorRef': small}}, 'VERIFY_RESIZE')
    act({'confirmResize': None}, 'ACTIVE', 204)
    act({'resize': {'flavorRef': tiny}}, 'VERIFY_RESIZE')
    act({'revertResize': None})
    check(me.call(200, 'GET', 'compute', '/servers/' + A)['server']['flavor']['original_name'] == 'm1.small', 'it has the other flavor')

    head('A server that is pinned to a host, as manager')
    found = priv.call(200, 'GET', 'placement', '/resource_providers?resources=CUSTOM_REGENT_RIG:1')
    check([p['name'] for p in found['resource_providers']] == [FACTS['host']], 'the host is offered', found)
    found = priv.call(200, 'GET', 'placement', '/resource_providers?resources=CUSTOM_REGENT_RIG:1&required=HW_CPU_X86_VMX')
    me.call(403, 'GET', 'placement', '/resource_providers', say='a member:')
    body = {'server': {'name': name + '-pinned', 'imageRef': image, 'flavorRef': pinned, 'networks': [{'uuid': N}],
                       'hypervisor_hostname': FACTS['host']}}
    me.call(403, 'POST', 'compute', '/servers', body, say='a member:')
    pin = priv.call(202, 'POST', 'compute', '/servers', body)['server']['id']
    priv.until('ACTIVE', 'compute', '/servers/' + pin, 'server', 'status')
    priv.call((400, 404), 'POST', 'compute', '/servers', {'server': {**body['server'], 'hypervisor_hostname': 'nowhere'}}, say='another host:')
    me.call(204, 'DELETE', 'compute', '/servers/' + pin)

    head('Volumes, as the principal')
    types = {t['name']: t['id'] for t in region.call(200, 'GET', 'block-storage', '/types')['volume_types']}
    check({'standard', 'fast'} <= set(types), 'the types are there')
    V = me.call(202, 'POST', 'block-storage', '/volumes', {'volume': {'name': name, 'size': 1, 'volume_type': types['fast']}})['volume']['id']
    me.until('available', 'block-storage', '/volumes/' + V, 'volume', 'status')
    me.call(200, 'POST', 'compute', '/servers/%s/os-volume_attachments' % A, {'volumeAttachment': {'volumeId': V}})
    me.until('in-use', 'block-storage', '/volumes/' + V, 'volume', 'status')
    me.call(202, 'DELETE', 'compute', '/servers/%s/os-volume_attachments/%s' % (A, V))
    me.until('available', 'block-storage', '/volumes/' + V, 'volume', 'status')
    me.call(202, 'POST', 'block-storage', '/volumes/%s/action' % V, {'os-extend': {'new_size': 2}})
    me.until(2, 'block-storage', '/volumes/' + V, 'volume', 'size')
    me.until('available', 'block-storage', '/volumes/' + V, 'volume', 'status')

    head('A load balancer in one call, as the principal')
    lb = {'loadbalancer': {'name': name, 'vip_subnet_id': S, 'vip_address': '10.7.0.150', 'listeners': [{
        'name': name + '-l', 'protocol': 'TCP', 'protocol_port': 80, 'allowed_cidrs': ['192.0.2.0/24'],
        'timeout_client_data': 30000, 'timeout_member_data': 30000,
        'default_pool': {'name': name + '-p', 'protocol': 'PROXYV2', 'lb_algorithm': 'ROUND_ROBIN',
                         'members': [{'address': '10.7.0.20', 'protocol_port': 80}],
                         'healthmonitor': {'name': name + '-m', 'type': 'TCP', 'delay': 5, 'timeout': 3, 'max_retries': 2, 'max_retries_down': 3}}}]}}
    manager.call(204, 'PUT', 'identity', '/projects/%s/users/%s/roles/%s' % (other, U, roles['member']))
    Client.password(U, secret, project_scope(other)).call(403, 'POST', 'load-balancer', '/lbaas/loadbalancers', {'loadbalancer': {
        'name': name, 'vip_subnet_id': S}}, say='without the role:')
    L = me.call(201, 'POST', 'load-balancer', '/lbaas/loadbalancers', lb)['loadbalancer']
    me.until('ACTIVE', 'load-balancer', '/lbaas/loadbalancers/' + L['id'], 'loadbalancer', 'provisioning_status')
    me.until('ONLINE', 'load-balancer', '/lbaas/loadbalancers/' + L['id'], 'loadbalancer', 'operating_status')
    vip = me.call(201, 'POST', 'network', '/floatingips', {'floatingip': {'floating_network_id': ext, 'port_id': L['vip_port_id']}})['floatingip']['id']
    pool = me.call(200, 'GET', 'load-balancer', '/lbaas/pools?loadbalancer_id=' + L['id'])['pools'][0]['id']
    me.call(200, 'GET', 'load-balancer', '/lbaas/listeners?loadbalancer_id=' + L['id'])
    me.call(200, 'GET', 'load-balancer', '/lbaas/healthmonitors?pool_id=' + pool)
    me.call(202, 'PUT', 'load-balancer', '/lbaas/pools/%s/members' % pool, {'members': [
        {'address': '10.7.0.21', 'protocol_port': 80}, {'address': '10.7.0.22', 'protocol_port': 80}]})
    me.until('ACTIVE', 'load-balancer', '/lbaas/loadbalancers/' + L['id'], 'loadbalancer', 'provisioning_status')
    check(len(me.call(200, 'GET', 'load-balancer', '/lbaas/pools/%s/members' % pool)['members']) == 2, 'the members are others')

    head('Images, as the region user')
    new = {'name': name, 'visibility': 'private', 'container_format': 'bare', 'disk_format': 'raw', 'min_disk': 1,
           'unikorn:os:kernel': 'linux', 'hw_disk_bus': 'scsi', 'hw_firmware_type': 'uefi', 'hw_scsi_model': 'virtio-scsi',
           'hw_machine_type': 'q35'}
    with image_server() as uri:
        W = region.call(201, 'POST', 'image', '/images', new)['id']
        region.call(202, 'POST', 'image', '/images/%s/import' % W, {'method': {'name': 'web-download', 'uri': uri}})
        region.until('active', 'image', '/images/' + W, 'status')
    Z = region.call(201, 'POST', 'image', '/images', {**new, 'name': name + '-direct'})['id']
    region.call(204, 'PUT', 'image', '/images/%s/stage' % Z, data=b'\0' * 65536, headers={'Content-Type': 'application/octet-stream'})
    region.call(202, 'POST', 'image', '/images/%s/import' % Z, {'method': {'name': 'glance-direct'}})
    region.until('active', 'image', '/images/' + Z, 'status')
    region.call(200, 'PATCH', 'image', '/images/' + W, **patch)
    check(me.call(200, 'GET', 'image', '/images?visibility=public&name=' + name)['images'], 'the public one is seen by all')
    me.call(404, 'GET', 'image', '/images/' + Z)
    region.call(200, 'PATCH', 'image', '/images/' + Z, **{**patch, 'data': patch['data'].replace('public', 'shared')})
    region.call(200, 'POST', 'image', '/images/%s/members' % Z, {'member': P})
    me.call(200, 'PUT', 'image', '/images/%s/members/%s' % (Z, P), {'status': 'accepted'})
    check(me.call(200, 'GET', 'image', '/images?visibility=shared')['images'], 'the shared one is seen by the principal')
    B = me.call(202, 'POST', 'compute', '/servers', {'server': {
        'name': name + '-shared', 'imageRef': Z, 'flavorRef': tiny, 'networks': [{'uuid': N}]}})['server']['id']
    me.until('ACTIVE', 'compute', '/servers/' + B, 'server', 'status')
    me.call(204, 'DELETE', 'compute', '/servers/' + B)

    head('Everybody\'s, in one list, as the region user in its own project')
    for service, path, word, id in (
            ('compute', '/servers?all_tenants=true', 'servers', A), ('compute', '/servers/detail?all_tenants=true', 'servers', A),
            ('network', '/networks', 'networks', N), ('network', '/subnets', 'subnets', S), ('network', '/routers', 'routers', R),
            ('network', '/ports', 'ports', port['id']), ('network', '/floatingips', 'floatingips', fip),
            ('network', '/security-groups', 'security_groups', G),
            ('load-balancer', '/lbaas/loadbalancers', 'loadbalancers', L['id']), ('load-balancer', '/lbaas/pools', 'pools', pool)):
        r = region.call(200, 'GET', service, path)
        check(id in [x['id'] for x in r.get(word, [])], '%s %s has what others own' % (service, path), r)
    seen = {x['id']: x for x in region.call(200, 'GET', 'network', '/networks')['networks']}
    check(seen.get(N, {}).get('provider:segmentation_id') == vlan, 'with the VLAN')
    r = region.call(200, 'GET', 'block-storage', '/volumes/detail?all_tenants=true')
    check(V not in [x['id'] for x in r['volumes']], 'cinder alone keeps to the project (it asks for an administrator)')
    far = Client.password(user, password, project_scope(other))
    far.call(403, 'GET', 'compute', '/servers?all_tenants=true', say='in another project:')
    check(N not in [x['id'] for x in far.call(200, 'GET', 'network', '/networks')['networks']], 'in another project, only what is there')
    region.call((403, 404), 'DELETE', 'network', '/networks/' + N2, say='seeing is not touching:')

    head('Everything goes')
    me.call(204, 'DELETE', 'network', '/floatingips/' + vip)
    me.call(204, 'DELETE', 'load-balancer', '/lbaas/loadbalancers/%s?cascade=true' % L['id'])
    me.until(None, 'load-balancer', '/lbaas/loadbalancers/' + L['id'], 'loadbalancer', 'id')
    me.call(202, 'DELETE', 'block-storage', '/volumes/' + V)
    for s in (A, B, pin):
        me.call((204, 404), 'DELETE', 'compute', '/servers/' + s)
        me.until(None, 'compute', '/servers/' + s, 'server', 'id')
    me.call(204, 'DELETE', 'network', '/floatingips/' + fip)
    # Nova leaves a port alone that it was given
    me.call(204, 'DELETE', 'network', '/ports/' + port['id'])
    priv.call(200, 'PUT', 'network', '/routers/%s/remove_router_interface' % R, {'subnet_id': S})
    for path in ('/routers/' + R, '/subnets/' + S, '/networks/' + N, '/networks/' + N2, '/security-groups/' + G):
        priv.call(204, 'DELETE', 'network', path)
    me.call(204, 'DELETE', 'image', '/images/' + snap)
    for i in (W, Z):
        region.call(204, 'DELETE', 'image', '/images/' + i)
    me.call((202, 204), 'DELETE', 'compute', '/os-keypairs/key')
    me.call(204, 'DELETE', 'compute', '/os-server-groups/' + group)
    priv.call(202, 'DELETE', 'compute', '/os-quota-sets/' + P)
    priv.call(204, 'DELETE', 'network', '/quotas/' + P)
    priv.call(200, 'DELETE', 'block-storage', '/os-quota-sets/' + P)
    me.until(None, 'block-storage', '/volumes/' + V, 'volume', 'id')
    manager.call(204, 'DELETE', 'identity', '/users/' + U)
    for p in (P, other):
        manager.call(204, 'DELETE', 'identity', '/projects/' + p)
    # Of what is gone keystone says 403 to a domain's manager, as of what is in another domain.
    for path in ('/projects/' + P, '/users/' + U):
        manager.call(403, 'DELETE', 'identity', path, say='gone:')
        manager.call(403, 'GET', 'identity', path, say='gone:')
    manager.call(404, 'PUT', 'identity', '/projects/%s/users/%s/roles/%s' % (P, U, roles['member']), say='gone:')


# ---- as a tenant, with the client ------------------------------------------------------------------------------------
class Shell:
    """The real client, each command in a process of its own that is forked from this one: to start Python and load the
    client for each would take most of the time."""

    def __init__(self, folder):
        os.environ['OS_CLIENT_CONFIG_FILE'] = self.file = folder + '/clouds.yaml'
        os.environ['COLUMNS'] = '150'
        shutil.copy(D + '/clouds.yaml', self.file)
        self.out = folder + '/out'
        import openstack.connection  # noqa: F401  loaded here, so that no command has to
        from openstackclient import shell
        self.shell = shell
        self.cloud = 'regent-admin'

    def run(self, *args):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                fd = os.open(self.out, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
                os.dup2(fd, 1)
                os.dup2(fd, 2)
                code = self.shell.main(['--os-cloud', self.cloud, *args])
            except SystemExit as e:
                code = e.code
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code if isinstance(code, int) else 1)
        _, status = os.waitpid(child, 0)
        return os.waitstatus_to_exitcode(status), open(self.out).read()

    def __call__(self, line, *more, fails=False):
        args = line.split() + list(more)
        t = time.time()
        code, out = self.run(*args)
        step((code != 0) == fails, 'openstack ' + ' '.join(args)[:110] + (' (is refused)' if fails else ''), time.time() - t, out)
        return out

    def value(self, line):
        code, out = self.run(*line.split(), '-f', 'value')
        return out.strip() if code == 0 else None

    def until(self, want, line):
        t = time.time()
        got = ''
        while time.time() - t < 60:
            got = self.value(line)
            if got == want or got in ('ERROR', 'error'):
                break
            time.sleep(0.3)
        step(got == want, 'openstack %s: %s' % (line, got), time.time() - t)


def as_tenant(folder):
    x = Shell(folder)
    name = 'tenant-' + RUN
    head('What there is')
    for line in ('versions show', 'catalog list', 'compute service list', 'hypervisor list', 'volume service list', 'network list',
                 'flavor list', 'image list', 'loadbalancer provider list'):
        x(line)
    x.cloud = 'regent-system'
    x('project list')
    head('The domain\'s manager makes a project and a user')
    x.cloud = 'regent-manager'
    x('project create --domain regent ' + name)
    x('user create --domain regent --password pw ' + name)
    for role in ('member', 'load-balancer_member'):
        x('role add --user %s --user-domain regent --project %s --project-domain regent %s' % (name, name, role))
    x('project create --domain default ' + name, fails=True)
    with open(x.file, 'a') as f:
        f.write('  tenant:\n    region_name: RegionOne\n    auth:\n      auth_url: %s\n      username: %s\n      password: pw\n'
                '      user_domain_name: regent\n      project_name: %s\n      project_domain_name: regent\n' % (AUTH, name, name))
    x.cloud = 'tenant'
    x('application credential create --secret s3cret ac')
    with open(x.file, 'a') as f:
        f.write('  app:\n    region_name: RegionOne\n    auth_type: v3applicationcredential\n    auth:\n      auth_url: %s\n'
                '      application_credential_id: %s\n      application_credential_secret: s3cret\n'
                % (AUTH, x.value('application credential show ac -c id')))
        f.write('  wrong:\n    auth:\n      auth_url: %s\n      username: %s\n      password: nonsense\n      user_domain_name: regent\n'
                '      project_name: %s\n      project_domain_name: regent\n' % (AUTH, name, name))
    x.cloud = 'app'
    x('token issue')
    head('A network')
    x('network create net')
    x('subnet create --network net --subnet-range 10.1.0.0/24 --dns-nameserver 192.0.2.53 sub')
    x('router create r')
    x('router set --external-gateway public r')
    x('router add subnet r sub')
    x('security group create sg')
    x('security group rule create --protocol tcp --dst-port 22 --remote-ip 192.0.2.0/24 sg')
    head('A server')
    os.makedirs(folder + '/t')
    key_pair(folder + '/t')
    x('keypair create --public-key %s/t/k.pub key' % folder)
    x('server create --flavor m1.tiny --image tiny --network net --security-group sg --key-name key --property a=b srv')
    x.until('ACTIVE', 'server show srv -c status')
    x('server show srv')
    x('server stop srv')
    x.until('SHUTOFF', 'server show srv -c status')
    x('server start srv')
    x.until('ACTIVE', 'server show srv -c status')
    x('console log show srv')
    x('console url show --novnc srv')
    x('floating ip create public')
    ip = x.value('floating ip list -c FloatingIPAddress') or x.value('floating ip list').split()[1]
    x('server add floating ip srv ' + ip)
    x('server image create --name snap --wait srv')
    x.until('active', 'image show snap -c status')
    head('A volume')
    x('volume create --size 1 --type fast vol')
    x.until('available', 'volume show vol -c status')
    x('server add volume srv vol')
    x.until('in-use', 'volume show vol -c status')
    x('server remove volume srv vol')
    x.until('available', 'volume show vol -c status')
    x('volume snapshot create --volume vol vs')
    x.until('available', 'volume snapshot show vs -c status')
    x('volume snapshot delete vs')
    x('volume create --size 1 --image tiny boot')
    x.until('available', 'volume show boot -c status')
    head('A load balancer')
    wait = lambda: x.until('ACTIVE', 'loadbalancer show lb -c provisioning_status')  # noqa: E731
    x('loadbalancer create --name lb --vip-subnet-id sub')
    wait()
    x('loadbalancer listener create --name li --protocol TCP --protocol-port 80 lb')
    wait()
    x('loadbalancer pool create --name po --listener li --protocol TCP --lb-algorithm ROUND_ROBIN')
    wait()
    x('loadbalancer member create --address 10.1.0.20 --protocol-port 80 --subnet-id sub po')
    wait()
    x('loadbalancer healthmonitor create --name hm --delay 5 --timeout 3 --max-retries 3 --type TCP po')
    wait()
    x('loadbalancer status show lb')
    x('loadbalancer delete --cascade lb')
    head('What goes wrong')
    x('server create --flavor m1.impossible --image tiny --network net big')
    x.until('ERROR', 'server show big -c status')
    x('server delete --wait big')
    project = x.value('token issue -c project_id')
    x.cloud = 'regent-admin'
    x('quota set --instances 1 --networks 1 --volumes 1 --force ' + project)
    x.cloud = 'app'
    x('server create --flavor m1.tiny --image tiny --network net second', fails=True)
    x('network create second', fails=True)
    x('volume create --size 1 second', fails=True)
    x('hypervisor list', fails=True)
    x('server list --all-projects', fails=True)
    x.cloud = 'wrong'
    x('token issue', fails=True)
    x.cloud = 'app'
    head('Everything goes')
    x('server delete --wait srv')
    x('server show srv', fails=True)
    x('floating ip delete ' + ip)
    x('volume delete vol boot')
    x('image delete snap')
    t = time.time()
    while x.value('loadbalancer show lb -c id') and time.time() - t < 30:
        time.sleep(0.3)
    x('loadbalancer show lb', fails=True)
    x('router remove subnet r sub')
    x('router delete r')
    x('network delete net')
    x('security group delete sg')
    x('keypair delete key')
    x.cloud = 'regent-manager'
    x('user delete --domain regent ' + name)
    x('project delete --domain regent ' + name)


with tempfile.TemporaryDirectory(dir=D + '/tmp') as folder:
    for part in (as_regent, as_tenant):
        try:
            part(folder)
        except Exception as e:
            import traceback
            step(False, '%s cannot go on: %r' % (part.__name__, e), 0.0, traceback.format_exc())
print('\n%s in %.0f s' % ('%d steps are WRONG; the answers are in %s' % (len(BAD), LOG.name) if BAD else 'all is well', time.time() - BEGAN))
sys.exit(1 if BAD else 0)
