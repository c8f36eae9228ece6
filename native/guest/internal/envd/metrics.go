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

// metrics reports what the sandbox uses, and its limits. /proc shows a sandbox the CPUs and the memory of its machine.
func (s *Server) metrics(w http.ResponseWriter, _ *http.Request) {
	limits := s.identity.Limits()
	cpus := float64(limits.CPUMillis) / 1000
	if cpus == 0 {
		cpus = float64(runtime.NumCPU())
	}
	m := metrics{Timestamp: time.Now().Unix(), CPUCount: wholeCPUs(cpus), CPUUsed: s.cpu.percentOf(cpus)}
	memory := meminfo()
	m.MemoryTotal, m.MemoryCache = memory["MemTotal"], memory["Cached"]
	m.MemoryUsed = m.MemoryTotal - min(memory["MemAvailable"], m.MemoryTotal)
	if limits.MemoryBytes > 0 {
		m.MemoryTotal = min(m.MemoryTotal, uint64(limits.MemoryBytes))
	}
	m.MemoryTotalMB, m.MemoryUsedMB = m.MemoryTotal>>20, m.MemoryUsed>>20
	var disk syscall.Statfs_t
	if syscall.Statfs("/", &disk) == nil {
		m.DiskTotal = disk.Blocks * uint64(disk.Bsize)
		m.DiskUsed = (disk.Blocks - disk.Bfree) * uint64(disk.Bsize)
	}
	reply(w, m)
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
