//! The real driver `windlass-loop`, and a volume that was made for a claim: a canary that its driver alone could delete.

use std::fs;
use std::path::{Path, PathBuf};

use windlass_testing::daemon::{Case, Daemon};
use windlass_testing::disk::loop_devices;
use windlass_testing::namespace::privileged;
use windlass_testing::process::Process;

use crate::skip;
use crate::victim::{CANARY, log, put};

pub(crate) const DRIVER: &str = "loop.csi.windlass.dev";

/// The class, the claim and a pod that uses it. The driver puts an ext4 of 32 MiB on a loop device.
pub(crate) const CLASS: &str = "\
apiVersion: storage.k8s.io/v1
kind: CSIDriver
metadata: {name: loop.csi.windlass.dev}
spec: {attachRequired: false}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: disks}
provisioner: loop.csi.windlass.dev
parameters: {csi.storage.k8s.io/fstype: ext4}
";

pub(crate) const CLAIM: &str = "\
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec:
  accessModes: [ReadWriteOnce]
  storageClassName: disks
  resources: {requests: {storage: 32Mi}}
";

pub(crate) const APP: &str = "\
apiVersion: v1
kind: Pod
metadata: {name: app, uid: app-1}
spec:
  containers: [{name: main, volumeMounts: [{name: data, mountPath: /data}]}]
  volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
";

/// The driver, the daemon that makes volumes by it, and a pod with such a volume, in which a canary is.
pub(crate) struct Disk {
    pub(crate) daemon: Option<Daemon>,
    driver: Process,
    options: Vec<String>,
}

impl Disk {
    /// Makes the volume; the claim and its pod are in these files of the manifests. Settings of the daemon come from
    /// `options`.
    pub(crate) fn make(case: &Case, options: &[&str], files: &[(&str, String)]) -> Self {
        if !privileged("a driver's volume") || !Path::new("/dev/loop-control").exists() {
            skip("a driver's volume needs root and loop devices");
        }
        let manifests = case.path("manifests");
        put(&manifests, "class.yaml", CLASS);
        for (file, text) in files {
            put(&manifests, file, text);
        }
        let driver = case.start_loop_driver(&case.path(""), &["--log-level", "debug"]);
        let options = options.iter().map(ToString::to_string).collect();
        let mut disk = Self { daemon: None, driver, options };
        disk.start(case);
        case.wait_mounted(&["app"]);
        fs::write(mounted(case).join("canary"), CANARY).unwrap();
        disk
    }

    /// Starts the daemon.
    pub(crate) fn start(&mut self, case: &Case) {
        let mut command = case.run();
        command.arg("--driver-registry").arg(case.path("registry"));
        command.arg(format!("--controller={DRIVER}={}", case.path("csi.sock").display())).args(&self.options);
        self.daemon = Some(case.start_as(command));
    }

    /// Kills the daemon.
    pub(crate) fn kill(&mut self) {
        self.daemon.take().unwrap().kill();
    }

    /// The driver has the volume still, with what is in it, and was never asked to delete it.
    pub(crate) fn canary_lives(&self, case: &Case, after: &str) {
        let images = fs::read_dir(case.path("state/images")).unwrap().count();
        let asked = fs::read_to_string(case.path("driver.log")).unwrap_or_default();
        let asked: Vec<&str> = asked.lines().filter(|it| it.contains("DeleteVolume")).collect();
        assert!(images == 1 && asked.is_empty(), "after {after} the volume is gone: {asked:?}\n{}", log(case));
    }

    /// The pod has it still, too.
    pub(crate) fn pod_has_it(&self, case: &Case, after: &str) {
        let found = fs::read_to_string(mounted(case).join("canary"));
        assert!(found.as_ref().is_ok_and(|it| it == CANARY), "after {after} the pod has {found:?}\n{}", log(case));
    }

    /// Ends all of it and lets go of the loop device.
    pub(crate) fn end(mut self, case: &Case) {
        drop(self.daemon.take());
        drop(self.driver);
        let mut mounts = case.mounts();
        mounts.sort();
        for mount in mounts.iter().rev() {
            let _ = rustix::mount::unmount(mount, rustix::mount::UnmountFlags::DETACH);
        }
        release_devices(case);
    }
}

/// Where the pod's volume is mounted.
fn mounted(case: &Case) -> PathBuf {
    let volumes = case.path("root/pods/app-1/volumes/kubernetes.io~csi");
    let mut found = fs::read_dir(&volumes).unwrap_or_else(|error| panic!("{}: {error}", volumes.display()));
    found.next().expect("the pod has a volume").unwrap().path().join("mount")
}

/// Loop devices are the whole machine's: those of this attack are given back.
fn release_devices(case: &Case) {
    for device in loop_devices(&case.path("state")) {
        let _ = windlass_testing::process::program("losetup").arg("-d").arg(device).status();
    }
}
