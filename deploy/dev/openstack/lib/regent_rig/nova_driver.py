"""nova.virt.fake.FakeDriver plus what a client misses there: snapshots that
become ACTIVE images, a console log that belongs to the server, consoles with a
loopback host, instances that survive a service restart, and a resource class
of its own for servers that are pinned to a host."""
import io
import time

from nova.compute import power_state
from nova.compute import task_states
from nova.console import type as ctype
from nova import exception
from nova.image import glance
from nova.virt import fake
from nova.virt import node


class RigDriver(fake.FakeDriver):

    def get_nodenames_by_uuid(self, refresh=False):
        # the stock fake makes a new node id at every start; keep the one on disk
        return {node.get_local_node_uuid(): self.get_available_nodes()[0]}

    def get_available_resource(self, nodename):
        resources = super().get_available_resource(nodename)
        resources['uuid'] = node.get_local_node_uuid()
        return resources

    def update_provider_tree(self, provider_tree, nodename, allocations=None):
        super().update_provider_tree(provider_tree, nodename, allocations)
        inventory = dict(provider_tree.data(nodename).inventory)
        inventory['CUSTOM_REGENT_RIG'] = {
            'total': 100, 'min_unit': 1, 'max_unit': 1, 'step_size': 1,
            'reserved': 0, 'allocation_ratio': 1.0}
        provider_tree.update_inventory(nodename, inventory)

    def _adopt(self, instance):
        """Re-learn an instance after nova was restarted."""
        if instance.uuid in self.instances:
            return
        state = instance.power_state
        if state in (None, power_state.NOSTATE):
            state = power_state.RUNNING
        self.resources.claim(vcpus=instance.flavor.vcpus,
                             mem=instance.flavor.memory_mb,
                             disk=instance.flavor.root_gb)
        self.instances[instance.uuid] = fake.FakeInstance(
            instance.name, state, instance.uuid)

    def get_info(self, instance, use_cache=True):
        if (instance.uuid not in self.instances and
                instance.vm_state in ('active', 'stopped', 'paused',
                                      'suspended', 'rescued', 'resized') and
                instance.task_state is None):
            self._adopt(instance)
        return super().get_info(instance, use_cache=use_cache)

    def snapshot(self, context, instance, image_id, update_task_state):
        if instance.uuid not in self.instances:
            raise exception.InstanceNotRunning(instance_id=instance.uuid)
        update_task_state(task_state=task_states.IMAGE_PENDING_UPLOAD)
        api = glance.API()
        meta = api.get(context, image_id)
        props = {k: v for k, v in meta.get('properties', {}).items()}
        update_task_state(task_state=task_states.IMAGE_UPLOADING,
                          expected_state=task_states.IMAGE_PENDING_UPLOAD)
        api.update(context, image_id,
                   {'disk_format': 'raw', 'container_format': 'bare',
                    'name': meta['name'], 'properties': props},
                   data=io.BytesIO(b'\0' * 65536), purge_props=False)

    def get_console_output(self, context, instance):
        lines = ['[    0.000000] Linux version 6.1.0-regent-rig (fake)',
                 '[    0.000000] Command line: console=ttyS0',
                 'cloud-init[1]: instance-id %s' % instance.uuid,
                 'cloud-init[1]: booted at %s' % (
                     instance.launched_at or time.time()),
                 '', '%s login: ' % (instance.hostname or instance.name)]
        return '\n'.join(lines)

    def get_vnc_console(self, context, instance):
        return ctype.ConsoleVNC(host='127.0.0.1', port=5900)

    def get_spice_console(self, context, instance):
        return ctype.ConsoleSpice(host='127.0.0.1', port=5901, tlsPort=None)

    def get_serial_console(self, context, instance):
        return ctype.ConsoleSerial(host='127.0.0.1', port=10000)
