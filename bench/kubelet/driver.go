package main

// The driver's registration.

import (
	"context"
	"fmt"
	"path/filepath"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
	"k8s.io/kubernetes/pkg/volume/csi"
)

// registerDriver gives the driver that waits in the registration directory to the CSI plugin. The kubelet's own watcher
// of that directory is left out, for it names the socket's path as the host that it calls, and the driver's HTTP library
// refuses that. Registration is not measured.
func (n *node) registerDriver(ctx context.Context) error {
	sockets, err := filepath.Glob(filepath.Join(n.root, "plugins_registry", "*.sock"))
	if err != nil || len(sockets) != 1 {
		return fmt.Errorf("one driver is to wait, and these do: %v: %w", sockets, err)
	}
	connection, err := grpc.NewClient("unix://"+sockets[0], grpc.WithAuthority("localhost"),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer connection.Close()
	client := registration.NewRegistrationClient(connection)
	info, err := client.GetInfo(ctx, &registration.InfoRequest{})
	if err != nil {
		return err
	}
	if err := csi.PluginHandler.ValidatePlugin(info.Name, info.Endpoint, info.SupportedVersions); err != nil {
		return err
	}
	if err := csi.PluginHandler.RegisterPlugin(info.Name, info.Endpoint, info.SupportedVersions, nil); err != nil {
		return err
	}
	_, err = client.NotifyRegistrationStatus(ctx, &registration.RegistrationStatus{PluginRegistered: true})
	return err
}
