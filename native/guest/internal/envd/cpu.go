package envd

import (
	"math"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// ticksPerSecond is the unit of /proc/stat (proc_stat(5)).
	ticksPerSecond = 100
	// minCPUWindow is the shortest period over which CPU use is measured. Callers within it get the same result.
	minCPUWindow = 500 * time.Millisecond
)

// cpuMeter measures the CPU use between two calls.
type cpuMeter struct {
	mu      sync.Mutex
	at      time.Time
	busy    uint64
	percent float64
}

func newCPUMeter() *cpuMeter { return &cpuMeter{at: time.Now(), busy: busyTicks()} }

// percentOf returns the use since the previous call, in percent of this number of CPUs.
func (c *cpuMeter) percentOf(cpus float64) float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	elapsed := time.Since(c.at)
	if elapsed < minCPUWindow {
		return c.percent
	}
	busy := busyTicks()
	used := float64(busy-min(c.busy, busy)) / ticksPerSecond
	c.at, c.busy = time.Now(), busy
	c.percent = math.Round(min(100, used/elapsed.Seconds()/cpus*100)*100) / 100
	return c.percent
}

// wholeCPUs returns the number of CPUs that clients see, who know only whole ones.
func wholeCPUs(cpus float64) int { return max(1, int(math.Ceil(cpus))) }

// busyTicks returns the CPU time of all processes. In gVisor, /proc/stat counts only those of the sandbox.
func busyTicks() (busy uint64) {
	text, _ := os.ReadFile("/proc/stat")
	line, _, _ := strings.Cut(string(text), "\n")
	for i, word := range strings.Fields(line) {
		ticks, err := strconv.ParseUint(word, 10, 64)
		// The fourth and fifth numbers are idle and I/O wait.
		if err == nil && i != 4 && i != 5 {
			busy += ticks
		}
	}
	return busy
}
