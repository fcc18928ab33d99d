//! The owner of a cgroup, according to its path: the container, and the pod of Kubernetes.
//!
//! Container runtimes do not agree on a format, but all of them name a container by 64 hexadecimal digits, and Kubernetes names a pod by
//! its uid:
//!
//! ```text
//!   /kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod<uid>.slice/cri-containerd-<container>.scope
//!   /kubepods/burstable/pod<uid>/<container>
//!   /system.slice/docker-<container>.scope, /docker/<container>, /machine.slice/libpod-<container>.scope/container
//! ```

/// The owner of a cgroup, according to its path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Owner<'p> {
    /// The id of the container, in hexadecimal digits.
    pub container: Option<&'p str>,
    /// The uid of the pod in the form of the path: systemd's names have `_` in place of `-`. See [`Owner::pod_uid`].
    pub pod: Option<&'p str>,
}

const CONTAINER_DIGITS: usize = 64;

impl<'p> Owner<'p> {
    /// If containers are nested, the innermost.
    pub fn of(path: &'p str) -> Owner<'p> {
        let mut owner = Owner::default();
        for part in path.split('/') {
            owner.container = container(part).or(owner.container);
            owner.pod = pod(part).or(owner.pod);
        }
        owner
    }

    /// The uid of the pod as Kubernetes writes it.
    pub fn pod_uid(&self) -> Option<String> {
        Some(self.pod?.replace('_', "-"))
    }
}

/// A name is `cri-containerd-<container>.scope` or the container's id itself; a name that ends with `-conmon-...` belongs to its monitor.
fn container(name: &str) -> Option<&str> {
    let name = name.strip_suffix(".scope").unwrap_or(name);
    let (runtime, id) = name.rsplit_once('-').unwrap_or(("", name));
    let is_id = id.len() == CONTAINER_DIGITS && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    (is_id && !runtime.ends_with("conmon")).then_some(id)
}

/// A pod's uid is a UUID, or 32 digits without dashes for a pod that the node itself created (a static pod).
fn pod(name: &str) -> Option<&str> {
    let name = name.strip_suffix(".slice").unwrap_or(name);
    let uid = match name.strip_prefix("pod") {
        Some(uid) => uid,
        None => name.strip_prefix("kubepods").and_then(|rest| rest.split_once("-pod"))?.1,
    };
    let digits = uid.bytes().filter(u8::is_ascii_hexdigit).count();
    let dashes = uid.bytes().filter(|byte| matches!(byte, b'-' | b'_')).count();
    (digits == 32 && matches!(dashes, 0 | 4) && digits + dashes == uid.len()).then_some(uid)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "5b1f8d0a3c4e6f708192a3b4c5d6e7f8091a2b3c4d5e6f708192a3b4c5d6e7f8";
    const UID: &str = "0f5c8a52-91de-4a3b-8c1d-2b9e7f604d11";

    fn owner(path: &str) -> (Option<String>, Option<String>) {
        let owner = Owner::of(path);
        (owner.pod_uid(), owner.container.map(str::to_owned))
    }

    #[test]
    fn pods_and_containers_are_found_however_the_node_names_them() {
        let both = (Some(UID.to_owned()), Some(ID.to_owned()));
        let uid = UID.replace('-', "_");
        for path in [
            format!(
                "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{uid}.slice/cri-containerd-{ID}.scope"
            ),
            format!("/kubepods.slice/kubepods-pod{uid}.slice/crio-{ID}.scope"),
            format!("/kubepods/besteffort/pod{UID}/{ID}"),
            format!("/kubelet.slice/kubepods/pod{UID}/{ID}/init.scope"),
        ] {
            assert_eq!(owner(&path), both, "{path}");
        }
        let own = "/kubepods/pod3b2c1f0e9d8c7b6a5f4e3d2c1b0a9f8e";
        assert_eq!(owner(own), (Some("3b2c1f0e9d8c7b6a5f4e3d2c1b0a9f8e".to_owned()), None));
    }

    #[test]
    fn containers_without_pods_are_found_too() {
        for path in [
            format!("/docker/{ID}"),
            format!("/system.slice/docker-{ID}.scope"),
            format!("/machine.slice/libpod-{ID}.scope/container"),
            format!("/docker/{}/docker/{ID}", ID.replace('5', "6")),
        ] {
            assert_eq!(owner(&path), (None, Some(ID.to_owned())), "{path}");
        }
    }

    #[test]
    fn what_only_looks_like_one_is_none() {
        for path in [
            "/".to_owned(),
            "/user.slice/user-1000.slice/session-3.scope".to_owned(),
            format!("/machine.slice/libpod-conmon-{ID}.scope"),
            format!("/docker/{}", &ID[1..]),
            format!("/docker/{ID}0"),
            "/podman/podcast".to_owned(),
            "/kubepods/podfedcba9876543210".to_owned(),
            "/system.slice/my-pod0f5c8a52.slice".to_owned(),
        ] {
            assert_eq!(owner(&path), (None, None), "{path}");
        }
    }
}
