//! How a cloud behaves when nothing is wrong with it: how long things take, and how much of them there is.

use std::time::Duration;

use crate::model::region::SimulatedSettings;

/// Long enough that a building server is seen, short enough that nobody waits for it.
pub const BOOT_DELAY_DEFAULT: Duration = Duration::from_secs(2);

/// Long enough that a server that is going is seen, and that whoever does not wait for its end is found out.
pub const DELETION_DELAY_DEFAULT: Duration = Duration::from_millis(300);

/// Starting, stopping, rebooting: seconds on a real machine, and always asynchronous.
const POWER_DELAY: Duration = Duration::from_millis(500);

/// Few, so that it takes three servers to see the queue.
pub const BARE_METAL_HOSTS_DEFAULT: u32 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineSettings {
    /// From a server's creation, or its turn in the queue, to its first boot; and how long a rebuild takes.
    pub boot_delay: Duration,
    pub power_delay: Duration,
    /// From the order to delete a server to its absence.
    pub deletion_delay: Duration,
    pub bare_metal_hosts: u32,
    /// The cloud's own quota; absent: none.
    pub servers_max: Option<u32>,
    pub ports_max: Option<u32>,
}

impl Default for EngineSettings {
    fn default() -> Self {
        Self {
            boot_delay: BOOT_DELAY_DEFAULT,
            power_delay: POWER_DELAY,
            deletion_delay: DELETION_DELAY_DEFAULT,
            bare_metal_hosts: BARE_METAL_HOSTS_DEFAULT,
            servers_max: None,
            ports_max: None,
        }
    }
}

impl From<&SimulatedSettings> for EngineSettings {
    fn from(settings: &SimulatedSettings) -> Self {
        Self {
            boot_delay: settings.boot_delay_ms.map_or(BOOT_DELAY_DEFAULT, Duration::from_millis),
            deletion_delay: settings.deletion_delay_ms.map_or(DELETION_DELAY_DEFAULT, Duration::from_millis),
            bare_metal_hosts: settings.bare_metal_hosts.unwrap_or(BARE_METAL_HOSTS_DEFAULT),
            servers_max: settings.servers_max,
            ports_max: settings.ports_max,
            ..Self::default()
        }
    }
}
