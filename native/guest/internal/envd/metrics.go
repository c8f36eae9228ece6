package envd

import (
	"bufio"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

type metrics struct {
	Timestamp     int64   `json:"ts"`
	CPUCount      int     `json:"cpu_count"`
	CPUUsed       float64 `json:"cpu_used_pct"`
	MemoryTotal   uint64  `json:"mem_total"`
	MemoryUsed    uint64  `json:"mem_used"`
	MemoryCache   uint64  `json:"mem_cache"`
	MemoryTotalMB uint64  `json:"mem_total_mib"`
	MemoryUsedMB  uint64  `json:"mem_used_mib"`
	DiskUsed      uint64  `json:"disk_used"`
	DiskTotal     uint64  `json:"disk_total"`
}

// cpuWindow is the period over which CPU use is measured.
const cpuWindow = 50 * time.Millisecond

func (s *Server) metrics(w http.ResponseWriter, r *http.Request) {
	m := metrics{Timestamp: time.Now().Unix(), CPUCount: runtime.NumCPU(), CPUUsed: cpuUsed(r)}
	memory := meminfo()
	m.MemoryTotal, m.MemoryCache = memory["MemTotal"], memory["Cached"]
	m.MemoryUsed = m.MemoryTotal - min(memory["MemAvailable"], m.MemoryTotal)
	m.MemoryTotalMB, m.MemoryUsedMB = m.MemoryTotal>>20, m.MemoryUsed>>20
	var disk syscall.Statfs_t
	if syscall.Statfs("/", &disk) == nil {
		m.DiskTotal = disk.Blocks * uint64(disk.Bsize)
		m.DiskUsed = (disk.Blocks - disk.Bfree) * uint64(disk.Bsize)
	}
	reply(w, m)
}

// cpuUsed returns the use of all CPUs in percent.
func cpuUsed(r *http.Request) float64 {
	busyBefore, allBefore := cpuTicks()
	select {
	case <-time.After(cpuWindow):
	case <-r.Context().Done():
	}
	busy, all := cpuTicks()
	if all <= allBefore || busy < busyBefore {
		return 0
	}
	return float64(busy-busyBefore) / float64(all-allBefore) * 100
}

func cpuTicks() (busy, all uint64) {
	text, _ := os.ReadFile("/proc/stat")
	line, _, _ := strings.Cut(string(text), "\n")
	for i, word := range strings.Fields(line) {
		ticks, err := strconv.ParseUint(word, 10, 64)
		if err != nil {
			continue
		}
		all += ticks
		// The fourth and fifth numbers are idle and I/O wait.
		if i != 4 && i != 5 {
			busy += ticks
		}
	}
	return busy, all
}

func meminfo() map[string]uint64 {
	figures := map[string]uint64{}
	file, err := os.Open("/proc/meminfo")
	if err != nil {
		return figures
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if len(words) < 2 {
			continue
		}
		kib, _ := strconv.ParseUint(words[1], 10, 64)
		figures[strings.TrimSuffix(words[0], ":")] = kib << 10
	}
	return figures
}
