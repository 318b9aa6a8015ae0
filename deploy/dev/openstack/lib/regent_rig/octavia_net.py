"""Octavia network driver: the VIP port, subnets and networks are real Neutron
objects; everything about the amphora is the in-tree no-op."""
import os

import sqlalchemy

from octavia.common import constants
from octavia.compute.drivers.noop_driver import driver as compute_noop
from octavia.network.drivers.neutron import allowed_address_pairs as aap
from octavia.network.drivers.noop_driver import driver as noop

# both no-op drivers keep their notes in a fixed file under /tmp: move it
_DB = 'sqlite:///' + os.path.join(os.environ.get('REGENT_RIG_STATE', '/tmp'),
                                  'octavia-noop.db')


def _engine(url, *args, **kwargs):
    return sqlalchemy.create_engine(_DB, *args, **kwargs)


noop.create_engine = _engine
compute_noop.create_engine = _engine


class RigNetworkDriver(noop.NoopNetworkDriver):
    _shared = None

    @property
    def real(self):
        if RigNetworkDriver._shared is None:
            RigNetworkDriver._shared = aap.AllowedAddressPairsDriver()
        return RigNetworkDriver._shared

    def allocate_vip(self, load_balancer):
        return self.real.allocate_vip(load_balancer)

    def deallocate_vip(self, vip):
        try:
            port = self.real.get_port(vip.port_id)
        except Exception:
            return
        if port.device_owner == constants.OCTAVIA_OWNER:
            self.real.delete_port(vip.port_id)

    def get_network(self, network_id, context=None):
        return self.real.get_network(network_id, context=context)

    def get_subnet(self, subnet_id, context=None):
        return self.real.get_subnet(subnet_id, context=context)

    def get_port(self, port_id, context=None):
        try:
            return self.real.get_port(port_id, context=context)
        except Exception:
            if context is not None:
                raise
            return super().get_port(port_id)

    def get_network_ip_availability(self, network):
        return self.real.get_network_ip_availability(network)

    def get_qos_policy(self, qos_policy_id, context=None):
        return self.real.get_qos_policy(qos_policy_id, context=context)
