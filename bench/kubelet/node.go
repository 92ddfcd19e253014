package main

// The kubelet around the volume manager: what it asks of the rest of a kubelet, with as little behind it as can be.

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/informers"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/kubernetes/pkg/kubelet/config"
	"k8s.io/kubernetes/pkg/kubelet/volumemanager"
	"k8s.io/kubernetes/pkg/volume"
	"k8s.io/kubernetes/pkg/volume/configmap"
	"k8s.io/kubernetes/pkg/volume/csi"
	"k8s.io/kubernetes/pkg/volume/downwardapi"
	"k8s.io/kubernetes/pkg/volume/emptydir"
	"k8s.io/kubernetes/pkg/volume/fc"
	"k8s.io/kubernetes/pkg/volume/git_repo"
	"k8s.io/kubernetes/pkg/volume/hostpath"
	"k8s.io/kubernetes/pkg/volume/image"
	"k8s.io/kubernetes/pkg/volume/iscsi"
	"k8s.io/kubernetes/pkg/volume/local"
	"k8s.io/kubernetes/pkg/volume/nfs"
	"k8s.io/kubernetes/pkg/volume/projected"
	"k8s.io/kubernetes/pkg/volume/secret"
	"k8s.io/kubernetes/pkg/volume/util/hostutil"
	"k8s.io/kubernetes/pkg/volume/util/subpath"
	"k8s.io/kubernetes/pkg/volume/util/volumepathhandler"
	"k8s.io/mount-utils"
)

// nodeName is the node every manifest is taken to be bound to.
const nodeName = "node-1"

// node is a volume manager with its host, its pods and its objects.
type node struct {
	root      string
	client    clientset.Interface
	informers informers.SharedInformerFactory
	plugins   *volume.VolumePluginMgr
	mounter   mount.Interface
	pods      *podSet
	manager   volumemanager.VolumeManager
	objects   sync.RWMutex
	config    map[string]*v1.ConfigMap
	secrets   map[string]*v1.Secret
}

// newNode builds a volume manager rooted at root that knows the given objects.
func newNode(root string, objects []runtime.Object) (*node, error) {
	self := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName}}
	client := fake.NewSimpleClientset(append(objects, self)...)
	n := &node{
		root:      root,
		client:    client,
		informers: informers.NewSharedInformerFactory(client, 0),
		plugins:   &volume.VolumePluginMgr{},
		mounter:   mount.New(""),
		pods:      &podSet{byUID: map[types.UID]*v1.Pod{}},
		config:    map[string]*v1.ConfigMap{},
		secrets:   map[string]*v1.Secret{},
	}
	for _, o := range objects {
		n.update(o)
	}
	for _, dir := range []string{n.GetPodsDir(), filepath.Join(root, "plugins")} {
		if err := os.MkdirAll(dir, 0o750); err != nil {
			return nil, err
		}
	}
	n.informers.Storage().V1().CSIDrivers().Informer()
	n.informers.Start(context.Background().Done())
	n.informers.WaitForCacheSync(context.Background().Done())

	var all []volume.VolumePlugin
	all = append(all, emptydir.ProbeVolumePlugins()...)
	all = append(all, git_repo.ProbeVolumePlugins()...)
	all = append(all, hostpath.ProbeVolumePlugins(volume.VolumeConfig{})...)
	all = append(all, secret.ProbeVolumePlugins()...)
	all = append(all, configmap.ProbeVolumePlugins()...)
	all = append(all, downwardapi.ProbeVolumePlugins()...)
	all = append(all, projected.ProbeVolumePlugins()...)
	all = append(all, local.ProbeVolumePlugins()...)
	all = append(all, nfs.ProbeVolumePlugins(volume.VolumeConfig{})...)
	all = append(all, iscsi.ProbeVolumePlugins()...)
	all = append(all, fc.ProbeVolumePlugins()...)
	all = append(all, image.ProbeVolumePlugins()...)
	all = append(all, csi.ProbeVolumePlugins()...)
	if err := n.plugins.InitPlugins(all, nil, n); err != nil {
		return nil, err
	}
	n.manager = volumemanager.NewVolumeManager(true, nodeName, n.pods, n.pods, client, n.plugins,
		n.mounter, hostutil.NewHostUtil(), n.GetPodsDir(), &record.FakeRecorder{},
		volumepathhandler.NewBlockVolumePathHandler())
	return n, nil
}

// start runs the manager until the context ends.
func (n *node) start(ctx context.Context) {
	go n.manager.Run(ctx, config.NewSourcesReady(func(sets.Set[string]) bool { return true }))
}

// update gives the plugins an object, or a new version of one. As in the kubelet, nobody is told: a volume shows it
// when its pod is synced next.
func (n *node) update(object runtime.Object) {
	n.objects.Lock()
	defer n.objects.Unlock()
	switch o := object.(type) {
	case *v1.ConfigMap:
		n.config[o.Namespace+"/"+o.Name] = o
	case *v1.Secret:
		n.secrets[o.Namespace+"/"+o.Name] = o
	}
}

// podSet is the pod manager and the pod state provider: a pod that is in it should run.
type podSet struct {
	sync.RWMutex
	byUID map[types.UID]*v1.Pod
}

func (p *podSet) add(pod *v1.Pod) {
	p.Lock()
	defer p.Unlock()
	p.byUID[pod.UID] = pod
}

func (p *podSet) remove(uid types.UID) {
	p.Lock()
	defer p.Unlock()
	delete(p.byUID, uid)
}

func (p *podSet) clear() {
	p.Lock()
	defer p.Unlock()
	p.byUID = map[types.UID]*v1.Pod{}
}

func (p *podSet) GetPodByUID(uid types.UID) (*v1.Pod, bool) {
	p.RLock()
	defer p.RUnlock()
	pod, ok := p.byUID[uid]
	return pod, ok
}

func (p *podSet) GetPods() []*v1.Pod {
	p.RLock()
	defer p.RUnlock()
	pods := make([]*v1.Pod, 0, len(p.byUID))
	for _, pod := range p.byUID {
		pods = append(pods, pod)
	}
	return pods
}

func (p *podSet) ShouldPodContainersBeTerminating(uid types.UID) bool {
	_, ok := p.GetPodByUID(uid)
	return !ok
}

func (p *podSet) ShouldPodRuntimeBeRemoved(uid types.UID) bool {
	return p.ShouldPodContainersBeTerminating(uid)
}

// The volume host: what the plugins ask of a kubelet.

func (n *node) GetPluginDir(name string) string { return filepath.Join(n.root, "plugins", name) }

func (n *node) GetVolumeDevicePluginDir(name string) string {
	return filepath.Join(n.GetPluginDir(name), "volumeDevices")
}

func (n *node) GetPodsDir() string { return filepath.Join(n.root, "pods") }

func (n *node) GetPodVolumeDir(uid types.UID, plugin, name string) string {
	return filepath.Join(n.GetPodsDir(), string(uid), "volumes", plugin, name)
}

func (n *node) GetPodVolumeDeviceDir(uid types.UID, plugin string) string {
	return filepath.Join(n.GetPodsDir(), string(uid), "volumeDevices", plugin)
}

func (n *node) GetPodPluginDir(uid types.UID, plugin string) string {
	return filepath.Join(n.GetPodsDir(), string(uid), "plugins", plugin)
}

func (n *node) GetKubeClient() clientset.Interface { return n.client }
func (n *node) GetMounter() mount.Interface        { return n.mounter }
func (n *node) GetHostUtil() hostutil.HostUtils    { return hostutil.NewHostUtil() }
func (n *node) GetSubpather() subpath.Interface    { return subpath.New(n.mounter) }
func (n *node) GetNodeName() types.NodeName        { return nodeName }

func (n *node) GetEventRecorder() record.EventRecorder { return &record.FakeRecorder{} }

func (n *node) GetNodeLabels() (map[string]string, error) {
	obj, err := n.client.CoreV1().Nodes().Get(context.Background(), nodeName, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return obj.Labels, nil
}

func (n *node) GetNodeAllocatable() (v1.ResourceList, error) { return nil, nil }

func (n *node) GetAttachedVolumesFromNodeStatus() (map[v1.UniqueVolumeName]string, error) {
	obj, err := n.client.CoreV1().Nodes().Get(context.Background(), nodeName, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	attached := map[v1.UniqueVolumeName]string{}
	for _, v := range obj.Status.VolumesAttached {
		attached[v.Name] = v.DevicePath
	}
	return attached, nil
}

func (n *node) wrapped(name string, spec volume.Spec) (volume.VolumePlugin, *volume.Spec, error) {
	if spec.Volume != nil {
		spec.Volume.Name = "wrapped_" + name
	}
	plugin, err := n.plugins.FindPluginBySpec(&spec)
	return plugin, &spec, err
}

func (n *node) NewWrapperMounter(name string, spec volume.Spec, pod *v1.Pod) (volume.Mounter, error) {
	plugin, s, err := n.wrapped(name, spec)
	if err != nil {
		return nil, err
	}
	return plugin.NewMounter(s, pod)
}

func (n *node) NewWrapperUnmounter(name string, spec volume.Spec, uid types.UID) (volume.Unmounter, error) {
	plugin, s, err := n.wrapped(name, spec)
	if err != nil {
		return nil, err
	}
	return plugin.NewUnmounter(s.Name(), uid)
}

func (n *node) GetSecretFunc() func(namespace, name string) (*v1.Secret, error) {
	return func(namespace, name string) (*v1.Secret, error) {
		n.objects.RLock()
		defer n.objects.RUnlock()
		if s, ok := n.secrets[namespace+"/"+name]; ok {
			return s, nil
		}
		return nil, apierrors.NewNotFound(v1.Resource("secrets"), name)
	}
}

func (n *node) GetConfigMapFunc() func(namespace, name string) (*v1.ConfigMap, error) {
	return func(namespace, name string) (*v1.ConfigMap, error) {
		n.objects.RLock()
		defer n.objects.RUnlock()
		if c, ok := n.config[namespace+"/"+name]; ok {
			return c, nil
		}
		return nil, apierrors.NewNotFound(v1.Resource("configmaps"), name)
	}
}

func (n *node) GetServiceAccountTokenFunc() func(string, string, *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error) {
	return func(string, string, *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error) {
		return nil, fmt.Errorf("tokens are not served here")
	}
}

func (n *node) DeleteServiceAccountTokenFunc() func(types.UID) { return func(types.UID) {} }

func (n *node) SetKubeletError(error) {}

func (n *node) GetInformerFactory() informers.SharedInformerFactory { return n.informers }

func (n *node) CSIDriverLister() storagelisters.CSIDriverLister {
	return n.informers.Storage().V1().CSIDrivers().Lister()
}

func (n *node) CSIDriversSynced() cache.InformerSynced {
	return n.informers.Storage().V1().CSIDrivers().Informer().HasSynced
}

func (n *node) WaitForCacheSync() error { return nil }

func (n *node) GetTrustAnchorsByName(string, bool) ([]byte, error) {
	return nil, fmt.Errorf("trust bundles are not served here")
}

func (n *node) GetTrustAnchorsBySigner(string, *metav1.LabelSelector, bool) ([]byte, error) {
	return nil, fmt.Errorf("trust bundles are not served here")
}

func (n *node) GetPodCertificateCredentialBundle(context.Context, string, string, string, string, int) ([]byte, []byte, error) {
	return nil, nil, fmt.Errorf("pod certificates are not served here")
}

var _ volume.KubeletVolumeHost = &node{}
