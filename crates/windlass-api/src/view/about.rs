//! What the server says of itself.

use serde::{Deserialize, Serialize};

use super::API_VERSION;

/// It is well.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Health {
    /// `ok`.
    #[cfg_attr(test, schemars(extend("const" = "ok")))]
    pub status: String,
}

impl Health {
    /// It is well.
    pub fn ok() -> Self {
        Self { status: "ok".into() }
    }
}

/// Which windlass it is.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Version {
    /// Its version.
    pub version: String,
    /// [`API_VERSION`].
    #[cfg_attr(test, schemars(extend("const" = API_VERSION)))]
    pub api_version: String,
}

/// What can be asked for.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "APIResourceList"))]
#[serde(rename_all = "camelCase")]
pub struct ApiResourceList {
    /// [`API_VERSION`].
    #[cfg_attr(test, schemars(extend("const" = API_VERSION)))]
    pub api_version: String,
    /// `APIResourceList`.
    #[cfg_attr(test, schemars(extend("const" = "APIResourceList")))]
    pub kind: String,
    /// [`API_VERSION`].
    #[cfg_attr(test, schemars(extend("const" = API_VERSION)))]
    pub group_version: String,
    /// The kinds of objects.
    pub resources: Vec<ApiResource>,
}

impl ApiResourceList {
    /// These kinds of objects.
    pub fn new(resources: Vec<ApiResource>) -> Self {
        let (api_version, group_version) = (API_VERSION.into(), API_VERSION.into());
        Self { api_version, kind: "APIResourceList".into(), group_version, resources }
    }
}

/// A kind of object that can be asked for.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(rename = "APIResource"))]
pub struct ApiResource {
    /// How it is called in a path.
    pub name: String,
    /// What its objects say they are.
    pub kind: String,
    /// Whether it lives in a namespace.
    pub namespaced: bool,
    /// What can be done with it.
    #[cfg_attr(test, schemars(extend("items" = {"enum": ["get", "list", "watch", "delete"]})))]
    pub verbs: Vec<String>,
}
