#!/usr/bin/env python3
"""Writes every configuration file.  usage: configure.py DIR PORT_BASE VENV MARIADB POLICY_DIR

Everything is written anew each time, so that a changed checkout takes effect at the next `up`; the passwords alone are made
once."""
import json
import os
import secrets
import sys

D, BASE, VENV, MARIADB, POLICY = (os.path.abspath(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:6])
ETC, STATE, LOG = (os.path.join(D, x) for x in ('etc', 'state', 'log'))
NAMES = ('keystone', 'placement', 'nova', 'neutron', 'glance', 'cinder', 'octavia', 'mariadb', 'console')
PORT = {n: BASE + i for i, n in enumerate(NAMES)}

# the passwords
sec_file = os.path.join(ETC, 'secrets')
os.makedirs(ETC, exist_ok=True)
if not os.path.exists(sec_file):
    with open(os.open(sec_file, os.O_WRONLY | os.O_CREAT, 0o600), 'w') as f:
        for k in ('DB', 'ADMIN', 'SERVICE', 'MANAGER', 'REGION'):
            f.write('%s=%s\n' % (k, secrets.token_hex(12)))
SEC = dict(l.strip().split('=', 1) for l in open(sec_file))


def url(n, path=''):
    return 'http://127.0.0.1:%d%s' % (PORT[n], path)


def db(n):
    return 'mysql+pymysql://regent:%s@127.0.0.1:%d/%s?charset=utf8' % (SEC['DB'], PORT['mariadb'], n)


def auth(user):
    return {'auth_type': 'password', 'auth_url': url('keystone', '/v3'),
            'username': user, 'password': SEC['SERVICE'],
            'project_name': 'service', 'user_domain_id': 'default',
            'project_domain_id': 'default', 'region_name': 'RegionOne'}


def token(user):
    a = auth(user)
    a.update({'www_authenticate_uri': url('keystone', '/v3'),
              'service_token_roles': 'service',
              'service_token_roles_required': 'true',
              'interface': 'internal'})
    return a


def common(svc):
    return {'debug': os.environ.get('REGENT_OPENSTACK_DEBUG', 'false'), 'use_stderr': 'true',
            'state_path': os.path.join(STATE, svc), 'transport_url': 'fake:///',
            'default_log_levels': 'amqp=WARN,neutronclient=ERROR,py.warnings=ERROR,sqlalchemy=WARN,oslo.messaging=INFO,oslo_messaging=INFO,'
                                  'iso8601=WARN,requests=WARN,urllib3=WARN,stevedore=WARN,'
                                  'keystonemiddleware=WARN,routes.middleware=WARN,'
                                  'dogpile.core.dogpile=INFO,taskflow=WARN,keystoneauth=WARN'}


def dbsec(n):
    return {'connection': db(n), 'max_pool_size': 20, 'max_overflow': 60, 'pool_timeout': 60,
            'max_retries': -1}


# Who Regent is in this cloud, once the first contents are there. Until then the placeholders stay, and match nobody.
FACTS_FILE = os.path.join(STATE, 'facts.json')
FACTS = json.load(open(FACTS_FILE)) if os.path.exists(FACTS_FILE) else {}


def write_policy(svc):
    with open(os.path.join(POLICY, svc + '.yaml')) as f:
        text = f.read()
    text = text.replace('REGENT_PROJECT_ID', FACTS.get('projectId', 'nobody'))
    text = text.replace('REGENT_USER_ID', FACTS.get('userId', 'nobody'))
    path = os.path.join(ETC, svc, 'policy.yaml')
    with open(path, 'w') as f:
        f.write(text)
    return path


def write(name, sections):
    svc = name.split('/')[0]
    path = os.path.join(ETC, name)
    os.makedirs(os.path.join(ETC, svc, 'policy.d'), exist_ok=True)
    sections = {**sections, 'oslo_policy': {'policy_file': write_policy(svc),
                                            'policy_dirs': os.path.join(ETC, svc, 'policy.d')}}
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), 'w') as f:
        for s, kv in sections.items():
            f.write('[%s]\n' % s)
            for k, v in kv.items():
                for one in (v if isinstance(v, list) else [v]):
                    f.write('%s = %s\n' % (k, one))
            f.write('\n')


for n in NAMES[:7]:
    os.makedirs(os.path.join(STATE, n), exist_ok=True)


def lock(svc):
    return {'lock_path': os.path.join(STATE, svc, 'locks')}


write('keystone/keystone.conf', {
    'DEFAULT': {'debug': 'false', 'use_stderr': 'true', 'log_dir': '',
                'max_token_size': 255, 'public_endpoint': url('keystone')},
    'database': dbsec('keystone'),
    'token': {'provider': 'fernet', 'expiration': os.environ.get('REGENT_OPENSTACK_TOKEN_SECONDS', '14400')},
    'fernet_tokens': {'key_repository': os.path.join(STATE, 'keystone', 'fernet')},
    'fernet_receipts': {'key_repository': os.path.join(STATE, 'keystone', 'fernet')},
    'credential': {'key_repository': os.path.join(STATE, 'keystone', 'credential')},
    'identity': {'password_hash_rounds': 4},
    'cache': {'enabled': 'true', 'backend': 'oslo_cache.dict', 'expiration_time': 600},
})

write('placement/placement.conf', {
    'DEFAULT': {'debug': 'false', 'use_stderr': 'true'},
    'placement_database': {**dbsec('placement')},
    'api': {'auth_strategy': 'keystone'},
    'keystone_authtoken': token('placement'),
})

write('nova/nova.conf', {
    'DEFAULT': {**common('nova'), 'host': 'regent-rig', 'my_ip': '127.0.0.1',
                'compute_driver': 'fake.RigDriver',
                'vif_plugging_is_fatal': 'false', 'vif_plugging_timeout': 0,
                'instances_path': os.path.join(STATE, 'nova', 'instances'),
                'allow_resize_to_same_host': 'true', 'max_concurrent_builds': 20, 'max_concurrent_snapshots': 10,
                'rpc_response_timeout': 120, 'osapi_compute_workers': 1,
                'instance_usage_audit': 'false', 'sync_power_state_interval': 600,
                'executor_thread_pool_size': 64},
    'api': {'auth_strategy': 'keystone'},
    'wsgi': {'api_paste_config': os.path.join(VENV, 'etc/nova/api-paste.ini')},
    'api_database': dbsec('nova_api'),
    'database': dbsec('nova'),
    'keystone_authtoken': token('nova'),
    'service_user': {**auth('nova'), 'send_service_user_token': 'true'},
    'placement': {**auth('nova'), 'valid_interfaces': 'internal'},
    'neutron': {**auth('nova'), 'valid_interfaces': 'internal', 'physnets': 'physnet1'},
    'glance': {'valid_interfaces': 'internal', 'region_name': 'RegionOne', 'num_retries': 3},
    'cinder': {**auth('nova'), 'os_region_name': 'RegionOne',
               'catalog_info': 'block-storage::internalURL'},
    'vnc': {'enabled': 'true', 'server_listen': '127.0.0.1',
            'server_proxyclient_address': '127.0.0.1',
            'novncproxy_base_url': url('console', '/vnc_auto.html')},
    'spice': {'enabled': 'true', 'html5proxy_base_url': url('console', '/spice_auto.html'),
              'server_listen': '127.0.0.1', 'server_proxyclient_address': '127.0.0.1'},
    'serial_console': {'enabled': 'true', 'base_url': 'ws://127.0.0.1:%d/' % PORT['console']},
    'quota': {'instances': 1000, 'cores': 10000, 'ram': 50000000, 'key_pairs': 1000,
              'server_groups': 1000, 'server_group_members': 1000,
              'metadata_items': 128},
    'conductor': {'workers': 1},
    'scheduler': {'workers': 1},
    'image_cache': {'manager_interval': -1},
    'oslo_concurrency': lock('nova'),
    'oslo_messaging_notifications': {'driver': 'noop'},
})

write('neutron/neutron.conf', {
    'DEFAULT': {**common('neutron'), 'core_plugin': 'ml2', 'host': 'regent-rig',
                'service_plugins': 'router,qos,segments,'
                                   'network_ip_availability,auto_allocate,port_forwarding,'
                                   'flavors,metering',
                'auth_strategy': 'keystone', 'api_paste_config':
                    os.path.join(VENV, 'etc/neutron/api-paste.ini'),
                'allow_overlapping_ips': 'true', 'max_l3_agents_per_router': 1,
                'notify_nova_on_port_status_changes': 'true',
                'notify_nova_on_port_data_changes': 'true',
                'dhcp_agent_notification': 'false', 'global_physnet_mtu': 1500,
                'rpc_workers': 0, 'api_workers': 1,
                'dns_domain': 'rig.example.'},
    'database': dbsec('neutron'),
    'keystone_authtoken': token('neutron'),
    'nova': {**auth('neutron'), 'endpoint_type': 'internal'},
    'placement': {**auth('neutron'), 'endpoint_type': 'internal'},
    'ml2': {'type_drivers': 'flat,vlan,vxlan,local', 'tenant_network_types': 'vxlan,vlan',
            'mechanism_drivers': 'regent', 'extension_drivers': 'port_security,qos,dns'},
    'ml2_type_flat': {'flat_networks': '*'},
    'ml2_type_vlan': {'network_vlan_ranges': 'physnet1:100:3999'},
    'ml2_type_vxlan': {'vni_ranges': '1:16000'},
    'securitygroup': {'enable_security_group': 'true'},
    'quotas': {'default_quota': 10000, 'quota_network': 1000, 'quota_subnet': 2000,
               'quota_port': 10000, 'quota_router': 1000, 'quota_floatingip': 1000,
               'quota_security_group': 1000, 'quota_security_group_rule': 20000},
    'oslo_concurrency': lock('neutron'),
    'oslo_messaging_notifications': {'driver': 'noop'},
})

os.makedirs(os.path.join(STATE, 'glance', 'images'), exist_ok=True)
for x in ('os_glance_staging_store', 'os_glance_tasks_store'):
    os.makedirs(os.path.join(STATE, 'glance', x), exist_ok=True)
write('glance/glance-api.conf', {
    'DEFAULT': {**{k: v for k, v in common('glance').items() if k != 'state_path'},
                'enabled_backends': 'file:file',
                'worker_self_reference_url': url('glance'),
                'enabled_import_methods': '[glance-direct,web-download]',
                'show_multiple_locations': 'false'},
    # Images are imported from this machine, at any port, and from nowhere else; by default glance refuses loopback.
    'import_filtering_opts': {'allowed_hosts': '[127.0.0.1,localhost]', 'allowed_ports': '[]'},
    'file': {'filesystem_store_datadir': os.path.join(STATE, 'glance', 'images')},
    'os_glance_staging_store': {'filesystem_store_datadir':
                                os.path.join(STATE, 'glance', 'os_glance_staging_store')},
    'os_glance_tasks_store': {'filesystem_store_datadir':
                              os.path.join(STATE, 'glance', 'os_glance_tasks_store')},
    'glance_store': {'default_backend': 'file'},
    'database': dbsec('glance'),
    'keystone_authtoken': token('glance'),
    'paste_deploy': {'flavor': 'keystone',
                     'config_file': os.path.join(VENV, 'etc/glance/glance-api-paste.ini')},
    'oslo_concurrency': lock('glance'),
    'oslo_messaging_notifications': {'driver': 'noop'},
})

write('cinder/cinder.conf', {
    'DEFAULT': {**common('cinder'), 'host': 'regent-rig', 'my_ip': '127.0.0.1',
                'enabled_backends': 'rig', 'auth_strategy': 'keystone',
                'glance_api_servers': url('glance'),
                'api_paste_config': os.path.join(VENV, 'etc/cinder/api-paste.ini'),
                'resource_query_filters_file':
                    os.path.join(VENV, 'etc/cinder/resource_filters.json'),
                'quota_volumes': 1000, 'quota_snapshots': 1000, 'quota_gigabytes': 1000000,
                'enable_force_upload': 'true', 'scheduler_driver_init_wait_time': 1, 'osapi_volume_workers': 1},
    'rig': {'volume_driver': 'regent_rig.cinder_driver.RigVolumeDriver',
            'volume_backend_name': 'rig'},
    'database': dbsec('cinder'),
    'keystone_authtoken': token('cinder'),
    'service_user': {**auth('cinder'), 'send_service_user_token': 'true'},
    'nova': {**auth('cinder'), 'interface': 'internal'},
    'coordination': {'backend_url': 'file://' + os.path.join(STATE, 'cinder', 'coordination')},
    'key_manager': {'backend': 'cinder.keymgr.conf_key_mgr.ConfKeyManager',
                    'fixed_key': '0' * 64},
    'oslo_concurrency': lock('cinder'),
    'oslo_messaging_notifications': {'driver': 'noop'},
})

# Stricter than today's defaults, and what many clouds still have: whoever is only a member may not make load balancers.
os.makedirs(os.path.join(ETC, 'octavia', 'policy.d'), exist_ok=True)
with open(os.path.join(ETC, 'octavia', 'policy.d', 'roles.yaml'), 'w') as f:
    f.write('''"load-balancer:member_and_owner": "role:load-balancer_member and rule:load-balancer:owner"
"load-balancer:observer_and_owner": "role:load-balancer_observer and rule:load-balancer:owner"
''')

certs = os.path.join(ETC, 'octavia')
write('octavia/octavia.conf', {
    'DEFAULT': {k: v for k, v in common('octavia').items() if k != 'state_path'},
    'api_settings': {'bind_host': '127.0.0.1', 'bind_port': PORT['octavia'],
                     'auth_strategy': 'keystone', 'api_base_uri': url('octavia'),
                     'enabled_provider_drivers':
                         'amphora:The Octavia Amphora driver.,octavia:alias of amphora',
                     'default_provider_driver': 'amphora',
                     'allow_tls_terminated_listeners': 'true'},
    'database': dbsec('octavia'),
    'oslo_messaging': {'topic': 'octavia_prov'},
    'keystone_authtoken': token('octavia'),
    'service_auth': auth('octavia'),
    'neutron': {**auth('octavia'), 'valid_interfaces': 'internal'},
    'nova': {'region_name': 'RegionOne'},
    'glance': {'region_name': 'RegionOne'},
    'controller_worker': {'amphora_driver': 'amphora_noop_driver',
                          'compute_driver': 'compute_noop_driver',
                          'network_driver': 'regent_network_driver',
                          'volume_driver': 'volume_noop_driver',
                          'image_driver': 'image_noop_driver',
                          'distributor_driver': 'distributor_noop_driver',
                          'loadbalancer_topology': 'SINGLE', 'workers': 1,
                          'client_ca': certs + '/ca.pem',
                          'amp_flavor_id': '1', 'amp_image_tag': 'amphora',
                          'amp_boot_network_list': '00000000-0000-0000-0000-000000000001',
                          'amp_active_retries': 5, 'amp_active_wait_sec': 1},
    'certificates': {'cert_generator': 'local_cert_generator',
                     'cert_manager': 'noop_cert_manager',
                     'ca_certificate': certs + '/ca.pem', 'ca_private_key': certs + '/ca.key',
                     'ca_private_key_passphrase': 'regent'},
    'haproxy_amphora': {'server_ca': certs + '/ca.pem', 'client_cert': certs + '/client.pem'},
    'health_manager': {'heartbeat_key': 'regent', 'bind_ip': '127.0.0.1',
                       'controller_ip_port_list': '127.0.0.1:5555'},
    'house_keeping': {'load_balancer_expiry_age': 3600},
    'task_flow': {'jobboard_enabled': 'false', 'max_workers': 5},
    'quotas': {'default_load_balancer_quota': 1000, 'default_listener_quota': 1000,
               'default_pool_quota': 1000, 'default_member_quota': 5000,
               'default_health_monitor_quota': 1000},
    'audit': {'enabled': 'false'},
    'driver_agent': {k: os.path.join(STATE, 'octavia', v) for k, v in (
        ('status_socket_path', 'status.sock'), ('stats_socket_path', 'stats.sock'),
        ('get_socket_path', 'get.sock'))},
})

with open(os.path.join(ETC, 'my.cnf'), 'w') as f:
    f.write('''[mysqld]
basedir = {m}/usr
lc-messages-dir = {m}/usr/share/mysql
plugin-dir = {m}/usr/lib/mysql/plugin
datadir = {s}/mysql
socket = m.sock
pid-file = {d}/run/mariadbd.own.pid
bind-address = 127.0.0.1
port = {p}
skip-log-bin
skip-name-resolve
character-set-server = utf8mb3
collation-server = utf8mb3_general_ci
default-storage-engine = InnoDB
innodb_buffer_pool_size = 256M
innodb_log_file_size = 96M
innodb_flush_log_at_trx_commit = 0
innodb_doublewrite = 0
innodb_flush_method = nosync
innodb_fast_shutdown = 1
innodb_autoinc_lock_mode = 2
performance_schema = OFF
max_connections = 800
table_open_cache = 2000
tmpdir = {s}
'''.format(d=D, m=MARIADB, s=STATE, p=PORT['mariadb']))

with open(os.path.join(ETC, 'ports'), 'w') as f:
    for n, p in PORT.items():
        f.write('PORT_%s=%d\n' % (n, p))

with open(os.open(os.path.join(ETC, 'my-client.cnf'), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), 'w') as f:
    f.write('[client]\nhost = 127.0.0.1\nport = %d\nuser = regent\npassword = %s\n' % (PORT['mariadb'], SEC['DB']))


def cloud(name, **auth):
    lines = ['  %s:' % name, '    region_name: RegionOne', '    identity_api_version: 3', '    auth:',
             '      auth_url: %s' % url('keystone', '/v3')]
    return '\n'.join(lines + ['      %s: %s' % kv for kv in auth.items()]) + '\n'


admin = {'username': 'admin', 'password': SEC['ADMIN'], 'user_domain_id': 'default'}
text = 'clouds:\n'
text += cloud('regent-admin', **admin, project_name='admin', project_domain_id='default')
text += cloud('regent-system', **admin, system_scope='all')
if FACTS:
    text += cloud('regent-manager', user_id=FACTS['managerId'], password=SEC['MANAGER'], domain_id=FACTS['domainId'])
    region = {'user_id': FACTS['userId'], 'password': SEC['REGION']}
    text += cloud('regent-region', **region, project_id=FACTS['projectId'])
    text += cloud('regent-region-domain', **region, domain_id=FACTS['domainId'])
    facts = {'authUrl': url('keystone', '/v3'), 'region': 'RegionOne', **FACTS, 'password': SEC['REGION']}
    with open(os.open(os.path.join(D, 'facts.json'), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), 'w') as f:
        json.dump(facts, f, indent=2, sort_keys=True)
        f.write('\n')
with open(os.open(os.path.join(D, 'clouds.yaml'), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), 'w') as f:
    f.write(text)
