//! `image`: the files of an image, which the container runtime mounts (P-184, E-157). Nothing is made here, so there is
//! nothing to undo.

use std::path::PathBuf;

use async_trait::async_trait;
use windlass_core::flight::Trace;

use super::{Failure, Made, Plugin, Publish, Scene, Unpublish};
use crate::catalogue::{Attributes, VolumeType};

/// Images.
pub(super) static IMAGE: VolumeType = VolumeType {
    in_pod: |it| it.image.is_some(),
    trace: Trace::Nothing,
    attributes: |_| Attributes { read_only: true, managed: false, relabel: false },
    ..VolumeType::plain("kubernetes.io/image", &Image)
};

/// The calls of [`IMAGE`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Image;

#[async_trait]
impl Plugin for Image {
    async fn publish(&self, _: &Scene, _: &Publish<'_>) -> Result<Made, Failure> {
        Ok(Made::untouched(PathBuf::new()))
    }

    async fn unpublish(&self, _: &Scene, _: &Unpublish<'_>) -> Result<(), Failure> {
        Ok(())
    }
}
