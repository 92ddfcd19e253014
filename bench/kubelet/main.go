// kubelet runs the real volume manager of the kubelet (k8s.io/kubernetes, unmodified) as one of the systems of the
// benchmark: a command a line on standard input, an answer a line on standard output, as bench/src/protocol.rs says.
//
//	kubelet --root DIR [--csi-volumes FILE]
//	kubelet --root DIR --scrape FILE
//	kubelet --version
//
// Objects are served from memory and nothing but volumes is done, so a comparison favors it.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strings"

	"golang.org/x/sys/unix"
	"k8s.io/klog/v2"
)

// command is what it is told to do; the fields are those of the commands that have them.
type command struct {
	Command string  `json:"command"`
	Pods    int     `json:"pods"`
	Count   int     `json:"count"`
	First   int     `json:"first"`
	Labels  bool    `json:"labels"`
	Rest    float64 `json:"rest"`
	Seconds float64 `json:"seconds"`
	What    string  `json:"what"`
	Round   int     `json:"round"`
	Since   int64   `json:"since"`
}

// answer is one of the two.
type answer struct {
	Done   *parts  `json:"done,omitempty"`
	Failed *string `json:"failed,omitempty"`
}

func init() {
	// Nothing that is measured outlives the one who measures. The kernel keeps this for the thread that asks.
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		fmt.Fprintln(os.Stderr, "kubelet:", err)
		os.Exit(1)
	}
}

func main() {
	root := flag.String("root", "", "the directory of everything that it makes")
	volumes := flag.String("csi-volumes", "", "have the volumes of a CSI driver that this file tells of, and pods of one of them each")
	scraped := flag.String("scrape", "", "bring up and take away the pods of this file, an object a line, and print what is counted")
	version := flag.Bool("version", false, "print the versions and exit")
	flag.Parse()
	if *version {
		fmt.Println(versions())
		return
	}
	run := func() error { return serve(*root, *volumes) }
	if *scraped != "" {
		run = func() error { return scrape(context.Background(), *root, *scraped) }
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "kubelet:", err)
		os.Exit(1)
	}
}

// versions tells which kubelet this is, and what it was built with.
func versions() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			if module.Path == "k8s.io/kubernetes" {
				return fmt.Sprintf("kubelet %s, %s", strings.TrimPrefix(module.Version, "v"), info.GoVersion)
			}
		}
	}
	return "kubelet of an unknown version"
}

func serve(root, path string) error {
	if root == "" {
		return errors.New("--root is needed")
	}
	volumes, err := readVolumes(path)
	if err != nil {
		return err
	}
	quiet := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(quiet)
	quiet.Set("logtostderr", "false")
	quiet.Set("stderrthreshold", "FATAL")
	klog.SetOutput(io.Discard)

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	b := &bench{root: root, volumes: volumes}
	lines, answers := bufio.NewScanner(os.Stdin), json.NewEncoder(os.Stdout)
	for lines.Scan() {
		var c command
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			return fmt.Errorf("no command: %s: %w", lines.Text(), err)
		}
		var a answer
		if done, err := b.handle(ctx, c); err != nil {
			text := err.Error()
			a.Failed = &text
		} else {
			a.Done = &done
		}
		if err := answers.Encode(a); err != nil {
			return err
		}
		if c.Command == "leave" {
			break
		}
	}
	return lines.Err()
}
