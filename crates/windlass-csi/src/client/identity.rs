//! The identity service: who the driver is.

use std::collections::BTreeMap;

use super::Driver;
use crate::proto::csi;
use crate::{CallError, PluginCapabilities, check_name};

pub(crate) const GET_PLUGIN_INFO: &str = "/csi.v1.Identity/GetPluginInfo";
const GET_PLUGIN_CAPABILITIES: &str = "/csi.v1.Identity/GetPluginCapabilities";
const PROBE: &str = "/csi.v1.Identity/Probe";

/// Who a driver says it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginInfo {
    /// Its name.
    pub name: String,
    /// Its maker's version, in words of its own.
    pub vendor_version: String,
    /// Whatever else it tells of itself.
    pub manifest: BTreeMap<String, String>,
}

impl Driver {
    /// Who the driver says it is. A name that no driver may have is a lie; whether it is the expected one is for the
    /// caller to judge.
    pub async fn plugin_info(&self) -> Result<PluginInfo, CallError> {
        let answer: csi::GetPluginInfoResponse =
            self.ask(GET_PLUGIN_INFO, csi::GetPluginInfoRequest::default()).await?;
        let csi::GetPluginInfoResponse { name, vendor_version, manifest } = answer;
        check_name(&name).map_err(|error| self.lied(GET_PLUGIN_INFO, format!("its name is {name:?}: {error}")))?;
        Ok(PluginInfo { name, vendor_version, manifest })
    }

    /// What services the driver has; asked once, like [`Driver::node_capabilities`].
    pub async fn plugin_capabilities(&self) -> Result<PluginCapabilities, CallError> {
        let ask = async {
            let answer: csi::GetPluginCapabilitiesResponse =
                self.ask(GET_PLUGIN_CAPABILITIES, csi::GetPluginCapabilitiesRequest::default()).await?;
            Ok(PluginCapabilities::from(&answer))
        };
        self.0.plugin.get_or_ask(ask).await
    }

    /// Whether the driver is ready.
    pub async fn probe(&self) -> Result<bool, CallError> {
        let answer: csi::ProbeResponse = self.ask(PROBE, csi::ProbeRequest::default()).await?;
        // One that does not say is ready.
        Ok(answer.ready.unwrap_or(true))
    }
}
