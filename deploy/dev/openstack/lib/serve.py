#!/usr/bin/env python3
"""Runs one OpenStack project as one process: its WSGI API behind a threaded
HTTP server, and (nova, cinder, octavia) its RPC services as threads of the
same process, joined by oslo.messaging's in-memory bus (fake:///).

usage: serve.py PROJECT DIR PORT VENV"""
import os
import signal
import sys
import threading
import time

T0 = time.time()
WHO, D, PORT, VENV = sys.argv[1], os.path.abspath(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
ETC = os.path.join(D, 'etc', WHO)
STATE = os.path.join(D, 'state', WHO)
os.environ['REGENT_RIG_STATE'] = STATE
os.environ['OS_%s_CONFIG_DIR' % WHO.upper()] = ETC
os.environ['OS_%s_DISABLE_EVENTLET_PATCHING' % WHO.upper()] = 'true'


def say(msg):
    print('[rig %s +%.1fs] %s' % (WHO, time.time() - T0, msg), flush=True)


def wake_fake_bus():
    """The in-memory bus polls every 50 ms: make it wake at once instead."""
    from oslo_messaging._drivers import impl_fake as f
    cond = threading.Condition()
    deliver = f.FakeExchange.deliver_message

    def deliver_message(self, *a, **kw):
        deliver(self, *a, **kw)
        with cond:
            cond.notify_all()

    class Clock:
        time = staticmethod(time.time)

        @staticmethod
        def sleep(_):
            with cond:
                cond.wait(0.05)
    f.FakeExchange.deliver_message = deliver_message
    f.time = Clock


def keystone():
    sys.argv = ['keystone-api', '--config-file', ETC + '/keystone.conf']
    os.environ['OS_KEYSTONE_CONFIG_FILES'] = ETC + '/keystone.conf'
    from keystone.wsgi.api import application
    return application


def placement():
    sys.argv = ['placement-api']
    from placement.wsgi.api import application
    return application


def glance():
    sys.argv = ['glance-api']
    from glance.wsgi.api import application
    return application


def neutron():
    os.environ['OS_NEUTRON_CONFIG_FILES'] = 'neutron.conf'
    sys.argv = ['neutron-api']
    # plug-ins ask for 'router' by name: let that name mean ours
    from regent_rig import neutron_ml2
    neutron_ml2.l3_router_plugin.L3RouterPlugin = neutron_ml2.RigL3Plugin
    from neutron.wsgi.api import application
    return application


def nova():
    conf = ETC + '/nova.conf'
    sys.argv = ['nova-all', '--config-file', conf]
    os.environ['OS_NOVA_CONFIG_FILES'] = os.path.join(
        VENV, 'etc/nova/api-paste.ini') + ';' + conf
    from nova.wsgi.osapi_compute import application
    wake_fake_bus()
    import shlex
    import os_brick
    import os_vif
    from oslo_privsep import priv_context
    from nova.compute import rpcapi as compute_rpcapi
    from nova.conductor import rpcapi as conductor_rpcapi
    from nova import context as nova_context
    from nova.objects import host_mapping
    from nova.scheduler import rpcapi as scheduler_rpcapi
    from nova import objects
    from nova import service
    from nova import utils
    import nova.conf
    priv_context.init(root_helper=shlex.split(utils.get_root_helper()))
    objects.register_all()
    os_brick.setup(nova.conf.CONF)
    os_vif.initialize()
    # nova only loads drivers below nova.virt: put ours there
    from nova.virt import fake
    from regent_rig import nova_driver
    fake.RigDriver = nova_driver.RigDriver
    for binary, kw in (
            ('nova-conductor', {'topic': conductor_rpcapi.RPC_TOPIC}),
            ('nova-scheduler', {'topic': scheduler_rpcapi.RPC_TOPIC}),
            ('nova-compute', {'topic': compute_rpcapi.RPC_TOPIC,
                              'topic_alt': compute_rpcapi.RPC_TOPIC_ALT})):
        svc = service.Service.create(binary=binary, **kw)
        svc.start()
        say(binary + ' started')
    host_mapping.discover_hosts(nova_context.get_admin_context())
    return application


def cinder():
    sys.argv = ['cinder-all', '--config-file', ETC + '/cinder.conf']
    from cinder import monkey_patch
    monkey_patch.patch(backend='threading')
    import cinder.cmd.volume  # noqa  registers options
    from cinder.wsgi.api import application
    wake_fake_bus()
    import shlex
    import os_brick
    from oslo_config import cfg
    from oslo_privsep import priv_context
    from cinder.common import constants
    from cinder import service
    from cinder import utils
    CONF = cfg.CONF
    priv_context.init(root_helper=shlex.split(utils.get_root_helper()))
    os_brick.setup(CONF)
    sched = service.Service.create(binary='cinder-scheduler')
    sched.start()
    for backend in CONF.enabled_backends:
        CONF.register_opt(cinder.cmd.volume.host_opt, group=backend)
        vol = service.Service.create(
            host='%s@%s' % (CONF.host, backend), service_name=backend,
            binary=constants.VOLUME_BINARY, coordination=True)
        vol.start()
    say('scheduler and volume started')
    return application


def octavia_health(url):
    """What amphora heartbeats would do: enabled and ACTIVE means ONLINE."""
    import sqlalchemy as sa
    engine = sa.create_engine(url, pool_pre_ping=True, isolation_level='AUTOCOMMIT')
    live = "provisioning_status='ACTIVE' and enabled=1 and operating_status in "
    while True:
        try:
            with engine.connect() as c:
                for table in ('load_balancer', 'listener', 'pool'):
                    c.execute(sa.text("update %s set operating_status='ONLINE' where %s('OFFLINE')"
                                      % (table, live)))
                c.execute(sa.text("update member set operating_status='ONLINE' where %s"
                                  "('OFFLINE','NO_MONITOR') and pool_id in "
                                  "(select pool_id from health_monitor)" % live))
        except Exception as e:
            say('health: %r' % e)
        time.sleep(1)


def octavia():
    sys.argv = ['octavia-all', '--config-file', ETC + '/octavia.conf']
    from octavia.wsgi.api import application
    wake_fake_bus()
    from oslo_config import cfg
    from octavia.controller.queue.v2 import consumer
    worker = consumer.ConsumerService(0, cfg.CONF)
    worker.run()
    say('worker started')
    threading.Thread(target=octavia_health, args=(cfg.CONF.database.connection,),
                     daemon=True).start()
    return application


def main():
    app = {'keystone': keystone, 'placement': placement, 'glance': glance,
           'neutron': neutron, 'nova': nova, 'cinder': cinder,
           'octavia': octavia}[WHO]()
    import waitress
    say('listening on 127.0.0.1:%d' % PORT)
    # fake:/// has no broker to drain: leave at once
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    signal.signal(signal.SIGINT, lambda *_: os._exit(0))
    waitress.serve(app, host='127.0.0.1', port=PORT, threads=32,
                   connection_limit=1000, backlog=1024, ident=None,
                   channel_timeout=300, asyncore_use_poll=True,
                   max_request_body_size=1 << 40, clear_untrusted_proxy_headers=False)


try:
    main()
except BaseException:
    import traceback
    traceback.print_exc()
    sys.stderr.flush()
    os._exit(1)
