package main

// What the kubelet counts: pods of a file come and go, and what is counted is printed in between, for the comparison with
// the metrics of windlass.

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/prometheus/common/expfmt"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/component-base/metrics/legacyregistry"
	kubeletmetrics "k8s.io/kubernetes/pkg/kubelet/metrics"
	servermetrics "k8s.io/kubernetes/pkg/kubelet/server/metrics"
)

// scrape brings up the pods that a file has, an object in JSON a line, and takes them away again. Prints what was counted
// when all were there and when all were gone, as a line of JSON.
func scrape(ctx context.Context, root, path string) error {
	pods, objects, err := readObjects(path)
	if err != nil {
		return err
	}
	// The volume manager and its plugins register their own; these belong to the kubelet around them.
	legacyregistry.MustRegister(kubeletmetrics.OrphanPodCleanedVolumes, kubeletmetrics.OrphanPodCleanedVolumesErrors,
		servermetrics.VolumeStatCalDuration)
	n, err := newNode(root, objects)
	if err != nil {
		return err
	}
	n.start(ctx)
	for _, pod := range pods {
		n.pods.add(pod)
		if err := n.manager.WaitForAttachAndMount(ctx, pod); err != nil {
			return fmt.Errorf("pod %s: %w", pod.Name, err)
		}
	}
	up, err := gather()
	if err != nil {
		return err
	}
	for _, pod := range pods {
		n.pods.remove(pod.UID)
	}
	for _, pod := range pods {
		if err := n.manager.WaitForUnmount(ctx, pod); err != nil {
			return fmt.Errorf("pod %s: %w", pod.Name, err)
		}
	}
	down, err := gather()
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]string{"up": up, "down": down})
}

func readObjects(path string) (pods []*v1.Pod, objects []runtime.Object, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		object, _, err := scheme.Codecs.UniversalDeserializer().Decode(lines.Bytes(), nil, nil)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", path, err)
		}
		if pod, ok := object.(*v1.Pod); ok {
			pods = append(pods, pod)
		} else {
			objects = append(objects, object)
		}
	}
	return pods, objects, lines.Err()
}

// gather has what is counted of volumes in the text format of Prometheus.
func gather() (string, error) {
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		return "", err
	}
	var text bytes.Buffer
	for _, family := range families {
		if strings.HasPrefix(family.GetName(), "go_") || strings.HasPrefix(family.GetName(), "process_") {
			continue
		}
		if _, err := expfmt.MetricFamilyToText(&text, family); err != nil {
			return "", err
		}
	}
	return text.String(), nil
}
