//! Drivers that come and go, and what others say of volumes that they attach.

use std::collections::BTreeMap;

use windlass_core::Event;
use windlass_core::event::MountPlace;
use windlass_core::ids::{DriverName, PodUid, VolumeId};
use windlass_core::reason::WaitsOn;
use windlass_core::spec::Mode;
use windlass_csi::NodeCapabilities;

use super::Drive;
use crate::catalogue::{self, HeldUpBy};
use crate::csi::News;
use crate::executor;
use crate::node::Change;
use crate::objects::{ObjectKind, Reference};

impl Drive {
    /// A driver came, came again or went.
    pub(super) fn driver_news(&mut self, news: News) {
        match news {
            News::Registered { name, capabilities, topology } => {
                self.driver_said(&name, capabilities, topology);
                self.tell(Event::DriverRegistered(DriverName::from(&*name)));
                self.provision_for_driver(&name);
                self.outside.say(Change::Driver { name, registered: true });
            }
            News::Returned { name, capabilities, topology } => {
                self.driver_said(&name, capabilities, topology);
                self.tell(Event::DriverRegistered(DriverName::from(&*name)));
                self.provision_for_driver(&name);
                self.outside.say(Change::DriverBack { name });
            }
            News::Unregistered { name } => {
                // What it could do it can still do when it is back, and what is staged stays so.
                self.tell(Event::DriverUnregistered(DriverName::from(&*name)));
                self.outside.say(Change::Driver { name, registered: false });
            }
            News::Unreachable { name, refused } => {
                self.outside.say(Change::DriverUnreachable { name, refused });
            }
            News::Refused { text } => {
                self.outside.say(Change::DriverRefused { text });
            }
        }
    }

    /// What a driver can do decides how its volumes are made.
    fn driver_said(&mut self, name: &str, can: NodeCapabilities, topology: BTreeMap<String, String>) {
        let (driver, said) = (
            DriverName::from(name),
            catalogue::RegisteredDriver { stage: can.stage_unstage, expand: can.expand, topology },
        );
        if self.wishes.drivers.get(&driver) != Some(&said) {
            self.wishes.drivers.insert(driver, said);
            self.apply_users_of(name);
        }
    }

    /// Tells the owner of a pod that the driver of its volume is not there, if that is so. Nothing is tried before it is, so
    /// nobody else would tell; and that it is told once in five minutes holds for drivers that come and go too.
    pub(super) fn tell_of_missing_driver(&self, volume: &VolumeId, pod: Option<&PodUid>) {
        let Some(pod) = pod.cloned().or_else(|| self.wishes.user_of(volume)) else { return };
        let given = self.wishes.pods.get(&pod).filter(|it| it.is_to_run());
        let Some(detail) = given.and_then(|it| it.detail(volume)) else { return };
        let reasons = self.engine.explain(&pod, &detail.name);
        let missing = reasons.iter().find_map(|it| match &it.waits_on {
            WaitsOn::Driver(driver) => Some((it, driver)),
            _ => None,
        });
        let Some((reason, driver)) = missing else { return };
        let persistent = detail.persistent.as_deref();
        let name = persistent.and_then(|it| it.metadata.name.as_deref()).unwrap_or(detail.name.as_str());
        let block = persistent.and_then(|it| it.spec.as_ref()?.volume_mode.as_deref()) == Some("Block");
        let mode = if block { Mode::Block } else { Mode::Filesystem };
        // If it is the pod's mount that waits for the driver, then no other step comes before.
        let step = match reasons.first().is_some_and(|it| it == reason) {
            true => executor::publish_failed(mode),
            false => executor::stage_failed(mode),
        };
        let text = format!(
            "{step} for volume \"{name}\" : driver name {driver} not found in the list of registered CSI drivers"
        );
        self.outside.executor.scene.tell.no_answer(&pod, executor::failed_reason(mode), volume, text);
    }

    fn apply_users_of(&mut self, driver: &str) {
        let reference = Reference::new(ObjectKind::Driver, "", driver);
        let pods = self.wishes.memory().users(&reference);
        self.apply_all(pods);
    }

    /// Publishes volumes of a pod again whose drivers ask for that (C-121). Those of other drivers are of the same content,
    /// whatever it is called.
    pub(super) fn republish(&mut self, uid: &PodUid) {
        let Some(given) = self.wishes.pods.get(uid) else { return };
        let of_drivers = given.details.iter().filter(|it| it.volume_type.held_up_by == HeldUpBy::Driver);
        let published =
            of_drivers.filter(|it| self.holdings.held.contains(&MountPlace::Publish(it.volume.clone(), uid.clone())));
        for volume in published.map(|it| it.volume.clone()).collect::<Vec<_>>() {
            self.holdings.renewals.raise_epoch(uid, &volume);
        }
        self.apply(uid);
    }

    /// Tells what the attacher says of a pod's volumes.
    pub(super) fn tell_attachments(&mut self, uid: &PodUid) {
        let Some(given) = self.wishes.pods.get(uid) else { return };
        let attachments = given.details.iter().filter_map(|it| {
            let attachment = it.attachment.as_ref()?.state.clone()?;
            Some(Event::AttachmentChanged { volume: it.volume.clone(), attachment })
        });
        for event in attachments.collect::<Vec<_>>() {
            self.tell(event);
        }
    }
}
