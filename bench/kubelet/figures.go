package main

// What is measured, in the words of bench/src/protocol.rs.

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

type parts map[string]*figures

// figures is what was measured; what does not apply is left out.
type figures struct {
	Wall      *float64 `json:"wall_ms,omitempty"`
	CPU       *float64 `json:"cpu_ms,omitempty"`
	P50       *float64 `json:"p50_ms,omitempty"`
	P99       *float64 `json:"p99_ms,omitempty"`
	RSS       *float64 `json:"rss_kib,omitempty"`
	Anonymous *float64 `json:"anonymous_kib,omitempty"`
	Idle      *float64 `json:"idle_percent,omitempty"`
	Wakeups   *float64 `json:"wakeups,omitempty"`
	Threads   *float64 `json:"threads,omitempty"`
}

// stretch is work that is measured.
type stretch struct {
	cpu   time.Duration
	began time.Time
}

func begin() stretch { return stretch{cpu: cpu(), began: time.Now()} }

func (s stretch) end() *figures {
	wall, used := ms(time.Since(s.began)), ms(cpu()-s.cpu)
	return &figures{Wall: &wall, CPU: &used}
}

func (f *figures) percentiles(times []float64) {
	slices.Sort(times)
	// The least time that so many of a hundred do not exceed.
	at := func(percent int) *float64 { return &times[(len(times)*percent+99)/100-1] }
	if len(times) > 0 {
		f.P50, f.P99 = at(50), at(99)
	}
}

// memory notes the memory that it has now.
func (f *figures) memory() {
	text := read("/proc/self/status")
	f.RSS, f.Anonymous, f.Threads = field(text, "VmRSS:"), field(text, "RssAnon:"), field(text, "Threads:")
}

// switches is how often threads were put on a processor so far.
func switches() float64 {
	var sum float64
	threads, _ := filepath.Glob("/proc/self/task/*/status")
	for _, path := range threads {
		text := read(path)
		sum += *field(text, "voluntary_ctxt_switches:") + *field(text, "nonvoluntary_ctxt_switches:")
	}
	return sum
}

func read(path string) string {
	data, _ := os.ReadFile(path)
	return string(data)
}

// field is a number in a file of the form `name: value`.
func field(text, name string) *float64 {
	value := new(float64)
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			fmt.Sscan(rest, value)
		}
	}
	return value
}

func ms(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }

// cpu is the processor time of this process and of the programs that it has run: the kubelet runs mount and umount.
func cpu() time.Duration {
	var total int64
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var usage syscall.Rusage
		if err := syscall.Getrusage(who, &usage); err == nil {
			total += usage.Utime.Nano() + usage.Stime.Nano()
		}
	}
	return time.Duration(total)
}
