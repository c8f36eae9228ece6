package layers

import (
	"bufio"
	"os"
	"strings"
)

// MountsBelowRoot returns the mount points of this process, without leading slashes (proc_pid_mountinfo(5)).
func MountsBelowRoot() ([]string, error) {
	file, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	var mounts []string
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		fields := strings.Split(lines.Text(), " ")
		if len(fields) < 5 || fields[4] == "/" {
			continue
		}
		mounts = append(mounts, strings.TrimPrefix(unescape.Replace(fields[4]), "/"))
	}
	return mounts, lines.Err()
}
