//! Volumes that cannot be what their pods say: kinds, sizes, media, names.

use serde_json::{Value, json};
use windlass_testing::daemon::Case;

use super::{Fault, put, web};

super::faults![
    a_type_of_volume_that_is_not_here,
    a_volume_of_two_types,
    a_clone_of_a_repository,
    a_driver_that_is_not_registered,
    a_volume_that_the_pod_does_not_list,
    a_size_limit_that_is_no_size,
    a_size_limit_in_memory_that_is_no_size,
    a_medium_that_is_not_known,
    huge_pages_that_nobody_requests,
    huge_pages_of_a_size_that_the_kernel_lacks,
];

/// The pod's volume is as the first, and then scratch space.
fn is_corrected(case: &Case, fault: &Fault, wrong: &Value) {
    put(case, "pod.yaml", &[wrong]);
    let daemon = case.start();
    fault.is_named(case, "web", "data", &[]);
    put(case, "pod.yaml", &[&web(json!({"emptyDir": {}}))]);
    case.wait_mounted(&["web"]);
    assert!(daemon.stop().success());
}

fn a_type_of_volume_that_is_not_here(case: &Case, fault: &Fault) {
    is_corrected(case, fault, &web(json!({"nfs": {"server": "files", "path": "/data"}})));
}

fn a_volume_of_two_types(case: &Case, fault: &Fault) {
    is_corrected(case, fault, &web(json!({"emptyDir": {}, "configMap": {"name": "settings"}})));
}

fn a_clone_of_a_repository(case: &Case, fault: &Fault) {
    is_corrected(case, fault, &web(json!({"gitRepo": {"repository": "https://example.com/x.git"}})));
}

fn a_driver_that_is_not_registered(case: &Case, fault: &Fault) {
    is_corrected(case, fault, &web(json!({"csi": {"driver": "disks.example.com"}})));
}

fn a_volume_that_the_pod_does_not_list(case: &Case, fault: &Fault) {
    let mut pod = web(json!({"emptyDir": {}}));
    pod["spec"]["volumes"] = json!([]);
    is_corrected(case, fault, &pod);
}

fn a_size_limit_that_is_no_size(case: &Case, fault: &Fault) {
    is_corrected(case, fault, &web(json!({"emptyDir": {"sizeLimit": "lots"}})));
}

fn a_size_limit_in_memory_that_is_no_size(case: &Case, fault: &Fault) {
    is_corrected(case, fault, &web(json!({"emptyDir": {"medium": "Memory", "sizeLimit": "lots"}})));
}

fn a_medium_that_is_not_known(case: &Case, fault: &Fault) {
    is_corrected(case, fault, &web(json!({"emptyDir": {"medium": "Bubble"}})));
}

fn huge_pages_that_nobody_requests(case: &Case, fault: &Fault) {
    is_corrected(case, fault, &web(json!({"emptyDir": {"medium": "HugePages-2Mi"}})));
}

fn huge_pages_of_a_size_that_the_kernel_lacks(case: &Case, fault: &Fault) {
    let mut pod = web(json!({"emptyDir": {"medium": "HugePages-3Mi"}}));
    let pages = json!({"hugepages-3Mi": "3Mi"});
    pod["spec"]["containers"][0]["resources"] = json!({"requests": pages, "limits": pages});
    is_corrected(case, fault, &pod);
}
