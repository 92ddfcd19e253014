package main

// Drivers that register.

import (
	"context"
	"path/filepath"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/record"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
	"k8s.io/kubernetes/pkg/kubelet/config"
	"k8s.io/kubernetes/pkg/kubelet/pluginmanager"
	"k8s.io/kubernetes/pkg/volume/csi"
)

// watchDrivers has the kubelet's own watcher of the registration directory tell the CSI plugin of drivers that come and go,
// until the context ends.
func (n *node) watchDrivers(ctx context.Context) {
	manager := pluginmanager.NewPluginManager(filepath.Join(n.root, "plugins_registry"), &record.FakeRecorder{})
	manager.AddHandler(registration.CSIPlugin, csi.PluginHandler)
	go manager.Run(ctx, config.NewSourcesReady(func(sets.Set[string]) bool { return true }), ctx.Done())
}
