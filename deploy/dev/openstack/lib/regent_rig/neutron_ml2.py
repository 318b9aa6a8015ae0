"""ML2 mechanism driver: binds every port at once, without any agent, and
reports it ACTIVE.  L3 plug-in: the in-tree one, floating IPs follow their
association (the L3 agent's job otherwise)."""
from neutron_lib.api.definitions import portbindings
from neutron_lib import constants as n_const
from neutron_lib import context as n_context
from neutron_lib.plugins import directory
from neutron_lib.plugins.ml2 import api

from neutron.services.l3_router import l3_router_plugin

INFRA = (n_const.DEVICE_OWNER_ROUTER_INTF, n_const.DEVICE_OWNER_ROUTER_GW)


class RigMechanismDriver(api.MechanismDriver):
    resource_provider_uuid5_namespace = None

    def initialize(self):
        self.vif_details = {portbindings.CAP_PORT_FILTER: True,
                            portbindings.OVS_HYBRID_PLUG: False,
                            portbindings.VIF_DETAILS_CONNECTIVITY:
                                portbindings.CONNECTIVITY_L2}

    @property
    def connectivity(self):
        return portbindings.CONNECTIVITY_L2

    def bind_port(self, context):
        for segment in context.segments_to_bind:
            context.set_binding(segment[api.ID], portbindings.VIF_TYPE_OVS,
                                dict(self.vif_details),
                                status=n_const.PORT_STATUS_ACTIVE)
            return

    def check_vlan_transparency(self, context):
        return True

    def _activate_infra(self, context):
        port = context.current
        if (port['device_owner'] in INFRA and
                port['status'] != n_const.PORT_STATUS_ACTIVE):
            directory.get_plugin().update_port_status(
                n_context.get_admin_context(), port['id'],
                n_const.PORT_STATUS_ACTIVE)

    def create_port_postcommit(self, context):
        self._activate_infra(context)

    def update_port_postcommit(self, context):
        self._activate_infra(context)


class RigL3Plugin(l3_router_plugin.L3RouterPlugin):

    def _sync_status(self, context, fip):
        want = (n_const.FLOATINGIP_STATUS_ACTIVE if fip.get('port_id')
                else n_const.FLOATINGIP_STATUS_DOWN)
        if fip['status'] != want:
            self.update_floatingip_status(
                n_context.get_admin_context(), fip['id'], want)
            fip['status'] = want
        return fip

    def create_floatingip(self, context, floatingip):
        return self._sync_status(
            context, super().create_floatingip(context, floatingip))

    def update_floatingip(self, context, id, floatingip):
        return self._sync_status(
            context, super().update_floatingip(context, id, floatingip))

    def disassociate_floatingips(self, context, port_id, *args, **kwargs):
        # runs inside delete_port's transaction: stay in that session
        elevated = context.elevated()
        fips = self.get_floatingips(elevated, filters={'port_id': [port_id]})
        res = super().disassociate_floatingips(context, port_id,
                                               *args, **kwargs)
        for fip in fips:
            self.update_floatingip_status(
                elevated, fip['id'], n_const.FLOATINGIP_STATUS_DOWN)
        return res
