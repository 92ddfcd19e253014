package main

// Volumes of a CSI driver and the pods that have them, the same as those of bench/src/volumes.rs and pods.rs.

import (
	"encoding/json"
	"fmt"
	"os"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// volumes is what the file of volumes tells: the driver's name, and what it calls each.
type volumes struct {
	Driver  string   `json:"driver"`
	Handles []string `json:"handles"`
}

// readVolumes reads the file of volumes; without one there are none.
func readVolumes(path string) (*volumes, error) {
	if path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	v := &volumes{}
	if err := json.Unmarshal(text, v); err != nil {
		return nil, fmt.Errorf("%s tells of no volumes: %w", path, err)
	}
	return v, nil
}

// objects makes the volumes with their claims, and the driver's object; nothing if there are none.
func (v *volumes) objects() []runtime.Object {
	if v == nil {
		return nil
	}
	no, capacity := false, v1.ResourceList{v1.ResourceStorage: resource.MustParse("8Mi")}
	mode, modes := v1.PersistentVolumeFilesystem, []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}
	policy := storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy
	// With what an API server fills in.
	objects := []runtime.Object{&storagev1.CSIDriver{
		ObjectMeta: metav1.ObjectMeta{Name: v.Driver},
		Spec: storagev1.CSIDriverSpec{
			AttachRequired: &no, PodInfoOnMount: &no, RequiresRepublish: &no, StorageCapacity: &no, SELinuxMount: &no,
			FSGroupPolicy: &policy, VolumeLifecycleModes: []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent},
		},
	}}
	for index, handle := range v.Handles {
		claim, name := fmt.Sprintf("claim-%d", index), fmt.Sprintf("volume-%d", index)
		source := &v1.CSIPersistentVolumeSource{Driver: v.Driver, VolumeHandle: handle}
		objects = append(objects, &v1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: v1.PersistentVolumeSpec{
				Capacity: capacity, VolumeMode: &mode, AccessModes: modes, PersistentVolumeReclaimPolicy: v1.PersistentVolumeReclaimRetain,
				PersistentVolumeSource: v1.PersistentVolumeSource{CSI: source},
				ClaimRef:               &v1.ObjectReference{Namespace: "default", Name: claim, UID: types.UID(claim)},
			},
		}, &v1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Name: claim, Namespace: "default", UID: types.UID(claim)},
			Spec: v1.PersistentVolumeClaimSpec{
				VolumeName: name, VolumeMode: &mode, AccessModes: modes,
				Resources: v1.VolumeResourceRequirements{Requests: capacity},
			},
			Status: v1.PersistentVolumeClaimStatus{Phase: v1.ClaimBound, AccessModes: modes, Capacity: capacity},
		})
	}
	return objects
}

// makePodWithClaim makes a pod of one claim. Those that are measured alone have the volumes of a burst.
func makePodWithClaim(index int) *v1.Pod {
	claim := &v1.PersistentVolumeClaimVolumeSource{ClaimName: fmt.Sprintf("claim-%d", index%alone)}
	return &v1.Pod{
		ObjectMeta: podMeta(index),
		Spec: v1.PodSpec{
			Containers: []v1.Container{{Name: "main", VolumeMounts: []v1.VolumeMount{{Name: "data", MountPath: "/data"}}}},
			Volumes:    []v1.Volume{{Name: "data", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: claim}}},
		},
	}
}
