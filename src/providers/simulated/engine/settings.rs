//! How a cloud behaves when nothing is wrong with it: how long things take, and how much of them there is.

use std::time::Duration;

use crate::model::region::SimulatedSettings;

/// Long enough that a building server is seen, short enough that nobody waits for it.
pub const BOOT_DELAY_DEFAULT: Duration = Duration::from_secs(2);

/// Long enough that a server that is going is seen, and that whoever does not wait for its end is found out.
pub const DELETION_DELAY_DEFAULT: Duration = Duration::from_millis(300);

/// Starting, stopping, rebooting: seconds on a real machine, and always asynchronous.
const POWER_DELAY: Duration = Duration::from_millis(500);

/// Long enough that an image in the making is seen.
pub const IMAGE_DELAY_DEFAULT: Duration = Duration::from_secs(1);

/// Making, attaching, detaching and enlarging a volume: long enough that each is seen.
const VOLUME_DELAY: Duration = Duration::from_millis(300);
/// A change of a load balancer: seconds on a real cloud, and always asynchronous.
pub const BALANCER_DELAY_DEFAULT: Duration = Duration::from_millis(300);
/// A share, or an export of one: seconds on a real storage system, and always asynchronous.
const STORAGE_DELAY: Duration = Duration::from_millis(400);

/// Few, so that it takes three servers to see the queue.
pub const BARE_METAL_HOSTS_DEFAULT: u32 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineSettings {
    /// From a server's creation, or its turn in the queue, to its first boot; and how long a rebuild or a resize takes.
    pub boot_delay: Duration,
    pub power_delay: Duration,
    /// From the creation of a share, or of an attachment of one, to its use.
    pub storage_delay: Duration,
    /// How long anything that is done to a volume takes.
    pub volume_delay: Duration,
    /// How long a load balancer is busy with its creation or with a change.
    pub balancer_delay: Duration,
    /// From the order to delete a server, a load balancer, a volume, a share or an attachment to its absence.
    pub deletion_delay: Duration,
    /// From an image's creation to its being ready.
    pub image_delay: Duration,
    pub bare_metal_hosts: u32,
    /// The cloud's own quota; absent: none.
    pub servers_max: Option<u32>,
    pub ports_max: Option<u32>,
    pub images_max: Option<u32>,
    pub volumes_max: Option<u32>,
}

impl Default for EngineSettings {
    fn default() -> Self {
        Self {
            boot_delay: BOOT_DELAY_DEFAULT,
            power_delay: POWER_DELAY,
            volume_delay: VOLUME_DELAY,
            balancer_delay: BALANCER_DELAY_DEFAULT,
            deletion_delay: DELETION_DELAY_DEFAULT,
            image_delay: IMAGE_DELAY_DEFAULT,
            storage_delay: STORAGE_DELAY,
            bare_metal_hosts: BARE_METAL_HOSTS_DEFAULT,
            servers_max: None,
            ports_max: None,
            images_max: None,
            volumes_max: None,
        }
    }
}

impl From<&SimulatedSettings> for EngineSettings {
    fn from(settings: &SimulatedSettings) -> Self {
        Self {
            boot_delay: settings.boot_delay_ms.map_or(BOOT_DELAY_DEFAULT, Duration::from_millis),
            deletion_delay: settings.deletion_delay_ms.map_or(DELETION_DELAY_DEFAULT, Duration::from_millis),
            image_delay: settings.image_delay_ms.map_or(IMAGE_DELAY_DEFAULT, Duration::from_millis),
            bare_metal_hosts: settings.bare_metal_hosts.unwrap_or(BARE_METAL_HOSTS_DEFAULT),
            servers_max: settings.servers_max,
            ports_max: settings.ports_max,
            images_max: settings.images_max,
            volumes_max: settings.volumes_max,
            ..Self::default()
        }
    }
}
