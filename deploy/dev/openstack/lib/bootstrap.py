#!/usr/bin/env python3
"""The first contents of the cloud, made through its public APIs; what is there already is kept.

usage: bootstrap.py DIR [--identity | --check]"""
import json
import sys
import time

import openstack

D = sys.argv[1]
SEC = dict(line.strip().split('=', 1) for line in open(D + '/etc/secrets'))
PORT = {k[5:]: v for k, v in (line.strip().split('=', 1) for line in open(D + '/etc/ports'))}
REGION = 'RegionOne'
# Ids that never change, where the cloud lets its operator choose them.
FLAVORS = (
    # Regent takes flavors for known by ids that are UUIDs; the last one is what old clouds have.
    ('00000000-0000-4000-8000-000000000001', 'm1.tiny', 1, 512, 1, {}),
    ('00000000-0000-4000-8000-000000000002', 'm1.small', 2, 2048, 20, {}),
    ('00000000-0000-4000-8000-000000000003', 'm1.pinned', 1, 512, 1, {'resources:CUSTOM_REGENT_RIG': '1'}),
    ('00000000-0000-4000-8000-000000000099', 'm1.impossible', 5000, 4096, 1, {}),
    ('1', 'm1.numbered', 1, 512, 1, {}),
)
DEBIAN = {
    'architecture': 'x86_64', 'unikorn:os:kernel': 'linux', 'unikorn:os:family': 'debian', 'unikorn:os:distro': 'debian',
    'unikorn:virtualization': 'virtualized',
}
IMAGES = (
    ('00000000-0000-4000-8000-000000000101', 'tiny',
     {**DEBIAN, 'unikorn:os:version': '12', 'unikorn:os:codename': 'bookworm'}),
    ('00000000-0000-4000-8000-000000000102', 'tiny-next',
     {**DEBIAN, 'unikorn:os:version': '13', 'unikorn:os:codename': 'trixie'}),
    # Nothing says what it is: Regent does not offer it.
    ('00000000-0000-4000-8000-000000000103', 'plain', {}),
)
VOLUME_TYPES = (('standard', 'Spinning, and enough for most'), ('fast', 'Quick, and dear'))

c = openstack.connect(cloud='regent-admin')


def wait(what, fn, seconds=120):
    began = time.time()
    end = began + seconds
    while True:
        try:
            r = fn()
            if r:
                print('%s: ready after %.1f s' % (what, time.time() - began), flush=True)
                return r
            last = 'not yet'
        except Exception as e:
            last = e
        if time.time() > end:
            sys.exit('%s is not ready: %s' % (what, last))
        time.sleep(0.2)


def ready():
    wait('keystone', c.authorize)
    wait('nova-compute', lambda: [
        s for s in c.compute.services() if s.binary == 'nova-compute' and s.state == 'up'])
    wait('neutron', lambda: list(c.network.extensions()))
    wait('glance', lambda: list(c.image.images(limit=1)) or True)
    wait('cinder-volume', lambda: [
        s for s in c.block_storage.services() if s.binary == 'cinder-volume' and s.state == 'up'])
    wait('octavia', lambda: list(c.load_balancer.providers()))


def identity():
    idn = c.identity
    wait('keystone', c.authorize)
    # roles that Octavia has always known
    for r in ('load-balancer_member', 'load-balancer_observer', 'load-balancer_admin',
              'load-balancer_global_observer', 'load-balancer_quota_admin'):
        idn.find_role(r) or idn.create_role(name=r)
    roles = {r.name: r for r in idn.roles()}

    def user(name, secret, domain):
        return idn.find_user(name, domain_id=domain) or idn.create_user(
            name=name, password=SEC[secret], domain_id=domain)

    service = idn.find_project('service') or idn.create_project(name='service', domain_id='default')
    for name in ('placement', 'nova', 'neutron', 'glance', 'cinder', 'octavia'):
        u = user(name, 'SERVICE', 'default')
        for r in ('admin', 'service'):
            idn.assign_project_role_to_user(service, u, roles[r])

    have = {s.type: s for s in idn.services()}
    endpoints = {(e.service_id, e.interface) for e in idn.endpoints()}
    for typ, name, who, path in (
            ('placement', 'placement', 'placement', ''),
            ('compute', 'nova', 'nova', '/v2.1'),
            ('network', 'neutron', 'neutron', ''),
            ('image', 'glance', 'glance', ''),
            ('block-storage', 'cinder', 'cinder', '/v3'),
            ('volumev3', 'cinderv3', 'cinder', '/v3/$(project_id)s'),
            ('load-balancer', 'octavia', 'octavia', '')):
        s = have.get(typ) or idn.create_service(type=typ, name=name, is_enabled=True)
        for i in ('public', 'internal', 'admin'):
            if (s.id, i) not in endpoints:
                idn.create_endpoint(service_id=s.id, interface=i, region_id=REGION,
                                    url='http://127.0.0.1:%s%s' % (PORT[who], path))

    # Regent's own domain, project and user: what an operator makes for it
    domain = idn.find_domain('regent') or idn.create_domain(
        name='regent', description='What Regent manages')
    project = idn.find_project('regent-region', domain_id=domain.id) or idn.create_project(
        name='regent-region', domain_id=domain.id, description='The region user is at home here')
    region = user('regent-region', 'REGION', domain.id)
    idn.assign_domain_role_to_user(domain, region, roles['manager'])
    for r in ('member', 'manager'):
        idn.assign_project_role_to_user(project, region, roles[r])
    # somebody who has the domain alone, to compare with
    manager = user('domain-manager', 'MANAGER', domain.id)
    idn.assign_domain_role_to_user(domain, manager, roles['manager'])
    idn.assign_project_role_to_user(idn.find_project('admin'), idn.find_user('admin', domain_id='default'),
                                    roles['load-balancer_admin'])
    return {'domainId': domain.id, 'domainName': domain.name, 'projectId': project.id, 'projectName': project.name,
            'userId': region.id, 'userName': region.name, 'managerId': manager.id}


def contents():
    ready()
    net = c.network
    public = net.find_network('public') or net.create_network(
        name='public', is_router_external=True, provider_network_type='flat',
        provider_physical_network='physext', is_shared=False)
    net.find_subnet('public-subnet') or net.create_subnet(
        name='public-subnet', network_id=public.id, ip_version=4, cidr='172.24.0.0/20',
        gateway_ip='172.24.0.1', is_dhcp_enabled=False,
        allocation_pools=[{'start': '172.24.1.0', 'end': '172.24.15.250'}])

    flavors = {}
    for fid, name, vcpus, ram, disk, specs in FLAVORS:
        f = c.compute.find_flavor(name)
        if not f:
            f = c.compute.create_flavor(id=fid, name=name, vcpus=vcpus, ram=ram, disk=disk, is_public=True)
            if specs:
                c.compute.create_flavor_extra_specs(f, specs)
        flavors[name] = f.id

    images = {}
    for iid, name, properties in IMAGES:
        if not c.image.find_image(name):
            # the call itself: the SDK renames and types what it does not know
            r = c.image.post('/images', json={
                'id': iid, 'name': name, 'disk_format': 'raw', 'container_format': 'bare', 'visibility': 'public',
                'min_disk': 1, 'min_ram': 64, **properties})
            openstack.exceptions.raise_from_response(r)
            r = c.image.put('/images/%s/file' % iid, data=b'\0' * (1 << 20),
                            headers={'Content-Type': 'application/octet-stream'})
            openstack.exceptions.raise_from_response(r)
        wait('image %s' % name, lambda: c.image.get_image(iid).status == 'active')
        images[name] = iid

    types = {}
    for name, description in VOLUME_TYPES:
        t = c.block_storage.find_type(name)
        if not t:
            t = c.block_storage.create_type(name=name, description=description, is_public=True)
            c.block_storage.update_type_extra_specs(t, volume_backend_name='rig')
        types[name] = t.id
    return {'externalNetworkId': public.id, 'flavors': flavors, 'images': images, 'volumeTypes': types,
            'physicalNetwork': 'physnet1', 'vlans': '100:3999', 'host': 'regent-rig'}


if '--check' in sys.argv:
    ready()
else:
    facts = identity()
    if '--identity' not in sys.argv:
        facts.update(contents())
    with open(D + '/state/facts.json', 'w') as f:
        json.dump(facts, f, indent=2, sort_keys=True)
