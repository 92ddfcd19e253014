package main

// What the system does with each command, and what it measures.

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

type bench struct {
	root string
	// volumes are those of a CSI driver, if pods have those.
	volumes  *volumes
	node     *node
	prepared func(context.Context) error
}

func (b *bench) handle(ctx context.Context, c command) (parts, error) {
	if c.Command == "start" || c.Command == "restart" {
		objects := []runtime.Object{makeConfigMap(0), makeSecret(0)}
		node, err := newNode(filepath.Join(b.root, "node"), append(objects, b.volumes.objects()...))
		if err != nil {
			return nil, err
		}
		b.node = node
	}
	if b.node == nil {
		return nil, fmt.Errorf("%s: it was not started", c.Command)
	}
	switch c.Command {
	case "start":
		if b.volumes != nil {
			b.node.watchDrivers(ctx)
		}
		b.node.start(ctx)
		return parts{}, b.synced(ctx)
	case "restart":
		return b.restart(ctx, c.Pods)
	case "one":
		return b.one(ctx, c.First, c.Count)
	case "up":
		return b.up(ctx, c.Pods, c.Labels)
	case "want":
		for _, pod := range b.makePods(c.Pods, nil) {
			b.node.pods.add(pod)
		}
		return parts{}, nil
	case "await":
		return b.await(ctx, c.Since)
	case "down":
		return b.down(ctx)
	case "idle":
		return b.idle(seconds(c.Rest), seconds(c.Seconds))
	case "cost":
		used := ms(cpu())
		return parts{"all": {CPU: &used}}, nil
	case "prepare":
		return b.prepare(c.What, c.Round)
	case "change":
		return parts{}, b.prepared(ctx)
	case "leave":
		return parts{}, nil
	}
	return nil, fmt.Errorf("%q is no command", c.Command)
}

// synced waits until the manager has read what is on disk. It tells nobody, so it is asked often.
func (b *bench) synced(ctx context.Context) error {
	for !b.node.manager.ReconcilerStatesHasBeenSynced() {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		time.Sleep(time.Millisecond)
	}
	return nil
}

func (b *bench) restart(ctx context.Context, count int) (parts, error) {
	pods := b.makePods(count, nil)
	for _, pod := range pods {
		b.node.pods.add(pod)
	}
	s := begin()
	b.node.start(ctx)
	if err := b.synced(ctx); err != nil {
		return nil, err
	}
	synced := s.end()
	times, err := b.ready(ctx, pods, s.began)
	if err != nil {
		return nil, err
	}
	verified := s.end()
	verified.percentiles(times)
	verified.memory()
	return parts{"synced": synced, "verified": verified}, nil
}

// one measures pods that come and go alone. The directory that is left of one is nothing of the volume manager's.
func (b *bench) one(ctx context.Context, first, count int) (parts, error) {
	var ready, gone []float64
	for index := range count {
		pod := b.makePod(alone+first+index, nil)
		began := time.Now()
		b.node.pods.add(pod)
		if err := b.node.manager.WaitForAttachAndMount(ctx, pod); err != nil {
			return nil, err
		}
		ready = append(ready, ms(time.Since(began)))
		began = time.Now()
		b.node.pods.remove(pod.UID)
		if err := b.node.manager.WaitForUnmount(ctx, pod); err != nil {
			return nil, err
		}
		gone = append(gone, ms(time.Since(began)))
		if err := b.removeDirectory(pod); err != nil {
			return nil, err
		}
	}
	readyFigures, goneFigures := &figures{}, &figures{}
	readyFigures.percentiles(ready)
	goneFigures.percentiles(gone)
	return parts{"ready": readyFigures, "gone": goneFigures}, nil
}

func (b *bench) up(ctx context.Context, count int, labels bool) (parts, error) {
	var round *int
	if labels {
		round = new(int)
	}
	pods := b.makePods(count, round)
	s := begin()
	for _, pod := range pods {
		b.node.pods.add(pod)
	}
	times, err := b.ready(ctx, pods, s.began)
	if err != nil {
		return nil, err
	}
	f := s.end()
	f.percentiles(times)
	f.memory()
	return parts{"all": f}, nil
}

// await waits for the pods that are wanted, and counts from a moment of the clock that all processes share.
func (b *bench) await(ctx context.Context, since int64) (parts, error) {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return nil, err
	}
	began := time.Now().Add(time.Duration(since - now.Nano()))
	times, err := b.ready(ctx, b.node.pods.GetPods(), began)
	if err != nil {
		return nil, err
	}
	wall := ms(time.Since(began))
	f := &figures{Wall: &wall}
	f.percentiles(times)
	f.memory()
	return parts{"all": f}, nil
}

// down removes the directories of pods too: the kubelet does that when it cleans up.
func (b *bench) down(ctx context.Context) (parts, error) {
	pods := b.node.pods.GetPods()
	s := begin()
	b.node.pods.clear()
	times, err := each(pods, s.began, func(pod *v1.Pod) error {
		if err := again(ctx, func() error { return b.node.manager.WaitForUnmount(ctx, pod) }); err != nil {
			return err
		}
		return b.removeDirectory(pod)
	})
	if err != nil {
		return nil, err
	}
	f := s.end()
	f.percentiles(times)
	return parts{"all": f}, nil
}

func (b *bench) idle(rest, duration time.Duration) (parts, error) {
	time.Sleep(rest)
	before, s := switches(), begin()
	time.Sleep(duration)
	f := s.end()
	percent := *f.CPU / *f.Wall * 100
	wakeups := math.Max(0, switches()-before) / duration.Seconds()
	f = &figures{Idle: &percent, Wakeups: &wakeups}
	f.memory()
	return parts{"all": f}, nil
}

func (b *bench) makePod(index int, labels *int) *v1.Pod {
	if b.volumes != nil {
		return makePodWithClaim(index)
	}
	return makePod(index, labels)
}

func (b *bench) makePods(count int, labels *int) []*v1.Pod {
	var pods []*v1.Pod
	for index := range count {
		pods = append(pods, b.makePod(index, labels))
	}
	return pods
}

func seconds(count float64) time.Duration { return time.Duration(count * float64(time.Second)) }

// prepare gets ready to change an object, or the pods, and to sync all pods at once: a kubelet would do that within a
// minute and a half.
func (b *bench) prepare(what string, round int) (parts, error) {
	pods := b.node.pods.GetPods()
	var object runtime.Object
	switch what {
	case "config-map":
		object = makeConfigMap(round)
	case "secret":
		object = makeSecret(round)
	case "labels":
		pods = b.makePods(len(pods), &round)
	default:
		return nil, fmt.Errorf("%q does not change", what)
	}
	b.prepared = func(ctx context.Context) error {
		if object != nil {
			b.node.update(object)
		} else {
			for _, pod := range pods {
				b.node.pods.add(pod)
			}
		}
		if _, err := b.ready(ctx, pods, time.Now()); err != nil || object != nil {
			return err
		}
		// The manager looks at all pods every 100 ms, and misses the sync of a pod that was replaced while it looked. A
		// kubelet repairs that with its next sync; here that comes soon.
		time.Sleep(300 * time.Millisecond)
		_, err := b.ready(ctx, pods, time.Now())
		return err
	}
	return parts{}, nil
}

// ready is how long each takes until the manager says that its volumes are mounted, as pod syncs ask it: one that has
// waited for two minutes fails, and the next one tries again.
func (b *bench) ready(ctx context.Context, pods []*v1.Pod, began time.Time) ([]float64, error) {
	return each(pods, began, func(pod *v1.Pod) error {
		return again(ctx, func() error { return b.node.manager.WaitForAttachAndMount(ctx, pod) })
	})
}

// again does it until it succeeds.
func again(ctx context.Context, do func() error) error {
	for {
		if err := do(); err == nil || ctx.Err() != nil {
			return err
		}
	}
}

// removeDirectory removes what nothing is mounted in any more.
func (b *bench) removeDirectory(pod *v1.Pod) error {
	return os.RemoveAll(filepath.Join(b.node.GetPodsDir(), string(pod.UID)))
}

// each does it with all pods at once, and tells how long each took from a moment on.
func each(pods []*v1.Pod, began time.Time, do func(*v1.Pod) error) ([]float64, error) {
	times, errs := make([]float64, len(pods)), make([]error, len(pods))
	var group sync.WaitGroup
	for index, pod := range pods {
		group.Add(1)
		go func() {
			defer group.Done()
			errs[index] = do(pod)
			times[index] = ms(time.Since(began))
		}()
	}
	group.Wait()
	if failed := slices.IndexFunc(errs, func(err error) bool { return err != nil }); failed >= 0 {
		return nil, errs[failed]
	}
	return times, nil
}
