#!/usr/bin/env python3
"""Twenty clients make servers for a while; then how long lists take.
usage: bench.py DIR SECONDS"""
import concurrent.futures as cf
import os
import statistics
import sys
import time

D = os.path.abspath(sys.argv[1])
SECS = float(sys.argv[2]) if len(sys.argv) > 2 else 60
os.environ['OS_CLIENT_CONFIG_FILE'] = D + '/clouds.yaml'
import openstack  # noqa
import requests  # noqa
c = openstack.connect(cloud='regent-admin')
tok = c.auth_token
nova = c.compute.get_endpoint()
H = {'X-Auth-Token': tok, 'OpenStack-API-Version': 'compute 2.90'}
img = c.image.find_image('tiny').id
FLAVOR = c.compute.find_flavor('m1.tiny').id
n = c.network.find_network('bench') or c.network.create_network(name='bench')
c.network.find_subnet('bench') or c.network.create_subnet(
    network_id=n.id, name='bench', ip_version=4, cidr='10.99.0.0/16')


def lat(s, path, k=100):
    out = []
    for _ in range(k):
        t = time.time()
        r = s.get(nova + path, headers=H)
        r.raise_for_status()
        out.append((time.time() - t) * 1000)
    out.sort()
    return 'median %.0f ms, p95 %.0f ms' % (statistics.median(out), out[int(k * .95)])


s0 = requests.Session()
print('GET /servers        (0 servers):', lat(s0, '/servers'))
print('GET /servers/detail (0 servers):', lat(s0, '/servers/detail'))
end = time.time() + SECS
made, errs, times = [], [], []


def one(i):
    s = requests.Session()
    while time.time() < end:
        t = time.time()
        r = s.post(nova + '/servers', headers=H, json={'server': {
            'name': 'b%d' % i, 'flavorRef': FLAVOR, 'imageRef': img, 'networks': [{'uuid': n.id}]}})
        if r.status_code != 202:
            errs.append(r.text[:200])
            continue
        sid = r.json()['server']['id']
        while True:
            st = s.get(nova + '/servers/' + sid, headers=H).json().get('server', {}).get('status')
            if st in ('ACTIVE', 'ERROR'):
                break
            time.sleep(1)
        made.append(sid)
        times.append(time.time() - t)
        if st != 'ACTIVE':
            errs.append(sid + ' ' + str(st))


t0 = time.time()
with cf.ThreadPoolExecutor(20) as ex:
    list(ex.map(one, range(20)))
el = time.time() - t0
print('%d servers ACTIVE in %.0f s with 20 in parallel = %.0f per minute; errors: %d %s' % (
    len(made) - len([e for e in errs if 'ERROR' in e]), el, len(made) / el * 60, len(errs), errs[:2]))
print('create -> ACTIVE under that load: median %.1f s, max %.1f s' % (statistics.median(times), max(times)))
print('GET /servers        (%d servers):' % len(made), lat(s0, '/servers', 40))
print('GET /servers/detail (%d servers):' % len(made), lat(s0, '/servers/detail', 20))
t = time.time()
with cf.ThreadPoolExecutor(20) as ex:
    list(ex.map(lambda i: requests.delete(nova + '/servers/' + i, headers=H), made))
while s0.get(nova + '/servers', headers=H).json()['servers']:
    time.sleep(0.5)
    if time.time() - t > 300:
        print('servers left!')
        break
print('%d deletes in %.0f s' % (len(made), time.time() - t))
t = time.time()
sid = s0.post(nova + '/servers', headers=H, json={'server': {
    'name': 'solo', 'flavorRef': FLAVOR, 'imageRef': img, 'networks': [{'uuid': n.id}]}}).json()['server']['id']
while s0.get(nova + '/servers/' + sid, headers=H).json()['server']['status'] != 'ACTIVE':
    time.sleep(0.1)
print('one server create -> ACTIVE on an idle cloud: %.1f s' % (time.time() - t))
s0.delete(nova + '/servers/' + sid, headers=H)
while s0.get(nova + '/servers', headers=H).json()['servers']:
    time.sleep(0.3)
c.network.delete_network(n.id)
