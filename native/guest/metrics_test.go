package main

import (
	"encoding/json"
	"runtime"
	"testing"

	"connectrpc.com/connect"

	"ramet.dev/native/guest/internal/envdtest/processpb"
)

func readMetrics(t *testing.T, g *guest) map[string]float64 {
	t.Helper()
	var metrics map[string]float64
	_, text := g.http("GET", "/metrics", nil, "X-Access-Token", "secret")
	must(t, json.Unmarshal([]byte(text), &metrics))
	return metrics
}

func TestMetricsShowTheLimitsOfTheSandbox(t *testing.T) {
	g := startGuest(t)
	g.init(nil)
	machine := readMetrics(t, g)
	if machine["cpu_count"] != float64(runtime.NumCPU()) || machine["mem_total"] <= 64<<20 || machine["mem_used"] <= 0 || machine["disk_total"] <= 0 || machine["ts"] <= 0 {
		t.Errorf("without limits: %v", machine)
	}
	for generation, test := range []struct{ millis, cpus int }{{1, 1}, {1000, 1}, {1001, 2}, {6500, 7}} {
		limits := map[string]any{"memoryBytes": 64 << 20, "cpuMillis": test.millis}
		g.init(map[string]any{"generation": generation + 2, "clone": true, "limits": limits})
		limited := readMetrics(t, g)
		if limited["cpu_count"] != float64(test.cpus) || limited["mem_total"] != 64<<20 || limited["mem_total_mib"] != 64 || limited["disk_total"] != machine["disk_total"] {
			t.Errorf("%d thousandths of a CPU: %v", test.millis, limited)
		}
	}
	g.init(map[string]any{"generation": 9, "clone": true})
	if again := readMetrics(t, g); again["mem_total"] != machine["mem_total"] || again["cpu_count"] != machine["cpu_count"] {
		t.Errorf("a clone without limits: %v", again)
	}
}

func TestMetricsShowTheCPUUseSinceTheLastOnes(t *testing.T) {
	g := startGuest(t)
	// Outside of a sandbox, /proc/stat counts all programs of the machine. One alone uses more than a tenth of a CPU.
	g.init(map[string]any{"limits": map[string]any{"cpuMillis": 100}})
	// It outlives the guest of the test, and must not use a CPU for longer.
	command := &processpb.ProcessConfig{Cmd: "/bin/sh", Args: []string{"-c", "ulimit -t 10; while :; do :; done"}}
	stream, err := g.processes().Start(t.Context(), connect.NewRequest(&processpb.StartRequest{Process: command}))
	must(t, err)
	defer stream.Close()
	eventually(t, "the use of the program is shown", func() bool { return readMetrics(t, g)["cpu_used_pct"] == 100 })
}
