//! Drivers that come and go, and what others say of volumes that they attach.

use super::*;
use crate::{catalogue, csi::News};
use windlass_core::ids::DriverName;

impl Drive {
    /// A driver came, came again or went.
    pub(crate) fn driver_news(&mut self, news: News) {
        match news {
            News::Registered { name, capabilities, topology } => {
                let driver = DriverName::from(&*name);
                let (stage, expand) = (capabilities.stage_unstage, capabilities.expand);
                let said = catalogue::Driver { stage, expand, topology };
                if self.drivers.get(&driver) != Some(&said) {
                    self.drivers.insert(driver.clone(), said);
                    self.apply_users_of(&name);
                }
                self.tell(Event::DriverRegistered(driver));
                self.provision_for_driver(&name);
                let _ = self.changes.send(Change::Driver { name, registered: true });
            }
            News::Unregistered { name } => {
                // What it could do it can still do when it is back, and what is staged stays so.
                self.tell(Event::DriverUnregistered(DriverName::from(&*name)));
                let _ = self.changes.send(Change::Driver { name, registered: false });
            }
            News::Refused { text } => {
                let _ = self.changes.send(Change::DriverRefused { text });
            }
        }
    }

    /// What a driver can do decides how its volumes are made.
    fn apply_users_of(&mut self, driver: &str) {
        let reference = Reference::new(crate::objects::Kind::Driver, "", driver);
        let pods = self.memory.read().unwrap_or_else(PoisonError::into_inner).users(&reference);
        self.apply_all(pods);
    }

    /// Publishes volumes of a pod again whose drivers ask for that (C-121). Those of other drivers are of the same content,
    /// whatever it is called.
    pub(crate) fn republish(&mut self, uid: &PodUid) {
        let Some(known) = self.pods.get(uid) else { return };
        let of_drivers = known.details.iter().filter(|it| it.kind == catalogue::Kind::Csi);
        let published = of_drivers.filter(|it| self.held.contains(&Place::Publish(it.volume.clone(), uid.clone())));
        for volume in published.map(|it| it.volume.clone()).collect::<Vec<_>>() {
            let renewal = self.renewals.entry((uid.clone(), volume)).or_default();
            renewal.epoch = renewal.epoch.wrapping_add(1).max(1);
        }
        self.apply(uid);
    }

    /// Tells what the attacher says of a pod's volumes.
    pub(super) fn tell_attachments(&mut self, uid: &PodUid) {
        let Some(known) = self.pods.get(uid) else { return };
        let attachments = known.details.iter().filter_map(|it| {
            let attachment = it.attachment.as_ref()?.state.clone()?;
            Some(Event::AttachmentChanged { volume: it.volume.clone(), attachment })
        });
        for event in attachments.collect::<Vec<_>>() {
            self.tell(event);
        }
    }
}
