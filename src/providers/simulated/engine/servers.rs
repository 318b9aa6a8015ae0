//! The life of a server: queue, boot, power, rebuild, resize, console.
//!
//! ```text
//!   create ─▶ (queued ─▶) building ─▶ active ◀──▶ active with a task: powering, rebooting, rebuilding, resizing
//!                            │          ▲                    │  └──▶ resized: waits to be confirmed, takes nothing else
//!                            │          └────────────────────┼────────┘
//!                            └──▶ error ◀────────────────────┘        delete, from anywhere ─▶ deleting ─▶ gone
//! ```
//!
//! Nothing runs by itself: what is due is done when the cloud is next asked, as of the moment when it was due.

use std::fmt::Write as _;
use std::time::Duration;

use jiff::Timestamp;

use super::super::call::{Answer, CloudError, Secret, ServerAction};
use super::super::catalogue;
use super::super::objects::{Becomes, Body, CloudObject, ObjectId, ObjectKind, ObjectState, Pending, ServerBody};
use super::images::GIB;
use super::later;
use super::rules::{Outcome, World};
use crate::model::ids::FlavorId;
use crate::model::server::{PowerState, ServerTask};

/// How much of a console is kept: what fits on a few screens, and into an answer.
const CONSOLE_LINES_MAX: u32 = 200;

impl World {
    /// Checks an order for a server, and gives it what only the cloud can: a beginning and, where it needs one, a
    /// physical machine or a place in the queue.
    pub(super) fn admit_server(&self, now: Timestamp, server: &mut ServerBody) -> Outcome<()> {
        let flavor = catalogue::flavor(server.flavor).ok_or_else(|| CloudError::rejected("there is no such flavor"))?;
        self.bootable(server.image, &server.project)?;
        if flavor.pinned_only && server.host.is_none() {
            return Err(CloudError::rejected("servers of this flavor must be told their host"));
        }
        self.free_port(&server.port)?;
        let known = |name: &String| self.table.has_named(ObjectKind::KeyPair, name);
        if server.key_name.as_ref().is_some_and(|name| !known(name)) {
            return Err(CloudError::rejected("there is no such key pair"));
        }
        server.life = super::super::objects::ServerLife { created: now, ..Default::default() };
        match &server.host {
            Some(host) if !self.hosts().any(|known| known == *host) => {
                return Err(CloudError::conflict("there is no such host"));
            }
            Some(host) if self.table.is_occupied(host) => {
                return Err(CloudError::conflict("the host is occupied"));
            }
            None if flavor.baremetal => {
                // Behind those who have waited longer, whatever is free.
                let free = self.hosts().find(|host| !self.table.is_occupied(host));
                server.host = free.filter(|_| self.table.first_queued().is_none());
                server.life.queued = server.host.is_none();
            }
            _ => {}
        }
        Ok(())
    }

    /// A port takes one server or load balancer only, so that of two orders for one the second is refused.
    pub(super) fn free_port(&self, id: &ObjectId) -> Outcome<()> {
        let port = self.table.get(ObjectKind::Port, id);
        if port.is_none_or(|port| port.state != ObjectState::Active) {
            return Err(CloudError::conflict("the port cannot be used"));
        }
        if !self.table.users_of(id).is_empty() || self.table.has_inside(ObjectKind::LoadBalancer, id) {
            return Err(CloudError::conflict("the port is taken already"));
        }
        Ok(())
    }

    fn hosts(&self) -> impl Iterator<Item = String> + use<> {
        (1..=self.settings.bare_metal_hosts).map(catalogue::host)
    }

    pub(super) fn boot(&self, from: Timestamp) -> Pending {
        until(from, self.settings.boot_delay, Becomes::Active)
    }

    /// Orders the end of a server, a load balancer or a volume. A port stays.
    pub(super) fn begin_deletion(&mut self, now: Timestamp, id: &ObjectId) -> Outcome<()> {
        let pending = until(now, self.settings.deletion_delay, Becomes::Gone);
        self.alter(now, id, |object| {
            object.state = ObjectState::Deleting;
            object.pending = Some(pending);
        })
    }

    /// Gives machines that have become free to those who have waited longest.
    pub(super) fn serve_queue(&mut self, now: Timestamp) {
        while let Some(id) = self.table.first_queued().cloned() {
            let Some(host) = self.hosts().find(|host| !self.table.is_occupied(host)) else { return };
            let pending = self.boot(now);
            let Some(object) = self.table.get(ObjectKind::Server, &id) else { return };
            let mut object = object.clone();
            object.pending = Some(pending);
            if let Body::Server(server) = &mut object.body {
                server.life.queued = false;
                server.host = Some(host);
            }
            self.table.put(now, object);
        }
    }

    /// Finishes what is due, in the order in which it became so. There may be more machines than there were, too.
    pub fn settle(&mut self, now: Timestamp) {
        self.serve_queue(now);
        while let Some(id) = self.table.first_due(now).cloned() {
            self.finish(now, &id);
        }
    }

    /// Finishes what an object waits for, as of when it was due or, if it was not, as of now.
    pub fn finish(&mut self, now: Timestamp, id: &ObjectId) {
        let Ok(object) = self.by_id(id) else { return };
        let mut object = object.clone();
        let Some(pending) = object.pending.take() else { return };
        let at = pending.until.filter(|until| *until <= now).unwrap_or(now);
        match pending.becomes {
            Becomes::Gone => return self.remove_with_parts(at, object.kind(), id),
            Becomes::Error => fail(&mut object),
            Becomes::Active => complete(&mut object, at),
        }
        self.table.put(at, object);
    }

    pub(super) fn act(&mut self, now: Timestamp, id: &ObjectId, action: ServerAction, fails: bool) -> Outcome {
        let mut object = self.existing(ObjectKind::Server, id)?.clone();
        if action == ServerAction::ConfirmResize {
            return self.confirm_resize(now, object);
        }
        // That it is busy is said first: an order that comes twice is in conflict with itself, and not wrong.
        let task = allowed(&object, action)?;
        let server = object.server().ok_or(CloudError::NotFound)?;
        let delay = match action {
            ServerAction::Rebuild { image } => {
                self.bootable(image, &server.project)?;
                self.settings.boot_delay
            }
            ServerAction::Resize { flavor } => {
                self.resizable(server, flavor)?;
                self.settings.boot_delay
            }
            _ => self.settings.power_delay,
        };
        object.state = ObjectState::Active;
        object.pending = Some(until(now, delay, if fails { Becomes::Error } else { Becomes::Active }));
        if let Body::Server(server) = &mut object.body {
            server.life.task = Some(task);
            match action {
                ServerAction::Rebuild { image } => server.image = image,
                ServerAction::Resize { flavor } => server.flavor = flavor,
                _ => {}
            }
        }
        self.table.put(now, object);
        Ok(Answer::Done)
    }

    /// What will not fit, however often it is asked for.
    fn resizable(&self, server: &ServerBody, flavor: FlavorId) -> Outcome<()> {
        let known = |id| catalogue::flavor(id).ok_or_else(|| CloudError::rejected("there is no such flavor"));
        let (old, new) = (known(server.flavor)?, known(flavor)?);
        let image_bytes = self.size_gib(server.image).map_or(0, |size_gib| u64::from(size_gib) * GIB);
        let wrong = if old.id == new.id {
            "the server has this flavor already"
        } else if old.baremetal || new.baremetal {
            "physical machines are not resized"
        } else if new.pinned_only && server.host.is_none() {
            "servers of this flavor must be told their host"
        } else if new.disk_bytes < old.disk_bytes {
            "a disk does not shrink"
        } else if new.disk_bytes < image_bytes {
            "the image does not fit"
        } else {
            return Ok(());
        };
        Err(CloudError::rejected(wrong))
    }

    /// At once: what was kept aside of the old machine is dropped.
    fn confirm_resize(&mut self, now: Timestamp, mut object: CloudObject) -> Outcome {
        match &mut object.body {
            Body::Server(server) if server.life.awaits_confirmation && object.state == ObjectState::Active => {
                server.life.awaits_confirmation = false;
            }
            _ => return Err(CloudError::conflict("there is nothing to confirm")),
        }
        self.table.put(now, object);
        Ok(Answer::Done)
    }

    /// Only what runs has a console.
    fn with_console(&self, id: &ObjectId) -> Outcome<(&CloudObject, &ServerBody)> {
        let object = self.existing(ObjectKind::Server, id)?;
        let server = object.server().filter(|server| server.life.launched.is_some());
        let server = server.filter(|_| object.state != ObjectState::Deleting);
        Ok((object, server.ok_or_else(|| CloudError::conflict("the server has no console yet"))?))
    }

    pub(super) fn open_console(&mut self, id: &ObjectId) -> Outcome {
        let (_, server) = self.with_console(id)?;
        if server.life.power != PowerState::Running {
            return Err(CloudError::conflict("the server does not run"));
        }
        let token = self.random.u128(..);
        Ok(Answer::Console { address: Secret(format!("https://console.simulated.invalid/{id}?token={token:032x}")) })
    }

    pub(super) fn read_console(&self, id: &ObjectId, lines: Option<u32>) -> Outcome {
        let (object, server) = self.with_console(id)?;
        let shown = lines.unwrap_or(CONSOLE_LINES_MAX).min(CONSOLE_LINES_MAX);
        let all = console_lines(object, server);
        let skipped = all.len().saturating_sub(usize::try_from(shown).unwrap_or(usize::MAX));
        let text = all.iter().skip(skipped).fold(String::new(), |mut text, line| {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{line}");
            text
        });
        Ok(Answer::Shown { text: Secret(text) })
    }
}

pub(super) fn until(from: Timestamp, delay: Duration, becomes: Becomes) -> Pending {
    Pending { becomes, until: Some(later(from, delay)) }
}

/// What the cloud does on an action, if the server's state allows it.
fn allowed(object: &CloudObject, action: ServerAction) -> Outcome<ServerTask> {
    let refused = || Err(CloudError::conflict("the server's state does not allow it"));
    let Some(server) = object.server() else { return refused() };
    let errored = match object.state {
        ObjectState::Building | ObjectState::Deleting => return refused(),
        _ if server.life.task.is_some() => return refused(),
        ObjectState::Error => true,
        ObjectState::Active if server.life.awaits_confirmation => return refused(),
        ObjectState::Active => false,
    };
    let runs = server.life.power == PowerState::Running;
    match action {
        ServerAction::Start if !errored && !runs => Ok(ServerTask::PoweringOn),
        ServerAction::Stop if !errored && runs => Ok(ServerTask::PoweringOff),
        ServerAction::SoftReboot if !errored && runs => Ok(ServerTask::Rebooting),
        // Also the way out of an error, for what has ever run.
        ServerAction::HardReboot if server.life.launched.is_some() => Ok(ServerTask::Rebooting),
        ServerAction::Rebuild { .. } if server.life.launched.is_some() => Ok(ServerTask::Rebuilding),
        ServerAction::Resize { .. } if !errored && server.life.launched.is_some() => Ok(ServerTask::Resizing),
        _ => refused(),
    }
}

fn fail(object: &mut CloudObject) {
    object.state = ObjectState::Error;
    match &mut object.body {
        Body::Server(server) => {
            server.life.task = None;
            server.life.queued = false;
        }
        Body::Volume(volume) => volume.task = None,
        _ => {}
    }
}

fn complete(object: &mut CloudObject, at: Timestamp) {
    let built = object.state == ObjectState::Building;
    if built {
        object.state = ObjectState::Active;
    }
    let life = match &mut object.body {
        Body::Server(server) => &mut server.life,
        Body::Volume(volume) => return super::volumes::complete(volume),
        _ => return,
    };
    if built {
        life.launched = Some(at);
        life.power = PowerState::Running;
    }
    match life.task.take() {
        Some(ServerTask::PoweringOff) => life.power = PowerState::Shutdown,
        Some(ServerTask::PoweringOn | ServerTask::Rebooting) => life.power = PowerState::Running,
        Some(ServerTask::Resizing) => life.awaits_confirmation = true,
        // Whatever was stopped stays so.
        Some(ServerTask::Rebuilding | ServerTask::Other) | None => {}
    }
}

/// What a guest might have written, from its server alone: the same each time.
fn console_lines(object: &CloudObject, server: &ServerBody) -> Vec<String> {
    let image = catalogue::image(server.image).map_or("unknown", |image| image.name.as_str());
    let steps = [
        "Linux version 6.8.0-31-generic".to_owned(),
        "Command line: BOOT_IMAGE=/vmlinuz root=LABEL=cloudimg-rootfs ro console=ttyS0".to_owned(),
        format!("Machine: simulated {}", object.id),
        "virtio_net virtio0 ens3: renamed from eth0".to_owned(),
        "EXT4-fs (vda1): mounted filesystem with ordered data mode".to_owned(),
        "systemd[1]: Reached target network-online.target".to_owned(),
        format!("cloud-init[612]: user data of {} bytes", server.user_data.as_ref().map_or(0, |data| data.length)),
        "systemd[1]: Started ssh.service - OpenBSD Secure Shell server.".to_owned(),
        format!("cloud-init[688]: finished on {image}"),
    ];
    let mut lines: Vec<String> =
        steps.iter().enumerate().map(|(number, step)| format!("[{number:5}.{:06}] {step}", number * 137)).collect();
    lines.push(format!("{} login:", object.name));
    lines
}
