//! The services of a driver, each call led through its script.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use tonic::service::Routes;
use tonic::{Request, Response, Status, async_trait};
use windlass_csi::proto::csi;
use windlass_csi::proto::csi::controller_server::{Controller, ControllerServer};
use windlass_csi::proto::csi::identity_server::{Identity, IdentityServer};
use windlass_csi::proto::csi::node_server::{Node, NodeServer};

use super::Script;

/// All services of a driver.
pub fn routes<V: Volumes>(volumes: &Arc<V>) -> Routes {
    let driver = Driver(volumes.clone());
    Routes::new(NodeServer::new(driver.clone()))
        .add_service(IdentityServer::new(driver.clone()))
        .add_service(ControllerServer::new(driver))
}

struct Driver<V>(Arc<V>);

impl<V> Clone for Driver<V> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<Response<T>, Status>> + Send + 'a>>;

// The functions are written as `async_trait` would, which does not see what a macro makes.
macro_rules! services {
    ($($service:ident { $($method:ident $name:literal $request:ident $response:ident;)* })*) => {
        /// What a scripted driver's volumes are: the work of each call, when it is done at all. What is not said here does
        /// nothing, and is answered with a message that says nothing.
        pub trait Volumes: Send + Sync + 'static {
            /// How calls go, and which came.
            fn script(&self) -> &Script;

            $($(
                #[doc = concat!("The work of `", $name, "`.")]
                fn $method(&self, _request: csi::$request) -> Result<csi::$response, Status> {
                    Ok(csi::$response::default())
                }
            )*)*
        }

        $(
            #[async_trait]
            impl<V: Volumes> $service for Driver<V> {
                $(
                    fn $method<'a, 'b>(&'a self, request: Request<csi::$request>) -> Answer<'b, csi::$response>
                    where
                        'a: 'b,
                        Self: 'b,
                    {
                        Box::pin(async move {
                            let (headers, _, request) = request.into_parts();
                            self.0.script().act($name, &headers, || self.0.$method(request)).await
                        })
                    }
                )*
            }
        )*
    };
}

services! {
    Node {
        node_stage_volume "NodeStageVolume" NodeStageVolumeRequest NodeStageVolumeResponse;
        node_unstage_volume "NodeUnstageVolume" NodeUnstageVolumeRequest NodeUnstageVolumeResponse;
        node_publish_volume "NodePublishVolume" NodePublishVolumeRequest NodePublishVolumeResponse;
        node_unpublish_volume "NodeUnpublishVolume" NodeUnpublishVolumeRequest NodeUnpublishVolumeResponse;
        node_expand_volume "NodeExpandVolume" NodeExpandVolumeRequest NodeExpandVolumeResponse;
        node_get_volume_stats "NodeGetVolumeStats" NodeGetVolumeStatsRequest NodeGetVolumeStatsResponse;
        node_get_capabilities "NodeGetCapabilities" NodeGetCapabilitiesRequest NodeGetCapabilitiesResponse;
        node_get_info "NodeGetInfo" NodeGetInfoRequest NodeGetInfoResponse;
    }
    Identity {
        get_plugin_info "GetPluginInfo" GetPluginInfoRequest GetPluginInfoResponse;
        get_plugin_capabilities "GetPluginCapabilities" GetPluginCapabilitiesRequest GetPluginCapabilitiesResponse;
        probe "Probe" ProbeRequest ProbeResponse;
    }
    Controller {
        create_volume "CreateVolume" CreateVolumeRequest CreateVolumeResponse;
        delete_volume "DeleteVolume" DeleteVolumeRequest DeleteVolumeResponse;
        controller_publish_volume "ControllerPublishVolume" ControllerPublishVolumeRequest ControllerPublishVolumeResponse;
        controller_unpublish_volume "ControllerUnpublishVolume" ControllerUnpublishVolumeRequest ControllerUnpublishVolumeResponse;
        validate_volume_capabilities "ValidateVolumeCapabilities" ValidateVolumeCapabilitiesRequest ValidateVolumeCapabilitiesResponse;
        list_volumes "ListVolumes" ListVolumesRequest ListVolumesResponse;
        get_capacity "GetCapacity" GetCapacityRequest GetCapacityResponse;
        controller_get_capabilities "ControllerGetCapabilities" ControllerGetCapabilitiesRequest ControllerGetCapabilitiesResponse;
        controller_expand_volume "ControllerExpandVolume" ControllerExpandVolumeRequest ControllerExpandVolumeResponse;
        controller_get_volume "ControllerGetVolume" ControllerGetVolumeRequest ControllerGetVolumeResponse;
        controller_modify_volume "ControllerModifyVolume" ControllerModifyVolumeRequest ControllerModifyVolumeResponse;
    }
}
