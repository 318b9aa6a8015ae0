"""A volume driver that keeps nothing but says yes."""
from cinder.volume import driver


class RigVolumeDriver(driver.BaseVD):
    VERSION = '1.0'
    CI_WIKI_NAME = 'regent-rig'
    SUPPORTED = True

    def do_setup(self, context):
        pass

    def check_for_setup_error(self):
        pass

    def _update_volume_stats(self):
        self._stats = {
            'volume_backend_name': self.configuration.safe_get(
                'volume_backend_name') or 'rig',
            'vendor_name': 'regent-rig', 'driver_version': self.VERSION,
            'storage_protocol': 'iSCSI', 'multiattach': True,
            'pools': [{'pool_name': 'rig', 'total_capacity_gb': 1000000,
                       'free_capacity_gb': 1000000,
                       'provisioned_capacity_gb': 0,
                       'reserved_percentage': 0,
                       'max_over_subscription_ratio': 20.0,
                       'thin_provisioning_support': True,
                       'multiattach': True, 'QoS_support': False}]}

    def get_volume_stats(self, refresh=False):
        if refresh or not getattr(self, '_stats', None):
            self._update_volume_stats()
        return self._stats

    def create_volume(self, volume):
        return {}

    def delete_volume(self, volume):
        pass

    def create_snapshot(self, snapshot):
        return {}

    def delete_snapshot(self, snapshot):
        pass

    def create_volume_from_snapshot(self, volume, snapshot):
        return {}

    def create_cloned_volume(self, volume, src_vref):
        return {}

    def revert_to_snapshot(self, context, volume, snapshot):
        pass

    def extend_volume(self, volume, new_size):
        pass

    def clone_image(self, context, volume, image_location, image_meta,
                    image_service):
        return {}, True

    def copy_image_to_volume(self, context, volume, image_service, image_id,
                             disable_sparse=False):
        pass

    def copy_volume_to_image(self, context, volume, image_service,
                             image_meta):
        import io
        image_service.update(context, image_meta['id'], {},
                             io.BytesIO(b'\0' * 65536))

    def ensure_export(self, context, volume):
        pass

    def create_export(self, context, volume, connector):
        pass

    def remove_export(self, context, volume):
        pass

    def initialize_connection(self, volume, connector, **kwargs):
        return {'driver_volume_type': 'iscsi',
                'data': {'target_discovered': False, 'target_lun': 1,
                         'target_iqn': 'iqn.2010-10.org.openstack:volume-%s'
                                       % volume['id'],
                         'target_portal': '127.0.0.1:3260',
                         'volume_id': volume['id'], 'discard': False}}

    def terminate_connection(self, volume, connector, **kwargs):
        pass

    def create_group(self, context, group):
        return {'status': 'available'}

    def retype(self, context, volume, new_type, diff, host):
        return True, None

    def update_migrated_volume(self, ctxt, volume, new_volume,
                               original_volume_status):
        return {}
