//! SELinux options of containers as labels of files (E-80).

use k8s_openapi::api::core::v1::SELinuxOptions;
use std::sync::Arc;

/// What the system fills in where a container's options say nothing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Defaults {
    /// The user, for example `system_u`.
    pub user: Arc<str>,
    /// The role of files.
    pub role: Arc<str>,
    /// The type of a container's files.
    pub type_: Arc<str>,
    /// The level.
    pub level: Arc<str>,
}

impl Default for Defaults {
    /// What container runtimes use with the targeted policy.
    fn default() -> Self {
        Self { user: "system_u".into(), role: "object_r".into(), type_: "container_file_t".into(), level: "s0".into() }
    }
}

impl Defaults {
    /// The label of a container's files; `None` if its options say nothing at all.
    ///
    /// A container's role and type are those of its process: like the container runtimes, this gives its files their
    /// own. A part with a colon or a space in it would change the meaning of the label; a level has colons.
    pub(super) fn label(&self, options: &SELinuxOptions) -> Option<Result<Arc<str>, Arc<str>>> {
        let SELinuxOptions { user, role, type_, level } = options;
        let given = |it: &Option<String>| it.clone().filter(|it| !it.is_empty());
        let all = [given(user), given(role), given(type_), given(level)];
        if all.iter().all(Option::is_none) {
            return None;
        }
        for (part, forbidden) in all.iter().zip([":", ":", ":", ""]) {
            let odd = |it: char| forbidden.contains(it) || it.is_whitespace() || it.is_control() || it == '"';
            if let Some(text) = part.as_ref().filter(|it| it.contains(odd)) {
                return Some(Err(format!("invalid SELinux option \"{}\"", text.escape_default()).into()));
            }
        }
        let [user, _, _, level] = all;
        let user = user.as_deref().unwrap_or(&self.user);
        let level = level.as_deref().unwrap_or(&self.level);
        Some(Ok(format!("{user}:{}:{}:{level}", self.role, self.type_).into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn label(user: &str, role: &str, type_: &str, level: &str) -> Option<Result<String, String>> {
        let some = |it: &str| Some(it.to_string());
        let options = SELinuxOptions { user: some(user), role: some(role), type_: some(type_), level: some(level) };
        Defaults::default().label(&options).map(|it| it.map(|it| it.to_string()).map_err(|it| it.to_string()))
    }

    /// C-11.
    #[test]
    fn options_are_completed() {
        let file = |user: &str, level: &str| Some(Ok(format!("{user}:object_r:container_file_t:{level}")));
        assert_eq!(label("", "", "", "s0:c1,c2"), file("system_u", "s0:c1,c2"));
        assert_eq!(label("user_u", "", "", ""), file("user_u", "s0"));
        assert_eq!(label("", "system_r", "spc_t", ""), file("system_u", "s0"), "of the process, not of files");
        assert_eq!(label("", "", "", ""), None);
        assert_eq!(Defaults::default().label(&SELinuxOptions::default()), None);
    }

    #[test]
    fn what_would_break_the_label_is_refused() {
        assert_eq!(label("a:b", "", "", ""), Some(Err("invalid SELinux option \"a:b\"".into())));
        assert_eq!(label("", "", "", "s0\",exec"), Some(Err("invalid SELinux option \"s0\\\",exec\"".into())));
    }
}
