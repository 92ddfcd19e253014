package main

// The pods that everything is measured with, the same as those of bench/src/pods.rs.

import (
	"fmt"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// alone is the number of the first pod that is measured alone.
const alone = 1_000_000

func podMeta(index int) metav1.ObjectMeta {
	uid := types.UID(fmt.Sprintf("%08d-0000-4000-8000-000000000000", index))
	return metav1.ObjectMeta{Name: fmt.Sprintf("pod-%d", index), Namespace: "default", UID: uid}
}

// makePod makes a pod of four volumes; one with labels shows them in a fifth.
func makePod(index int, labels *int) *v1.Pod {
	mode := int32(0o644)
	mount := func(name string) v1.VolumeMount { return v1.VolumeMount{Name: name, MountPath: "/" + name} }
	pod := &v1.Pod{
		ObjectMeta: podMeta(index),
		Spec: v1.PodSpec{
			Containers: []v1.Container{{Name: "main", VolumeMounts: []v1.VolumeMount{mount("disk"), mount("memory"), mount("config"), mount("secret")}}},
			Volumes: []v1.Volume{
				{Name: "disk", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}},
				{Name: "memory", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory}}},
				{Name: "config", VolumeSource: v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: "settings"}, DefaultMode: &mode}}},
				{Name: "secret", VolumeSource: v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "keys", DefaultMode: &mode}}},
			},
		},
	}
	if labels != nil {
		pod.Labels = map[string]string{"round": strconv.Itoa(*labels)}
		field := &v1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.labels"}
		source := &v1.DownwardAPIVolumeSource{DefaultMode: &mode, Items: []v1.DownwardAPIVolumeFile{{Path: "labels", FieldRef: field}}}
		container := &pod.Spec.Containers[0]
		container.VolumeMounts = append(container.VolumeMounts, mount("labels"))
		pod.Spec.Volumes = append(pod.Spec.Volumes, v1.Volume{Name: "labels", VolumeSource: v1.VolumeSource{DownwardAPI: source}})
	}
	return pod
}

// content is what is in the files: as many bytes in every round.
func content(round int) string {
	if round == 0 {
		return strings.Repeat("v", 256)
	}
	return fmt.Sprintf("%0256d", round)
}

func keys() []string {
	var keys []string
	for index := range 4 {
		keys = append(keys, fmt.Sprintf("key-%d", index))
	}
	return keys
}

func makeConfigMap(round int) *v1.ConfigMap {
	data := map[string]string{}
	for _, key := range keys() {
		data[key] = content(round)
	}
	return &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "settings", Namespace: "default"}, Data: data}
}

func makeSecret(round int) *v1.Secret {
	data := map[string][]byte{}
	for _, key := range keys() {
		data[key] = []byte(content(round))
	}
	return &v1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "keys", Namespace: "default"}, Data: data}
}
