package pod

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"strings"
	"syscall"

	"ramet.dev/native/link/internal/fault"
)

// mapIDs makes the caller root of the new user namespace. Where the caller has subordinate ids and newuidmap, the ids
// from 1 up are those; else root is the only one.
func mapIDs(pid int) error {
	users, usersFound := subordinate("/etc/subuid")
	groups, groupsFound := subordinate("/etc/subgid")
	if usersFound && groupsFound {
		errUsers := mapWith("newuidmap", pid, os.Getuid(), users)
		errGroups := error(nil)
		if errUsers == nil {
			errGroups = mapWith("newgidmap", pid, os.Getgid(), groups)
		}
		if errUsers == nil && errGroups == nil {
			return nil
		}
		// A map can be written once, so half of one cannot be mended with a single id.
		if errUsers == nil {
			return fault.New("HostUnsupported", "Install uidmap (newuidmap and newgidmap, setuid root) as a whole, or remove it", "Mapping groups into the user namespace failed: %v", errGroups)
		}
	}
	// Without a privilege outside, a group may be mapped only where setgroups(2) is given up (user_namespaces(7)).
	proc := fmt.Sprintf("/proc/%d/", pid)
	for _, write := range []struct{ file, text string }{
		{"setgroups", "deny"},
		{"uid_map", fmt.Sprintf("0 %d 1", os.Geteuid())},
		{"gid_map", fmt.Sprintf("0 %d 1", os.Getegid())},
	} {
		if err := os.WriteFile(proc+write.file, []byte(write.text), 0); err != nil {
			return refusal(true, err)
		}
	}
	return nil
}

type idRange struct{ first, count int }

// subordinate finds the caller's range in /etc/subuid or /etc/subgid (subuid(5)).
func subordinate(path string) (idRange, bool) {
	file, err := os.Open(path)
	if err != nil {
		return idRange{}, false
	}
	defer func() { _ = file.Close() }()
	name, id := "", strconv.Itoa(os.Getuid())
	if me, err := user.LookupId(id); err == nil {
		name = me.Username
	}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		fields := strings.Split(lines.Text(), ":")
		if len(fields) != 3 || fields[0] != id && (name == "" || fields[0] != name) {
			continue
		}
		first, err1 := strconv.Atoi(fields[1])
		count, err2 := strconv.Atoi(fields[2])
		if err1 == nil && err2 == nil && count > 0 {
			return idRange{first, count}, true
		}
	}
	return idRange{}, false
}

func mapWith(tool string, pid, id int, more idRange) error {
	path, err := exec.LookPath(tool)
	if err != nil {
		return err
	}
	out, err := exec.Command(path, strconv.Itoa(pid), "0", strconv.Itoa(id), "1",
		"1", strconv.Itoa(more.first), strconv.Itoa(more.count)).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

// refusal says which of the many switches refused the namespaces, and how to turn it.
func refusal(userNamespace bool, err error) *fault.Fault {
	const what = "Making the namespaces of a pod failed: %v"
	if !userNamespace {
		return fault.New("HostUnsupported", "Run it with CAP_SYS_ADMIN, or as an ordinary user", what, err)
	}
	for _, s := range []struct{ path, off, hint string }{
		{"/proc/sys/user/max_user_namespaces", "0", "sysctl -w user.max_user_namespaces=15000"},
		{"/proc/sys/kernel/unprivileged_userns_clone", "0", "sysctl -w kernel.unprivileged_userns_clone=1"},
		{"/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1", "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, or give ramet-link an AppArmor profile with `userns,`"},
	} {
		if text, readErr := os.ReadFile(s.path); readErr == nil && strings.TrimSpace(string(text)) == s.off {
			name := strings.ReplaceAll(strings.TrimPrefix(s.path, "/proc/sys/"), "/", ".")
			return fault.New("HostUnsupported", "As root: "+s.hint, what+", because %s is %s", err, name, s.off)
		}
	}
	hint := "Allow user namespaces for this user, or run as root"
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EUSERS) {
		hint = "Raise the sysctl user.max_user_namespaces: too many are in use"
	}
	return fault.New("HostUnsupported", hint, what+" (seccomp, a container's profile or chroot may refuse user namespaces)", err)
}

func line(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return "{}"
	}
	return string(text)
}
