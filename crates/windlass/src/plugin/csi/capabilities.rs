//! What can and must be done with a volume of a driver.

use std::time::Duration;

use windlass_core::spec::{Attach, Capabilities, Concurrency, Identity, Refresh};

use crate::catalogue::{Attacher, Circumstances};

/// What can and must be done with a CSI volume (E-412).
///
/// A volume of the pod itself is published and nothing else (C-99). For a persistent volume the driver's object says
/// whether it is attached (C-34), and the driver itself whether it is staged and can grow. A driver that is not
/// registered is taken to be able to do all, as the kubelet does: nothing is done before it is there.
pub(super) fn of(circumstances: &Circumstances<'_>) -> Capabilities {
    let &Circumstances { origin, object, registered, attacher, republish_every, deadline } = circumstances;
    let refresh = match object.and_then(|it| it.spec.requires_republish) {
        Some(true) => Refresh::Every(republish_every),
        Some(false) | None => Refresh::Never,
    };
    // A call gives up at its deadline, and what is done around it takes a moment: only what goes on after that hangs.
    let patience = deadline.saturating_add((deadline / 4).max(Duration::from_secs(1)));
    let common = Capabilities { refresh, patience, ..Capabilities::default() };
    if origin.persistent().is_none() {
        return common;
    }
    let attach = match (object.and_then(|it| it.spec.attach_required), attacher) {
        (Some(false), _) => Attach::NotNeeded,
        (Some(true) | None, Attacher::Controller) => Attach::ByController,
        (Some(true) | None, Attacher::Node) => Attach::ByNode,
    };
    Capabilities {
        attach,
        stage: registered.is_none_or(|it| it.stage),
        block: true,
        expand: registered.is_none_or(|it| it.expand),
        identity: Identity::Shared,
        // The CSI specification asks for no more than one call per volume at a time.
        concurrency: Concurrency::Alone,
        ..common
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use k8s_openapi::api::core::v1::{
        CSIPersistentVolumeSource, CSIVolumeSource, PersistentVolume, PersistentVolumeSpec, Volume,
    };
    use k8s_openapi::api::storage::v1::{CSIDriver, CSIDriverSpec};

    use super::*;
    use crate::catalogue::{Origin, RegisteredDriver};

    fn inline() -> Volume {
        let source = CSIVolumeSource { driver: "d".into(), ..CSIVolumeSource::default() };
        Volume { name: "v".into(), csi: Some(source), ..Volume::default() }
    }

    fn persistent() -> Origin<'static> {
        let source = CSIPersistentVolumeSource { driver: "d".into(), ..CSIPersistentVolumeSource::default() };
        let spec = PersistentVolumeSpec { csi: Some(source), ..PersistentVolumeSpec::default() };
        Origin::Persistent(Arc::new(PersistentVolume { spec: Some(spec), ..PersistentVolume::default() }))
    }

    fn object(change: impl FnOnce(&mut CSIDriverSpec)) -> CSIDriver {
        let mut object = CSIDriver::default();
        change(&mut object.spec);
        object
    }

    fn circumstances<'a>(origin: &'a Origin<'a>, object: Option<&'a CSIDriver>) -> Circumstances<'a> {
        Circumstances {
            origin,
            object,
            registered: None,
            attacher: Attacher::Controller,
            republish_every: Duration::from_secs(60),
            deadline: Duration::from_secs(120),
        }
    }

    fn of(origin: &Origin<'_>, object: Option<&CSIDriver>, registered: Option<&RegisteredDriver>) -> Capabilities {
        super::of(&Circumstances { registered, ..circumstances(origin, object) })
    }

    /// E-412, C-34, C-99.
    #[test]
    fn a_csi_volume_of_a_pod_is_only_published() {
        let expected = Capabilities::default();
        assert_eq!(of(&Origin::Pod(&inline()), Some(&object(|it| it.attach_required = Some(true))), None), expected);
        let able = RegisteredDriver { stage: true, expand: true, ..RegisteredDriver::default() };
        assert_eq!(of(&Origin::Pod(&inline()), None, Some(&able)), expected);
    }

    /// E-412, C-34.
    #[test]
    fn a_persistent_csi_volume_is_attached_unless_its_driver_says_otherwise() {
        let refused = object(|it| it.attach_required = Some(false));
        assert_eq!(of(&persistent(), None, None).attach, Attach::ByController);
        assert_eq!(of(&persistent(), Some(&object(|_| ())), None).attach, Attach::ByController);
        assert_eq!(of(&persistent(), Some(&refused), None).attach, Attach::NotNeeded);
        let origin = persistent();
        let by_node = |object, deadline| {
            super::of(&Circumstances { attacher: Attacher::Node, deadline, ..circumstances(&origin, object) })
        };
        let patient = by_node(None, Duration::from_secs(8));
        assert_eq!(patient.patience, Duration::from_secs(10), "a call that gave up is no hang");
        assert_eq!(patient.attach, Attach::ByNode);
        assert_eq!(by_node(Some(&refused), Duration::ZERO).attach, Attach::NotNeeded);
    }

    #[test]
    fn what_a_registered_driver_cannot_do_is_not_asked_of_it() {
        let of = |registered: Option<(bool, bool)>| {
            let registered =
                registered.map(|(stage, expand)| RegisteredDriver { stage, expand, ..RegisteredDriver::default() });
            let capabilities = of(&persistent(), None, registered.as_ref());
            (capabilities.stage, capabilities.expand, capabilities.identity)
        };
        assert_eq!(of(None), (true, true, Identity::Shared));
        assert_eq!(of(Some((false, true))), (false, true, Identity::Shared));
        assert_eq!(of(Some((true, false))), (true, false, Identity::Shared));
    }

    /// C-40.
    #[test]
    fn a_driver_may_ask_to_be_called_again_and_again() {
        let asks = object(|it| it.requires_republish = Some(true));
        for origin in [Origin::Pod(&inline()), persistent()] {
            assert_eq!(of(&origin, Some(&asks), None).refresh, Refresh::Every(Duration::from_secs(60)));
            assert_eq!(of(&origin, None, None).refresh, Refresh::Never);
        }
    }
}
